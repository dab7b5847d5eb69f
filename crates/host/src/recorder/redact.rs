//! Removes the user name and the host name from a recording.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use gpubuild_core::order::SortIndirect as _;

use crate::{Os, ReadFiles};

/// Common names, which do not identify a person or machine. Replacing them would corrupt other text.
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
/// Names in folders of home folders that are not those of users.
const NOT_USERS: [&str; 6] = ["All Users", "Default", "Default User", "Public", "Shared", "linuxbrew"];
/// The folders of home folders.
const HOMES: [&str; 3] = ["/home/", "/Users/", "\\Users\\"];
/// Minimum length of a name in characters. Shorter names occur in too many other words.
const MIN_LENGTH: usize = 3;

/// The names to replace.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction {
    /// Names and their replacements, longest first. Only complete words are replaced.
    names: Vec<(String, &'static str)>,
    /// Names of other users, in paths of their home folders. Only there they are replaced.
    others: BTreeSet<String>,
    ignore_case: bool,
}

impl Redaction {
    /// Collects user and host names from the environment and files of a host.
    pub(super) fn of(host: &dyn ReadFiles) -> Self {
        let env = host.env();
        let mut names = Vec::new();
        for variable in ["HOME", "USERPROFILE"] {
            let Some(home) = env.get(variable).map(|home| host.path(home)) else { continue };
            names.extend(home.file_name().map(|name| (name.to_owned(), "user")));
        }
        for variable in ["USER", "LOGNAME", "USERNAME", "SUDO_USER"] {
            names.extend(env.get(variable).map(|name| (name.to_owned(), "user")));
        }
        for variable in ["HOSTNAME", "HOST", "COMPUTERNAME", "USERDOMAIN"] {
            names.extend(env.get(variable).map(|name| (name.to_owned(), "host")));
        }
        if host.platform().os == Os::Linux {
            for path in ["/proc/sys/kernel/hostname", "/etc/hostname"] {
                let name = host.read_text(&host.path(path)).unwrap_or_default();
                names.push((name.trim().to_owned(), "host"));
            }
        }
        let short: Vec<_> = names
            .iter()
            .filter_map(|(name, new)| name.split_once('.').map(|(short, _)| (short.to_owned(), *new)))
            .collect();
        names.extend(short);
        names.retain(|(name, _)| {
            name.chars().count() >= MIN_LENGTH && !COMMON.contains(&name.to_lowercase().as_str())
        });
        names.sort_indirect_by(|left, right| right.0.len().cmp(&left.0.len()).then_with(|| left.cmp(right)));
        names.dedup();
        Self { names, others: BTreeSet::new(), ignore_case: host.platform().os == Os::Windows }
    }

