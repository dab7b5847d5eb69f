//! Quotes values as a single word of a command line or script, so that a path cannot become a command.

use crate::Os;
use crate::clean;

/// Quotes for a POSIX shell.
#[must_use]
pub fn posix(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Quotes for fish, where a backslash escapes itself and a quote.
#[must_use]
pub fn fish(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

/// Quotes for PowerShell, which treats typographic quotes as quotes; doubling escapes them.
#[must_use]
pub fn powershell(value: &str) -> String {
    let mut quoted = String::from("'");
    for c in value.chars() {
        if matches!(c, '\'' | '\u{2018}'..='\u{201b}') {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted + "'"
}

/// Quotes for CMake: a bracket argument with as many `=` as the value requires.
#[must_use]
pub fn cmake_bracket(value: &str) -> String {
    // `]` follows the value, so a `]` at the value's end must not complete a closing bracket either.
    let followed = format!("{value}]");
    let equals = (1..=followed.len())
        .map(|count| "=".repeat(count))
        .find(|equals| !followed.contains(&format!("]{equals}]")));
    let equals = equals.unwrap_or_default();
    format!("[{equals}[{value}]{equals}]")
}

/// Quotes for a POSIX shell, or for PowerShell on Windows. `None` if the value must not appear in a command: it contains
/// invisible characters, which hide what is run, or a program would parse it as an option.
#[must_use]
pub fn quote(os: Os, value: &str) -> Option<String> {
    if clean::line(value) != value || value.starts_with(['-', '–', '—', '―']) {
        return None;
    }
    let plain = |c: char| match os {
        Os::Windows => c.is_ascii_alphanumeric() || "/._-+:=\\".contains(c),
        Os::Linux | Os::Macos => c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c),
    };
    if !value.is_empty() && value.chars().all(plain) && !value.starts_with('=') {
        return Some(value.to_owned());
    }
    Some(match os {
        Os::Windows => powershell(value),
        Os::Linux | Os::Macos => posix(value),
    })
}

/// Quotes for a command in a message, or `placeholder` if the value must not appear in a command.
#[must_use]
pub fn word(value: &str, placeholder: &str) -> String {
    quote(Os::Linux, value).unwrap_or_else(|| placeholder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_value_is_one_word() {
        for (value, posix, windows) in [
            ("/usr/local/cuda-12.4", "/usr/local/cuda-12.4", "/usr/local/cuda-12.4"),
            (r"C:\CUDA", r"'C:\CUDA'", r"C:\CUDA"),
            ("a b", "'a b'", "'a b'"),
            ("$(rm -rf ~)", "'$(rm -rf ~)'", "'$(rm -rf ~)'"),
            ("it's", r"'it'\''s'", "'it''s'"),
            ("it\u{2019}s", "'it\u{2019}s'", "'it\u{2019}\u{2019}s'"),
            ("", "''", "''"),
            ("a;b", "'a;b'", "'a;b'"),
            ("~root", "'~root'", "'~root'"),
            ("=ls", "'=ls'", "'=ls'"),
            ("a,b", "a,b", "'a,b'"),
            ("@a", "@a", "'@a'"),
        ] {
            assert_eq!(quote(Os::Linux, value).as_deref(), Some(posix));
            assert_eq!(quote(Os::Windows, value).as_deref(), Some(windows));
        }
    }

    #[test]
    fn invisible_characters_and_options_are_refused() {
        for value in ["a\n;b", "a\u{202e}b", "\0", "\u{1b}[1m", "-rf", "–x", "##[error]x"] {
            assert_eq!(quote(Os::Linux, value), None, "{value:?}");
            assert_eq!(quote(Os::Windows, value), None, "{value:?}");
            assert_eq!(word(value, "FILE"), "FILE", "{value:?}");
        }
    }
}
