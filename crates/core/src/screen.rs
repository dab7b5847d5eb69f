//! Text for a terminal or the log of a CI service. It cannot move the cursor, hide text, or begin a line that a CI service executes.

use std::borrow::Cow;

use crate::clean::{is_hidden, log_command, push_visible};

/// What to do with colours and other styles in a text (`ESC [ … m`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// Keep them, except the style that conceals text.
    Keep,
    /// Remove them.
    Remove,
}

/// What the lines of a message after the first one begin with.
const CONTINUATION: &str = "  ";

const RESET: &str = "\u{1b}[0m";

/// Escapes all lines of a text. Hidden characters except tabs are escaped as in [`clean::line`](crate::clean::line()), and a space splits
/// commands of CI services.
#[must_use]
pub fn screen(text: &str, colors: Colors) -> Cow<'_, str> {
    let is_safe = |line: &str| {
        !line.chars().any(|c| is_hidden(c) && c != '\t')
            && !line.contains("##")
            && log_command(line).is_none()
    };
    if text.split('\n').all(is_safe) {
        return Cow::Borrowed(text);
    }
    let text = if colors == Colors::Remove { without_styles(text) } else { Cow::Borrowed(text) };
    let mut screened = String::with_capacity(text.len());
    let mut is_styled = false;
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            screened.push('\n');
        }
        is_styled = push_line(&mut screened, line.strip_suffix('\r').unwrap_or(line), is_styled);
    }
    if is_styled {
        screened.push_str(RESET);
    }
    Cow::Owned(screened)
}

/// Escapes a message as [`screen`] does. All lines after the first one are indented, so that a line break in a name or value cannot begin
/// a line such as `error: …`, which looks like another message. Lines that are already indented keep their form.
#[must_use]
pub fn message(text: &str, colors: Colors) -> Cow<'_, str> {
    let screened = screen(text, colors);
    let is_indented =
        |line: &str| line.is_empty() || line.starts_with(CONTINUATION) || line.starts_with('\t');
    if screened.split('\n').skip(1).all(is_indented) {
        return screened;
    }
    let mut lines = screened.split('\n');
    let mut message = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        message.push('\n');
        if !line.is_empty() {
            message.push_str(CONTINUATION);
            message.push_str(line);
        }
    }
    Cow::Owned(message)
}

/// Indents lines after the first one that look like a message of gpubuild. An error in the arguments has several paragraphs, and may quote
/// an argument with line breaks.
#[must_use]
pub fn without_labels(text: &str) -> String {
    const LABELS: [&str; 3] = ["error:", "warning:", "hint:"];
    let is_label = |line: &str| {
        let plain = screen(line, Colors::Remove);
        LABELS.iter().any(|label| plain.trim_start().starts_with(label))
    };
    let mut plain = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            plain.push_str(if is_label(line) { "\n  " } else { "\n" });
        }
        plain.push_str(line);
    }
    plain
}

/// Appends a line with its styles. Returns whether a style is in effect at its end.
fn push_line(screened: &mut String, text: &str, mut is_styled: bool) -> bool {
    let split = log_command(&without_styles(text));
    let mut unstyled = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(style) = style(rest) {
            screened.push_str(style);
            is_styled = ![RESET, "\u{1b}[m"].contains(&style);
            rest = &rest[style.len()..];
            continue;
        }
        if split == Some(unstyled) {
            screened.push(' ');
        }
        unstyled += c.len_utf8();
        rest = &rest[c.len_utf8()..];
        if c == '\t' {
            screened.push(c);
        } else {
            push_visible(screened, c, rest);
        }
    }
    is_styled
}

