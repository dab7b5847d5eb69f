//! Takes out of a recording what tells who recorded it: home folder, user name, host name.

use std::sync::Arc;

use crate::{Os, ReadFiles};

/// Names that many machines share. They tell nothing, and replacing them would spoil other words.
const COMMON: [&str; 22] = [
    "root",
    "user",
    "admin",
    "administrator",
    "ubuntu",
    "debian",
    "fedora",
    "arch",
    "vagrant",
    "runner",
    "localhost",
    "host",
    "linux",
    "windows",
    "nvidia",
    "cuda",
    "rocm",
    "docker",
    "build",
    "home",
    "local",
    "system",
];
/// Shorter names stand inside too many other words.
const SHORTEST: usize = 3;

/// What is replaced by what.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction {
    /// Old and new text; the old one only counts as a whole word. Longest first.
    words: Vec<(String, &'static str)>,
    ignore_case: bool,
}

impl Redaction {
    /// What has to go from recordings of this host.
    pub(super) fn of(host: &dyn ReadFiles) -> Self {
        let env = host.env();
        let mut words = Vec::new();
        for variable in ["HOME", "USERPROFILE"] {
            let Some(home) = env.get(variable).map(|home| host.path(home)) else { continue };
            words.extend(home.file_name().map(|name| (name.to_owned(), "user")));
        }
        for variable in ["USER", "LOGNAME", "USERNAME", "SUDO_USER"] {
            words.extend(env.get(variable).map(|name| (name.to_owned(), "user")));
        }
        for variable in ["HOSTNAME", "HOST", "COMPUTERNAME", "USERDOMAIN"] {
            words.extend(env.get(variable).map(|name| (name.to_owned(), "host")));
        }
        if host.platform().os == Os::Linux {
            for path in ["/proc/sys/kernel/hostname", "/etc/hostname"] {
                let name = host.read_text(&host.path(path)).unwrap_or_default();
                words.push((name.trim().to_owned(), "host"));
            }
        }
        let short: Vec<_> = words
            .iter()
            .filter_map(|(name, new)| name.split_once('.').map(|(short, _)| (short.to_owned(), *new)))
            .collect();
        words.extend(short);
        words.retain(|(word, _)| {
            word.chars().count() >= SHORTEST && !COMMON.contains(&word.to_lowercase().as_str())
        });
        words.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then_with(|| left.cmp(right)));
        words.dedup();
        Self { words, ignore_case: host.platform().os == Os::Windows }
    }

    /// The text without the names.
    pub(super) fn text(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, new)| self.replace(&text, word, new))
    }

    /// Whether bytes that are no text contain one of the names.
    pub(super) fn concerns(&self, bytes: &[u8]) -> bool {
        self.words.iter().any(|(word, _)| {
            bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
        })
    }

    fn replace(&self, text: &str, word: &str, new: &str) -> String {
        // Lower case of ASCII only keeps every byte's place.
        let fold = |text: &str| if self.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let (haystack, needle) = (fold(text), fold(word));
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for (at, _) in haystack.match_indices(&needle) {
            let end = at + needle.len();
            let is_word = |c: char| c.is_alphanumeric();
            let inside = text[..at].chars().next_back().is_some_and(is_word)
                || text[end..].chars().next().is_some_and(is_word);
            if inside || at < done {
                continue;
            }
            result.push_str(&text[done..at]);
            result.push_str(new);
            done = end;
        }
        result.push_str(&text[done..]);
        result
    }
}

/// A file of groups without other people: the system's groups, and of their members only who recorded (by now called
/// `user`) and names that many machines share.
pub(super) fn groups(content: &[u8]) -> Arc<[u8]> {
    const FIRST_OF_PEOPLE: u32 = 1000;
    let text = String::from_utf8_lossy(content);
    let line = |line: &str| -> Option<String> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, password, gid, members] = fields[..] else { return None };
        let of_system = gid.parse::<u32>().is_ok_and(|gid| gid < FIRST_OF_PEOPLE);
        let known: Vec<&str> = members.split(',').filter(|member| COMMON.contains(member)).collect();
        (of_system || COMMON.contains(&name))
            .then(|| format!("{name}:{password}:{gid}:{}\n", known.join(",")))
    };
    Arc::from(text.lines().filter_map(line).collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, RecordedHost};

    #[test]
    fn groups_without_other_people() {
        let text = "root:x:0:\nvideo:x:44:user,jane,ubuntu\njane:x:1001:\nuser:x:1000:\nbroken\n";
        assert_eq!(&*groups(text.as_bytes()), b"root:x:0:\nvideo:x:44:user,ubuntu\nuser:x:1000:\n");
    }

    #[test]
    fn names_go_as_whole_words_and_common_ones_stay() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/alice")
            .env("USER", "alice")
            .file("/etc/hostname", "wonder.land.example\n")
            .build();
        let redaction = Redaction::of(&host);
        for (text, expected) in [
            ("/home/alice/cuda:/opt/malice", "/home/user/cuda:/opt/malice"),
            ("alice@wonder.land.example", "user@host"),
            ("wonder alice_alice", "host user_user"),
            ("wonderful", "wonderful"),
        ] {
            assert_eq!(redaction.text(text), expected);
        }
        assert!(redaction.concerns(b"\0/home/alice\0") && !redaction.concerns(b"bob"));
        let root =
            RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/root").env("USER", "root").build();
        assert_eq!(Redaction::of(&root).text("/root/x root"), "/root/x root");
    }

    #[test]
    fn windows_names_go_in_any_case() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("USERPROFILE", r"C:\Users\Alice")
            .env("COMPUTERNAME", "WONDER")
            .build();
        let redaction = Redaction::of(&host);
        assert_eq!(redaction.text(r"c:\users\ALICE\x \\Wonder\share"), r"c:\users\user\x \\host\share");
    }
}