    /// Collects the names of other users from the paths of home folders in a text.
    pub(super) fn collect(&mut self, text: &str) {
        for range in users(text) {
            let name = &text[range];
            if !self.is_known(name) {
                self.others.insert(name.to_owned());
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let is = |other: &str| name == other || (self.ignore_case && name.eq_ignore_ascii_case(other));
        COMMON.contains(&name.to_lowercase().as_str())
            || NOT_USERS.contains(&name)
            || name.strip_prefix("user").is_some_and(|number| number.parse::<u32>().is_ok())
            || self.names.iter().any(|(known, _)| is(known))
    }

    /// Replaces the names of other users in paths: `/home/jane` becomes `/home/user2`.
    fn in_paths(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for range in users(text) {
            let Some(number) = self.others.iter().position(|name| name == &text[range.clone()]) else {
                continue;
            };
            result.push_str(&text[done..range.start]);
            result.push_str("user");
            result.push_str(&(number + 2).to_string());
            done = range.end;
        }
        result.push_str(&text[done..]);
        result
    }

    /// Replaces all names in a text.
    pub(super) fn text(&self, text: &str) -> String {
        let text = self.in_paths(text);
        self.names.iter().fold(text, |text, (name, new)| self.replace(&text, name, new))
    }

    /// Whether binary content contains one of the names.
    pub(super) fn occurs_in(&self, bytes: &[u8]) -> bool {
        self.names.iter().any(|(name, _)| {
            bytes.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
        })
    }

    fn replace(&self, text: &str, name: &str, new: &str) -> String {
        // Fold ASCII only, so that byte offsets stay the same.
        let fold = |text: &str| if self.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let (haystack, needle) = (fold(text), fold(name));
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

/// The names after the folders of home folders in a text.
fn users(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for home in HOMES {
        for (at, _) in text.match_indices(home) {
            let is_end = |c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
            let before = text[..at].rsplit(is_end).next().unwrap_or_default();
            // The folder is the first one of a path, which may follow an option: `-I/home/x`, but not `/srv/home/x`.
            if !before.is_empty() && !before.starts_with('-') {
                continue;
            }
            let start = at + home.len();
            let length = text[start..].find(is_end).unwrap_or(text.len() - start);
            if length > 0 {
                found.push(start..start + length);
            }
        }
    }
    found.sort_indirect_by_key(|range| range.start);
    found
}

/// Removes other users from `/etc/group`: keeps system groups, and of their members only the recording user (already replaced by
/// `user`) and common names.
pub(super) fn groups(content: &[u8]) -> Arc<[u8]> {
    /// The first group id that is not reserved for the system.
    const FIRST_USER_GROUP: u32 = 1000;
    let text = String::from_utf8_lossy(content);
    let line = |line: &str| -> Option<String> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, password, gid, members] = fields[..] else { return None };
        let is_system = gid.parse::<u32>().is_ok_and(|gid| gid < FIRST_USER_GROUP);
        let known: Vec<&str> = members.split(',').filter(|member| COMMON.contains(member)).collect();
        (is_system || COMMON.contains(&name))
            .then(|| format!("{name}:{password}:{gid}:{}\n", known.join(",")))
    };
    Arc::from(text.lines().filter_map(line).collect::<String>().into_bytes())
}

/// Keeps only the parameters of the kernel that concern GPUs: others can contain addresses, disks and passwords.
pub(super) fn kernel_parameters(content: &[u8]) -> Arc<[u8]> {
    const ABOUT_GPUS: [&str; 10] =
        ["amdgpu", "blacklist", "drm", "i915", "iommu", "modeset", "nouveau", "nvidia", "pci", "vfio"];
    let text = String::from_utf8_lossy(content);
    let is_kept = |parameter: &&str| ABOUT_GPUS.iter().any(|word| parameter.contains(word));
    let mut kept = text.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ");
    kept.push('\n');
    Arc::from(kept.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, RecordedHost};

    #[test]
    fn parameters_of_the_kernel_that_concern_no_gpu_are_removed() {
        let line =
            b"root=UUID=1234 console=ttyS0 modprobe.blacklist=nouveau,nvidia token=abc nomodeset quiet\n";
        assert_eq!(&*kernel_parameters(line), b"modprobe.blacklist=nouveau,nvidia nomodeset\n");
        assert_eq!(&*kernel_parameters(b""), b"\n");
    }

    #[test]
    fn other_users_are_removed_from_groups() {
        let text = "root:x:0:\nvideo:x:44:user,jane,ubuntu\njane:x:1001:\nuser:x:1000:\nbroken\n";
        assert_eq!(&*groups(text.as_bytes()), b"root:x:0:\nvideo:x:44:user,ubuntu\nuser:x:1000:\n");
    }

    #[test]
    fn names_are_replaced_as_complete_words_except_common_ones() {
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
        assert!(redaction.occurs_in(b"\0/home/alice\0") && !redaction.occurs_in(b"bob"));
        let root =
            RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/root").env("USER", "root").build();
        assert_eq!(Redaction::of(&root).text("/root/x root"), "/root/x root");
    }

    #[test]
    fn other_users_are_replaced_in_paths() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/home/alice").build();
        let mut redaction = Redaction::of(&host);
        redaction.collect(
            "/home/jo/cuda:/Users/bob.b C:\\Users\\Zoë\\x /home/ubuntu/y /Users/Shared /srv/home/kim",
        );
        for (text, expected) in [
            ("/home/jo/lib:/home/alice/lib", "/home/user4/lib:/home/user/lib"),
            ("jo bob.b /opt/jo", "jo bob.b /opt/jo"),
            ("-I/Users/bob.b/x", "-I/Users/user3/x"),
            ("=/Users/bob.b", "=/Users/user3"),
            ("c:\\Users\\Zoë", "c:\\Users\\user2"),
            ("/home/ubuntu /Users/Shared /srv/home/kim", "/home/ubuntu /Users/Shared /srv/home/kim"),
        ] {
            assert_eq!(redaction.text(text), expected);
        }
    }

    #[test]
    fn windows_names_are_replaced_regardless_of_case() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("USERPROFILE", r"C:\Users\Alice")
            .env("COMPUTERNAME", "WONDER")
            .build();
        let redaction = Redaction::of(&host);
        assert_eq!(redaction.text(r"c:\users\ALICE\x \\Wonder\share"), r"c:\users\user\x \\host\share");
    }
}
