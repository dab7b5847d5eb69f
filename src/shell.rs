//! Values in quotes of a shell, so that a path can't become a command.

/// For a POSIX shell.
#[must_use]
pub(crate) fn posix(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// For fish, which reads a backslash before itself and before a quote.
#[must_use]
pub(crate) fn fish(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

/// For PowerShell, which takes typographic quotes for quotes; doubled they stand for themselves.
#[must_use]
pub(crate) fn powershell(value: &str) -> String {
    let mut quoted = String::from("'");
    for c in value.chars() {
        if matches!(c, '\'' | '\u{2018}'..='\u{201b}') {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted + "'"
}
