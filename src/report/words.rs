//! Wraps text for a terminal.

use gpubuild_core::clean;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wraps text at spaces and escapes invisible characters. A word that is too wide is broken after a `/` if possible, otherwise at the end of
/// the line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = clean::line(text);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace().flat_map(|word| pieces(word, width)) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.width() > width {
        let mut used = 0;
        let mut end = 0;
        let mut separator = None;
        for c in rest.chars() {
            used += c.width().unwrap_or(0);
            if used > width && end > 0 {
                break;
            }
            end += c.len_utf8();
            if matches!(c, '/' | '\\') {
                separator = Some(end);
            }
        }
        let (head, tail) = rest.split_at(separator.unwrap_or(end));
        pieces.push(head);
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("averyverylongword x", 8), ["averyver", "ylongwor", "d x"]);
        assert_eq!(wrap("in /usr/local/lib: x", 8), ["in /usr/", "local/", "lib: x"]);
        assert_eq!(wrap("显卡显卡显", 4), ["显卡", "显卡", "显"]);
        assert_eq!(wrap("显x", 1), ["显", "x"]);
        assert_eq!(wrap("a\u{9b}b\ntwo", 12), [r"a\u{9b}b two"]);
        assert!(wrap("", 5).is_empty());
    }
}
