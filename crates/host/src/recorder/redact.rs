//! Removes the user name and the host name from a recording.

use std::sync::Arc;

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
/// Minimum length of a name in characters. Shorter names occur in too many other words.
const MIN_LENGTH: usize = 3;

/// The names to replace.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction {
    /// Names and their replacements, longest first. Only complete words are replaced.
    names: Vec<(String, &'static str)>,
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
        names.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then_with(|| left.cmp(right)));
        names.dedup();
        Self { names, ignore_case: host.platform().os == Os::Windows }
    }

    /// Replaces all names in a text.
    pub(super) fn text(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, new)| self.replace(&text, name, new))
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
    fn windows_names_are_replaced_regardless_of_case() {
        let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("USERPROFILE", r"C:\Users\Alice")
            .env("COMPUTERNAME", "WONDER")
            .build();
        let redaction = Redaction::of(&host);
        assert_eq!(redaction.text(r"c:\users\ALICE\x \\Wonder\share"), r"c:\users\user\x \\host\share");
    }
}
