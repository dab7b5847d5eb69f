//! User names and passwords for web servers in `~/.netrc`, parsed as curl, pip and uv do.

use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles};

use super::{CredentialLookup, FoundCredentials, Secret, SendPolicy, home, path_from_env};

#[derive(Default)]
struct NetrcEntry {
    /// The host; `None` for the `default` entry.
    machine: Option<String>,
    login: String,
    password: Option<String>,
}

/// The files to search, in order of precedence.
pub(super) fn paths(host: &dyn HostInfo) -> Vec<HostPath> {
    if let Some(only) = path_from_env(host, "NETRC") {
        return vec![only];
    }
    let Some(home) = home(host) else { return Vec::new() };
    match host.platform().os {
        Os::Windows => vec![home.join("_netrc"), home.join(".netrc")],
        Os::Linux | Os::Macos => vec![home.join(".netrc")],
    }
}

/// Looks up the credentials for a host.
pub(super) fn find(host: &dyn ReadFiles, machine: &str) -> CredentialLookup {
    let mut lookup = CredentialLookup::default();
    for path in paths(host) {
        let Some(bytes) = lookup.read(host, &path) else { continue };
        let entries = match parse(&String::from_utf8_lossy(&bytes)) {
            Ok(entries) => entries,
            Err(line) => {
                lookup.ignore(&path, &format!("line {line} is not a valid netrc entry"));
                continue;
            }
        };
        let own =
            |entry: &&NetrcEntry| entry.machine.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(machine));
        let with_password = || entries.iter().filter(|entry| entry.password.is_some());
        let entry =
            with_password().find(own).or_else(|| with_password().find(|entry| entry.machine.is_none()));
        if let Some(NetrcEntry { machine, login, password: Some(password) }) = entry {
            let (name, policy) = match machine {
                Some(machine) => (format!("machine {machine}"), SendPolicy::Preemptive),
                None => ("default".to_owned(), SendPolicy::OnChallenge),
            };
            let secret = Secret::Password { user: login.clone(), password: password.clone() };
            lookup.found = Some(FoundCredentials { secret, from: format!("`{name}` in {path}"), policy });
            break;
        }
    }
    lookup
}

/// All entries, or the number of the first invalid line.
fn parse(text: &str) -> Result<Vec<NetrcEntry>, usize> {
    let mut tokens = NetrcTokens { text, line: 1 };
    let mut entries: Vec<NetrcEntry> = Vec::new();
    while let Some(token) = tokens.next() {
        let line = tokens.line;
        match token.as_str() {
            "machine" => {
                let machine = Some(tokens.next().ok_or(line)?);
                entries.push(NetrcEntry { machine, ..NetrcEntry::default() });
            }
            "default" => entries.push(NetrcEntry::default()),
            "macdef" => tokens.skip_macro(),
            comment if comment.starts_with('#') => tokens.skip_line(),
            "login" | "user" | "password" | "account" => {
                let (value, entry) = (tokens.next().ok_or(line)?, entries.last_mut().ok_or(line)?);
                match token.as_str() {
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

/// Splits a text into tokens. A token may be in double quotes, in which `\` escapes a character.
struct NetrcTokens<'a> {
    text: &'a str,
    /// The line of the last token, from 1.
    line: usize,
}

impl NetrcTokens<'_> {
    fn next(&mut self) -> Option<String> {
        let start = self.text.trim_start();
        self.advance(self.text.len() - start.len());
        if start.is_empty() {
            return None;
        }
        let mut token = String::new();
        let is_quoted = start.starts_with('"');
        let mut end = start.len();
        let mut characters = start.char_indices().skip(usize::from(is_quoted));
        while let Some((at, c)) = characters.next() {
            match c {
                '"' if is_quoted => {
                    end = at + 1;
                    break;
                }
                '\\' if is_quoted => token.extend(characters.next().map(|(_, c)| c)),
                c if c.is_whitespace() && !is_quoted => {
                    end = at;
                    break;
                }
                c => token.push(c),
            }
        }
        self.text = &self.text[end..];
        Some(token)
    }

    /// Skips bytes and counts their line breaks.
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.text.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.text = rest;
    }

    /// Skips to the end of the line. The line break is counted with the next token.
    fn skip_line(&mut self) {
        self.advance(self.text.find('\n').unwrap_or(self.text.len()));
    }

    /// Skips a macro, which ends at an empty line.
    fn skip_macro(&mut self) {
        self.skip_line();
        while let Some(rest) = self.text.strip_prefix('\n') {
            let line = rest.split('\n').next().unwrap_or_default();
            self.advance(1 + line.len());
            if line.trim().is_empty() {
                return;
            }
        }
    }
}
