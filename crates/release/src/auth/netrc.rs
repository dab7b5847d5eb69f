//! Web servers' names and passwords: `~/.netrc`, as curl, pip and uv read it.

use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles};

use super::{CredentialLookup, FoundCredentials, Secret, Sent, home, of_variable};

/// An entry.
#[derive(Default)]
struct NetrcEntry {
    /// Its host; none is for all hosts.
    machine: Option<String>,
    login: String,
    password: Option<String>,
}

/// The files, the first one first.
pub(super) fn places(host: &dyn HostInfo) -> Vec<HostPath> {
    if let Some(only) = of_variable(host, "NETRC") {
        return vec![only];
    }
    let Some(home) = home(host) else { return Vec::new() };
    match host.platform().os {
        Os::Windows => vec![home.join("_netrc"), home.join(".netrc")],
        Os::Linux | Os::Macos => vec![home.join(".netrc")],
    }
}

/// Looks for a host.
pub(super) fn look(host: &dyn ReadFiles, machine: &str) -> CredentialLookup {
    let mut lookup = CredentialLookup::default();
    for place in places(host) {
        let Some(bytes) = lookup.read(host, &place) else { continue };
        let entries = match parse(&String::from_utf8_lossy(&bytes)) {
            Ok(entries) => entries,
            Err(line) => {
                lookup.broken(&place, &format!("line {line} is not what belongs there"));
                continue;
            }
        };
        let own =
            |entry: &&NetrcEntry| entry.machine.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(machine));
        let with_password = || entries.iter().filter(|entry| entry.password.is_some());
        let entry =
            with_password().find(own).or_else(|| with_password().find(|entry| entry.machine.is_none()));
        if let Some(NetrcEntry { machine, login, password: Some(password) }) = entry {
            let (name, sent) = match machine {
                Some(machine) => (format!("machine {machine}"), Sent::AtOnce),
                None => ("default".to_owned(), Sent::WhenAsked),
            };
            let secret = Secret::Password { user: login.clone(), password: password.clone() };
            lookup.found = Some(FoundCredentials { secret, from: format!("`{name}` in {place}"), sent });
            break;
        }
    }
    lookup
}

/// All entries, or the number of the first invalid line.
fn parse(text: &str) -> Result<Vec<NetrcEntry>, usize> {
    let mut words = NetrcWords { text, line: 1 };
    let mut entries: Vec<NetrcEntry> = Vec::new();
    while let Some(word) = words.next() {
        let line = words.line;
        match word.as_str() {
            "machine" => {
                let machine = Some(words.next().ok_or(line)?);
                entries.push(NetrcEntry { machine, ..NetrcEntry::default() });
            }
            "default" => entries.push(NetrcEntry::default()),
            "macdef" => words.skip_macro(),
            comment if comment.starts_with('#') => words.skip_line(),
            "login" | "user" | "password" | "account" => {
                let (value, entry) = (words.next().ok_or(line)?, entries.last_mut().ok_or(line)?);
                match word.as_str() {
                    "password" => entry.password = Some(value),
                    "account" => {}
                    _ => entry.login = value,
                }
            }
            _ => return Err(line),
        }
    }
    Ok(entries)
}

/// Words of a text: bare, or in quotes with `\` before what is meant as it is.
struct NetrcWords<'a> {
    text: &'a str,
    /// The line of the word that came last.
    line: usize,
}

impl NetrcWords<'_> {
    fn next(&mut self) -> Option<String> {
        let start = self.text.trim_start();
        self.count(self.text.len() - start.len());
        if start.is_empty() {
            return None;
        }
        let mut word = String::new();
        let is_quoted = start.starts_with('"');
        let mut end = start.len();
        let mut characters = start.char_indices().skip(usize::from(is_quoted));
        while let Some((at, c)) = characters.next() {
            match c {
                '"' if is_quoted => {
                    end = at + 1;
                    break;
                }
                '\\' if is_quoted => word.extend(characters.next().map(|(_, c)| c)),
                c if c.is_whitespace() && !is_quoted => {
                    end = at;
                    break;
                }
                c => word.push(c),
            }
        }
        self.text = &self.text[end..];
        Some(word)
    }

    /// Goes on, and counts lines.
    fn count(&mut self, bytes: usize) {
        let (passed, rest) = self.text.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.text = rest;
    }

    /// To the end of the line; its end stays, and is counted with the next word.
    fn skip_line(&mut self) {
        self.count(self.text.find('\n').unwrap_or(self.text.len()));
    }

    /// A macro ends with an empty line.
    fn skip_macro(&mut self) {
        self.skip_line();
        while let Some(rest) = self.text.strip_prefix('\n') {
            let line = rest.split('\n').next().unwrap_or_default();
            self.count(1 + line.len());
            if line.trim().is_empty() {
                return;
            }
        }
    }
}