fn without_styles(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\u{1b}') {
        let (before, after) = rest.split_at(start);
        plain.push_str(before);
        let skipped = style(after).map_or(0, str::len);
        if skipped == 0 {
            plain.push('\u{1b}');
        }
        rest = &after[skipped.max(1)..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The style at the start of a text; `None` if the text begins otherwise, or if the style conceals text.
fn style(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    let is_style = parameters[end..].starts_with('m') && end <= 32 && !conceals(&parameters[..end]);
    is_style.then(|| &text[..end + "\u{1b}[m".len()])
}

/// Whether 8 is among the parameters of a style, other than as a part of a colour (`38;5;8`, `38;2;8;8;8`).
fn conceals(parameters: &str) -> bool {
    let mut numbers = parameters.split([';', ':']).map(|number| number.parse().unwrap_or(0));
    while let Some(number) = numbers.next() {
        let of_color = match number {
            8 => return true,
            38 | 48 | 58 => numbers.next(),
            _ => None,
        };
        for _ in 0..of_color.map_or(0, |kind: u32| if kind == 2 { 3 } else { 1 }) {
            numbers.next();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_styles_are_kept_and_everything_else_is_escaped() {
        for (text, kept, removed) in [
            ("a\n\tb\n", "a\n\tb\n", "a\n\tb\n"),
            ("a\r\nb\rc", "a\nb\\u{d}c", "a\nb\\u{d}c"),
            ("\u{1b}[1;31mred\u{1b}[0m x", "\u{1b}[1;31mred\u{1b}[0m x", "red x"),
            ("\u{1b}[32mgreen\u{1b}[m", "\u{1b}[32mgreen\u{1b}[m", "green"),
            ("\u{1b}[38;5;8mgrey", "\u{1b}[38;5;8mgrey\u{1b}[0m", "grey"),
            ("\u{1b}[0;8mx", r"\u{1b}[0;8mx", r"\u{1b}[0;8mx"),
            ("\u{1b}[2Jx\u{9b}31m\u{202e}", r"\u{1b}[2Jx\u{9b}31m\u{202e}", r"\u{1b}[2Jx\u{9b}31m\u{202e}"),
            ("\u{1b}]0;x\u{7}\u{1b}", r"\u{1b}]0;x\u{7}\u{1b}", r"\u{1b}]0;x\u{7}\u{1b}"),
        ] {
            assert_eq!(screen(text, Colors::Keep), kept, "{text:?}");
            assert_eq!(screen(text, Colors::Remove), removed, "{text:?}");
            assert_eq!(screen(kept, Colors::Keep), kept, "applied twice: {text:?}");
        }
    }

    #[test]
    fn a_message_has_no_second_line_without_indentation() {
        for (text, expected) in [
            ("a", "a"),
            ("a\n", "a\n"),
            ("a\n  b\n\n\tc", "a\n  b\n\n\tc"),
            ("a\nerror: b", "a\n  error: b"),
            ("a\r\nerror: b", "a\n  error: b"),
            ("a\n error: b\n  c\n", "a\n   error: b\n    c\n"),
            ("a\n\u{3000}error: b", "a\n  \u{3000}error: b"),
            ("a\n  |\n3 | x\n  | ^", "a\n    |\n  3 | x\n    | ^"),
            ("a\rerror: b\u{2028}error: c", r"a\u{d}error: b\u{2028}error: c"),
            ("a\n\u{1b}[31merror: b\u{1b}[0m", "a\n  error: b"),
            ("a\n::error::b", "a\n  : :error::b"),
        ] {
            assert_eq!(message(text, Colors::Remove), expected, "{text:?}");
            assert_eq!(message(expected, Colors::Remove), expected, "applied twice: {text:?}");
        }
        let styled = message("a\n\u{1b}[31merror: b", Colors::Keep);
        assert_eq!(styled, "a\n  \u{1b}[31merror: b\u{1b}[0m");
    }

    #[test]
    fn only_the_first_line_of_several_paragraphs_has_a_label() {
        let text = "error: invalid value 'a\nerror: b\n \u{1b}[1mhint: c\nerrors' for x\n\nUsage: y";
        let expected = "error: invalid value 'a\n  error: b\n   \u{1b}[1mhint: c\nerrors' for x\n\nUsage: y";
        assert_eq!(without_labels(text), expected);
    }

    #[test]
    fn no_line_is_a_command_of_a_ci_service() {
        for (text, screened) in [
            ("::error::x", ": :error::x"),
            ("a\n \t::add-mask::x", "a\n \t: :add-mask::x"),
            ("a\r\n\u{3000}::x::", "a\n\u{3000}: :x::"),
            ("a ::b c::d", "a ::b c::d"),
            ("x ##[error]y", "x # #[error]y"),
            ("##vso[task.x]", "# #vso[task.x]"),
            ("##teamcity[x]", "# #teamcity[x]"),
            ("section_start:1:x", "section_start :1:x"),
            ("travis_fold:end:x", "travis_fold :end:x"),
            ("\u{1b}[1m::error::\u{1b}[0mx", ": :error::x"),
            (":\u{1b}[1m:error::x", ": :error::x"),
            ("#\u{1b}[1m#\u{1b}[1m[error]x", "# #[error]x"),
            ("a\u{85}::error::x", r"a\u{85}::error::x"),
        ] {
            assert_eq!(screen(text, Colors::Remove), screened, "{text:?}");
        }
        assert_eq!(screen("\u{1b}[1m::x\u{1b}[0m", Colors::Keep), "\u{1b}[1m: :x\u{1b}[0m");
    }
}
