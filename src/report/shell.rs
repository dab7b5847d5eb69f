//! Values of a machine as one word of a command line, so that a path can't become a command.

use std::borrow::Cow;

use crate::host::Os;

/// The value as one word: for a POSIX shell, on Windows for PowerShell. Control characters are left out.
#[must_use]
pub fn quote(os: Os, value: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,~".contains(c) || (os == Os::Windows && c == '\\');
    let clean: Cow<'_, str> = if value.chars().any(char::is_control) {
        value.chars().filter(|c| !c.is_control()).collect::<String>().into()
    } else {
        value.into()
    };
    if !clean.is_empty() && clean.chars().all(plain) && !clean.starts_with(['~', '=']) {
        return clean.into_owned();
    }
    match os {
        Os::Windows => format!("'{}'", clean.replace('\'', "''")),
        Os::Linux | Os::Macos => format!("'{}'", clean.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_word() {
        for (value, posix, windows) in [
            ("/usr/local/cuda-12.4", "/usr/local/cuda-12.4", "/usr/local/cuda-12.4"),
            (r"C:\CUDA", r"'C:\CUDA'", r"C:\CUDA"),
            ("a b", "'a b'", "'a b'"),
            ("$(rm -rf ~)", "'$(rm -rf ~)'", "'$(rm -rf ~)'"),
            ("it's", r"'it'\''s'", "'it''s'"),
            ("", "''", "''"),
            ("a\n;b", "'a;b'", "'a;b'"),
            ("~root", "'~root'", "'~root'"),
        ] {
            assert_eq!(quote(Os::Linux, value), posix);
            assert_eq!(quote(Os::Windows, value), windows);
        }
    }
}
