//! The search for short texts in lines.

/// The position of a text in a line. `memchr::memmem::find` prepares each search, which takes longer than searching a line.
pub(super) fn find(line: &[u8], text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    memchr::memchr_iter(first, line).find(|start| line[*start..].starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn texts_are_found_at_their_first_position() {
        for (line, text, expected) in [
            ("a: b: c", ": ", Some(1)),
            ("eerror", "error", Some(1)),
            ("erro", "error", None),
            ("", "error", None),
            ("error", "error", Some(0)),
        ] {
            assert_eq!(find(line.as_bytes(), text.as_bytes()), expected, "{line}");
        }
    }
}
