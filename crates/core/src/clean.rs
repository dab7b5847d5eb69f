//! Cleans text from a machine before it is shown. Device names, paths, environment values and log lines can contain any
//! character, and some characters mislead terminals, CI log readers and people.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum length of a command in bytes. Longer commands are not shown.
const LONGEST_COMMAND: usize = 4096;

/// Whether a character is invisible: it controls a terminal, changes the writing direction, has no width, or is
/// forbidden in XML.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{13430}'..='\u{13440}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
        || (u32::from(c) & 0xfffe) == 0xfffe
}

/// The text as one line of visible characters: line breaks and tabs become spaces, other hidden characters are written as escapes
/// such as `\u{9b}`, and markers that CI services interpret as commands are split.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.as_str().starts_with('\n') => {}
            '\t' | '\n' => clean.push(' '),
            c => push_visible(&mut clean, c, rest.as_str()),
        }
    }
    Cow::Owned(clean)
}

/// Appends a character, which `rest` follows: escaped if it is hidden, and with a space before the second `#` of a log command.
pub(crate) fn push_visible(clean: &mut String, c: char, rest: &str) {
    if is_hidden(c) {
        let _ = write!(clean, "{}", c.escape_unicode());
    } else {
        if c == '#' && clean.ends_with('#') && opens_log_command(rest) {
            clean.push(' ');
        }
        clean.push(c);
    }
}

/// Like [`line()`], but cut after `limit` characters with a note on how many are missing.
#[must_use]
pub fn short(text: &str, limit: usize) -> Cow<'_, str> {
    // Do not clean text far beyond the limit.
    let looked_at = text.char_indices().nth(limit.saturating_mul(8)).map_or(text.len(), |(end, _)| end);
    let clean = line(&text[..looked_at]);
    let end = clean.char_indices().nth(limit).map(|(end, _)| end);
    if end.is_none() && looked_at == text.len() {
        return clean;
    }
    let end = end.unwrap_or(clean.len());
    let more = clean[end..].chars().count() + text[looked_at..].chars().count();
    Cow::Owned(format!("{}… (and {more} more characters)", &clean[..end]))
}

/// The text with at most `limit` bytes of each line, and a note on how many characters are missing.
#[must_use]
pub fn with_short_lines(text: &str, limit: usize) -> Cow<'_, str> {
    if text.split('\n').all(|line| line.len() <= limit) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| {
        if line.len() <= limit {
            return Cow::Borrowed(line);
        }
        let end = (0..=limit).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        let (start, rest) = line.split_at(end);
        Cow::Owned(format!("{start}… (and {} more characters)", rest.chars().count()))
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// A command that can be shown exactly as it is run; `None` if cleaning would change it.
#[must_use]
pub fn command(text: &str) -> Option<&str> {
    let shown = log_command(text).is_none() && text.len() <= LONGEST_COMMAND && line(text) == text;
    shown.then_some(text)
}

/// JSON with all hidden characters written as `\u` escapes, so that terminals and CI logs do not interpret them as
/// commands. Outside of strings, JSON has no such characters.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && c != '\n';
    if !text.chars().any(hides) && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for (start, c) in text.char_indices() {
        let in_command = c == '#' && clean.ends_with('#') && opens_log_command(&text[start + 1..]);
        if hides(c) || in_command {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(clean, "\\u{unit:04x}");
            }
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// The position in a line at which a space stops a CI service from executing the line as a command; `None` if no service does. GitHub
/// ignores white space before the two colons.
#[must_use]
pub fn log_command(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let start = line.len() - text.len();
    let marks =
        [("::", 1), ("section_start:", 13), ("section_end:", 11), ("travis_fold:", 11), ("travis_time:", 11)];
    marks.iter().find(|(mark, _)| text.starts_with(mark)).map(|(_, split)| start + split)
}

/// Whether `rest` follows `##` as in `##[error]`, `##vso[…]`, `##teamcity[…]`: log readers look for these anywhere in a line.
#[must_use]
pub fn opens_log_command(rest: &str) -> bool {
    rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-').starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_visible_text_is_kept() {
        for (text, expected) in [
            ("NVIDIA H200", "NVIDIA H200"),
            ("\u{1b}[31mred\u{1b}[0m", r"\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}]0;title\u{7}after", r"\u{1b}]0;title\u{7}after"),
            ("\u{1b}", r"\u{1b}"),
            ("\u{9b}31mred", r"\u{9b}31mred"),
            ("a\u{7}b\0c\u{7f}", r"a\u{7}b\u{0}c\u{7f}"),
            ("a\r\nb\nc\rd\te", r"a b c\u{d}d e"),
            ("a\u{2028}b\u{2029}c\u{85}d", r"a\u{2028}b\u{2029}c\u{85}d"),
            ("a\u{202e}b\u{200b}c\u{feff}\u{ad}", r"a\u{202e}b\u{200b}c\u{feff}\u{ad}"),
            ("x\u{ffff}y\u{e0041}", r"x\u{ffff}y\u{e0041}"),
            ("##[error]x", "# #[error]x"),
            ("a ##vso[task.setvariable]x", "a # #vso[task.setvariable]x"),
            ("###[x", "## #[x"),
            ("## heading", "## heading"),
            ("C#, C##", "C#, C##"),
            ("RTX 4090 – größer 中文", "RTX 4090 – größer 中文"),
        ] {
            assert_eq!(line(text), expected, "{text:?}");
            assert_eq!(line(&line(text)), expected, "applied twice: {text:?}");
        }
    }

    #[test]
    fn long_text_is_cut_with_a_note() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("äbcd", 3), "äbc… (and 1 more characters)");
        assert_eq!(short(&"x".repeat(1 << 20), 1), "x… (and 1048575 more characters)");
        assert_eq!(short(&"\u{1b}[".repeat(100), 7), r"\u{1b}[… (and 333 more characters)");
    }

    #[test]
    fn a_command_is_shown_unchanged_or_not_at_all() {
        for text in ["sudo apt install g++-13", "sed 's/##/#/' x"] {
            assert_eq!(command(text), Some(text));
        }
        for text in [
            "a\nb",
            " ::warning::x",
            "rm '\u{202e}x'",
            "::error::x",
            "echo '##[set-output name=a]b'",
            "\u{1b}[1m",
            "section_start:1:x",
        ] {
            assert_eq!(command(text), None, "{text:?}");
        }
        assert_eq!(command(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn cleaned_json_has_the_same_value() {
        let value = serde_json::json!({"a": "\u{9b}x\u{202e}\u{7f}\u{e0041}\u{2028}##[error]\\##[x]\"", "b": ["ok", 1]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let clean = json(&text);
        assert!(!clean.chars().any(|c| is_hidden(c) && c != '\n') && !clean.contains("##["), "{clean}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&clean).unwrap(), value);
        assert!(matches!(json("{\n  \"a\": 1\n}"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        for (text, expected) in [
            ("abcd\nab", "abcd\nab"),
            ("abcdef\nab", "abcd… (and 2 more characters)\nab"),
            ("abcé", "abc… (and 1 more characters)"),
            ("", ""),
        ] {
            assert_eq!(with_short_lines(text, 4), expected, "{text}");
        }
        assert_eq!(with_short_lines("é", 1), "… (and 1 more characters)");
    }
}
