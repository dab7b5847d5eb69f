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
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
        || (u32::from(c) & 0xfffe) == 0xfffe
}

/// The text as one line of visible characters: escape sequences are removed, line breaks and tabs become spaces, other
/// hidden characters become `\u{fffd}`, and markers that CI services interpret as commands are split.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = escape_sequence(rest) {
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' if clean.ends_with(' ') && text[..text.len() - rest.len()].ends_with("\r\n") => {}
            '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            c if is_hidden(c) => clean.push(char::REPLACEMENT_CHARACTER),
            '#' if clean.ends_with('#') && opens_log_command(rest) => clean.push_str(" #"),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
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

/// A command that can be shown exactly as it is run; `None` if cleaning would change it.
#[must_use]
pub fn command(text: &str) -> Option<&str> {
    // GitHub's runner interprets a line that begins with two colons as a command.
    let shown = !text.trim_start().starts_with("::") && text.len() <= LONGEST_COMMAND && line(text) == text;
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

/// Whether `rest` follows `##` as in `##[error]`, `##vso[…]`, `##teamcity[…]`: log readers look for these anywhere in a line.
fn opens_log_command(rest: &str) -> bool {
    rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-').starts_with('[')
}

/// Returns the text after the escape sequence at the start of `text`. For an unterminated sequence, only the introducer is
/// skipped, so that the sequence cannot hide the rest of the text.
fn escape_sequence(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let kind = match chars.next()? {
        '\u{1b}' => chars.next().unwrap_or(' '),
        '\u{9b}' => '[',
        '\u{9d}' => ']',
        '\u{90}' => 'P',
        '\u{98}' => 'X',
        '\u{9e}' => '^',
        '\u{9f}' => '_',
        _ => return None,
    };
    let body = chars.as_str();
    match kind {
        '[' => {
            let end = body.find(|c: char| !('\u{20}'..='\u{3f}').contains(&c));
            let last = end.and_then(|end| body[end..].chars().next());
            match (end, last) {
                (Some(end), Some(last @ '\u{40}'..='\u{7e}')) => Some(&body[end + last.len_utf8()..]),
                _ => Some(body),
            }
        }
        ']' | 'P' | 'X' | '^' | '_' => {
            let end = body.find(['\u{7}', '\u{1b}', '\u{9c}', '\n', '\r']);
            match end.map(|end| &body[end..]) {
                Some(tail) if tail.starts_with("\u{1b}\\") => Some(&tail[2..]),
                Some(tail) if tail.starts_with(['\u{7}', '\u{9c}']) => {
                    Some(tail.trim_start_matches('\u{7}').trim_start_matches('\u{9c}'))
                }
                _ => Some(body),
            }
        }
        // Charset designations have one more character.
        '(' | ')' | '*' | '+' | '#' | '%' => Some(body.get(1..).unwrap_or(body)),
        '\u{30}'..='\u{7e}' => Some(body),
        _ => Some(&text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_removed_and_visible_text_is_kept() {
        for (text, expected) in [
            ("NVIDIA H200", "NVIDIA H200"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Htop", "top"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;https://x.example\u{1b}\\click\u{1b}]8;;\u{1b}\\", "click"),
            ("\u{1b}]0;no end", "0;no end"),
            ("\u{1b}[", ""),
            ("\u{1b}[12", "12"),
            ("\u{1b}(0x", "x"),
            ("\u{1b}cx", "x"),
            ("\u{1b}\u{1b}[1mx", "x"),
            ("\u{9b}31mred", "red"),
            ("a\u{7}b\0c\u{7f}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("a\r\nb\nc\rd\te", "a b c d e"),
            ("a\u{2028}b\u{2029}c\u{85}d", "a b c d"),
            ("a\u{202e}b\u{200b}c\u{feff}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("x\u{ffff}y\u{e0041}", "x\u{fffd}y\u{fffd}"),
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
    fn an_escape_sequence_cut_inside_a_wide_character_is_handled() {
        for text in [
            "\u{1b}(ü",
            "\u{1b}ü",
            "\u{1b}[ü",
            "\u{9b}",
            "\u{1b}",
            "\u{1b}]ü",
            "\u{1b}]\u{1b}",
            "\u{9d}\u{9c}",
        ] {
            assert!(!line(text).chars().any(is_hidden), "{text:?}");
        }
    }

    #[test]
    fn long_text_is_cut_with_a_note() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("äbcd", 3), "äbc… (and 1 more characters)");
        assert_eq!(short(&"x".repeat(1 << 20), 1), "x… (and 1048575 more characters)");
        assert_eq!(short(&"\u{1b}[".repeat(100), 10), "… (and 120 more characters)");
        assert_eq!(short(&"\u{1b}[".repeat(10), 10), "");
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
}
