//! A command of a remedy and where it has its effect.

use gpubuild_core::Os;
use gpubuild_detect::finding::Remedy;
use serde::Serialize;

/// Where a command has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CommandKind {
    /// It runs as the current user.
    User,
    /// It asks for root.
    Root,
    /// It changes variables of the shell that runs it.
    Shell,
    /// It runs on the host of a container, or in Windows outside of WSL.
    Outside,
    /// It ends or replaces the session that runs it: a restart, `newgrp`.
    Session,
    /// It has a placeholder that only the user can replace.
    Example,
}

/// A command of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupCommand {
    /// The command as it is shown and run. Package managers get the flag that answers their questions with yes, because the user
    /// confirms the whole step.
    pub command: String,
    /// Where it has its effect.
    pub kind: CommandKind,
}

impl SetupCommand {
    /// A command of a remedy for a system.
    #[must_use]
    pub fn of(text: &str, os: Os) -> Self {
        Self { command: assume_yes(text), kind: kind(text, os) }
    }
}

/// Whether the commands of a remedy change nothing but variables of the shell and gpubuild's cache.
pub(crate) fn is_safe(remedy: &Remedy, os: Os) -> bool {
    let is_safe =
        |text: &String| text.starts_with("gpubuild toolkit install ") || kind(text, os) == CommandKind::Shell;
    remedy.needs.is_empty() && !remedy.commands.is_empty() && remedy.commands.iter().all(is_safe)
}

fn kind(text: &str, os: Os) -> CommandKind {
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    if text.contains("# on the host") || text.contains("# in Windows") {
        return CommandKind::Outside;
    }
    let sets_variable = match os {
        Os::Windows => first == "set" || first.starts_with("$env:") || text.contains(" Env:"),
        Os::Linux | Os::Macos => matches!(first, "export" | "unset" | "source" | "." | "eval"),
    };
    if sets_variable {
        return CommandKind::Shell;
    }
    if words
        .iter()
        .any(|word| matches!(*word, "newgrp" | "reboot" | "shutdown" | "poweroff" | "Restart-Computer"))
    {
        return CommandKind::Session;
    }
    if is_example(&words, os) {
        return CommandKind::Example;
    }
    if words.iter().any(|word| matches!(*word, "sudo" | "su" | "doas" | "pkexec")) {
        return CommandKind::Root;
    }
    CommandKind::User
}

/// Whether a command contains `...`, `<name>` or a word in capitals such as `IMAGE`. On Windows, names of variables are such words.
fn is_example(words: &[&str], os: Os) -> bool {
    let is_capitals = |word: &str| {
        os != Os::Windows && word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let is_placeholder = |word: &str| word.starts_with('<') && word.ends_with('>') && word.len() > 2;
    words.iter().any(|word| matches!(*word, "..." | "…") || is_capitals(word) || is_placeholder(word))
}

/// Package managers, the flag that answers their questions with yes, and other spellings of it (from their manual pages).
const ASSUME_YES: [(&str, &str, &[&str]); 6] = [
    ("apt", "-y", &["--yes", "--assume-yes"]),
    ("apt-get", "-y", &["--yes", "--assume-yes"]),
    ("dnf", "-y", &["--assumeyes"]),
    ("yum", "-y", &["--assumeyes"]),
    ("zypper", "--non-interactive", &["-n"]),
    ("pacman", "--noconfirm", &[]),
];

/// Adds the flag after every package manager that starts a command of a line.
fn assume_yes(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out: Vec<&str> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        out.push(word);
        let starts = index == 0 || matches!(words[index - 1], "sudo" | "&&" | "||" | ";");
        let row = ASSUME_YES.iter().find(|(program, ..)| starts && program == word);
        let rest = || words[index..].iter().take_while(|word| !matches!(**word, "&&" | "||" | ";" | "|"));
        if let Some((_, flag, others)) = row
            && !rest().any(|word| word == flag || others.contains(word))
        {
            out.push(flag);
        }
    }
    out.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_classified_by_their_effect() {
        let cases = [
            ("apt install clinfo", CommandKind::User),
            ("sudo modprobe nvidia", CommandKind::Root),
            ("echo 'x' | sudo tee /etc/x", CommandKind::Root),
            ("unset VULKAN_SDK", CommandKind::Shell),
            ("export PATH=/x/bin:$PATH", CommandKind::Shell),
            ("eval \"$(gpubuild toolkit env cuda)\"", CommandKind::Shell),
            ("sudo systemctl reboot", CommandKind::Session),
            ("newgrp video", CommandKind::Session),
            ("docker run --gpus all IMAGE  # on the host", CommandKind::Outside),
            ("wsl --update  # in Windows", CommandKind::Outside),
            ("python -m pip install PACKAGE", CommandKind::Example),
            ("cmake -G Ninja ...", CommandKind::Example),
            ("kill <pid>", CommandKind::Example),
            ("gpubuild toolkit install cuda@13.0", CommandKind::User),
            ("sysctl -w A=1", CommandKind::User),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text, Os::Linux), expected, "{text}");
        }
        for text in ["set CUDA_VISIBLE_DEVICES=", "Set-Item Env:CUDAARCHS 90", "$env:PATH = 'x'"] {
            assert_eq!(kind(text, Os::Windows), CommandKind::Shell, "{text}");
        }
        assert_eq!(kind("setx CUDA_PATH C:\\CUDA", Os::Windows), CommandKind::User, "it writes the registry");
    }

    #[test]
    fn package_managers_ask_nothing() {
        let cases = [
            ("apt install clinfo", "apt -y install clinfo"),
            ("sudo apt update && sudo apt install x", "sudo apt -y update && sudo apt -y install x"),
            ("sudo apt-get install -y x", "sudo apt-get install -y x"),
            ("sudo zypper install x", "sudo zypper --non-interactive install x"),
            ("sudo pacman -S vulkan-headers", "sudo pacman --noconfirm -S vulkan-headers"),
            ("echo apt install", "echo apt install"),
            ("grep -r apt /etc", "grep -r apt /etc"),
        ];
        for (text, expected) in cases {
            assert_eq!(assume_yes(text), expected);
        }
    }
}
