//! Fix texts that show the corrected line.

use super::text::{SourceText, find_word, sanitize};

/// A fix that replaces `old` with `new` in a line: the whole corrected line if `old` is found in it.
#[must_use]
pub fn replace(source: &SourceText, line: usize, old: &str, new: &str) -> String {
    let corrected = if old.is_empty() { None } else { source.corrected(line, old, new) };
    corrected.map_or_else(
        || format!("replace `{}` with `{}` in line {line}", sanitize(old), sanitize(new)),
        |corrected| format!("change line {line} to `{corrected}`"),
    )
}

/// Like [`replace`] for several replacements in the same line.
#[must_use]
pub fn replace_all<'a>(
    source: &SourceText,
    line: usize,
    changes: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = source.line(line).to_owned();
    let mut missed = Vec::new();
    for (old, new) in changes {
        match find_word(&text, old) {
            Some(at) => text.replace_range(at..at + old.len(), new),
            None => missed.push(format!("`{}` with `{}`", sanitize(old), sanitize(new))),
        }
    }
    if missed.is_empty() {
        format!("change line {line} to `{}`", sanitize(&text))
    } else {
        format!("replace {} in line {line}", missed.join(", "))
    }
}

/// A fix that inserts `new` after `after` in a line.
#[must_use]
pub fn append(source: &SourceText, line: usize, after: &str, new: &str) -> String {
    let corrected =
        if after.is_empty() { None } else { source.corrected(line, after, &format!("{after} {new}")) };
    corrected.map_or_else(
        || format!("add `{}` to the command in line {line}", sanitize(new)),
        |corrected| format!("change line {line} to `{corrected}`"),
    )
}
