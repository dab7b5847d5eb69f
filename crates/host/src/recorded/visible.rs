//! Rewrites the strings of a TOML document so that it has no hidden characters and no line that a CI service executes. The values of the
//! strings stay the same.

use std::fmt::Write as _;

use gpubuild_core::clean::{is_hidden, log_command, opens_log_command};
use gpubuild_core::screen::{Colors, screen};

/// The delimiters of strings, longest first.
const DELIMITERS: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// Escapes the strings of a document that [`toml::to_string_pretty`] has written: it has no comments.
pub(super) fn visible(toml: &str) -> String {
    let mut text = String::with_capacity(toml.len());
    let mut rest = toml;
    while let Some(start) = rest.find(['"', '\'']) {
        let (before, string) = rest.split_at(start);
        text.push_str(before);
        let delimiter = DELIMITERS.into_iter().find(|mark| string.starts_with(mark)).unwrap_or("\"");
        // An empty string looks like the beginning of a longer delimiter only if a third quotation mark follows.
        let content = &string[delimiter.len()..];
        let end = content_end(content, delimiter);
        push_string(&mut text, delimiter, &content[..end]);
        rest = content.get(end + delimiter.len()..).unwrap_or_default();
    }
    text + rest
}

/// The length of the content of a string that ends with a delimiter. Up to two quotation marks may precede the delimiter.
fn content_end(text: &str, delimiter: &str) -> usize {
    let mut at = 0;
    while at < text.len() && !text[at..].starts_with(delimiter) {
        let is_escape = delimiter.starts_with('"') && text[at..].starts_with('\\');
        let mut next = text[at..].chars();
        at += next.next().map_or(0, char::len_utf8);
        at += next.next().filter(|_| is_escape).map_or(0, char::len_utf8);
    }
    while delimiter.len() == 3 && text.get(at + 1..).is_some_and(|text| text.starts_with(delimiter)) {
        at += 1;
    }
    at
}

fn push_string(text: &mut String, delimiter: &str, content: &str) {
    if screen(content, Colors::Remove) == content {
        let _ = write!(text, "{delimiter}{content}{delimiter}");
        return;
    }
    let is_literal = delimiter.starts_with('\'');
    let quotes = if delimiter.len() == 3 { DELIMITERS[0] } else { DELIMITERS[2] };
    text.push_str(quotes);
    for (index, line) in content.split('\n').enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let command = log_command(line);
        let mut last = ' ';
        for (at, c) in line.char_indices() {
            match c {
                '\\' if is_literal => text.push_str("\\\\"),
                '"' if is_literal => text.push_str("\\\""),
                '\t' => text.push(c),
                '#' if last == '#' && opens_log_command(&line[at + 1..]) => push_escape(text, c),
                c if is_hidden(c) || command == Some(at) => push_escape(text, c),
                c => text.push(c),
            }
            last = c;
        }
    }
    text.push_str(quotes);
}

fn push_escape(text: &mut String, c: char) {
    let code = u32::from(c);
    let _ = if code > 0xffff { write!(text, "\\U{code:08x}") } else { write!(text, "\\u{code:04x}") };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn values_are_kept_and_nothing_is_hidden() {
        let values = [
            "plain",
            "it's \"quoted\" \\ back",
            "'''",
            "\"\"\"",
            "a\n'''\"\"\"\nb\u{9b}",
            "a\n::error::x\n  ::add-mask::\\\"y",
            "::error::x",
            "##[error]x ###[y]",
            "\\##[x]\u{202e}",
            "C:\\a\u{200b}\\b'",
            "\u{9b}31m\u{e0041}\u{feff}\u{ad}\u{2028}",
            "line\n\ttab\u{85}\nsection_start:1:x\n",
            "\u{1b}[31m\0\u{7f}",
            "\u{202e}\"",
            "\u{202e}\"\n\"\"",
            "",
        ];
        let numbered = values.iter().enumerate();
        let values: BTreeMap<String, String> =
            numbered.map(|(at, value)| (format!("k{at}\u{200b}"), (*value).to_owned())).collect();
        let text = visible(&toml::to_string_pretty(&values).unwrap());
        for line in text.split('\n') {
            assert_eq!(screen(line, Colors::Remove), line);
        }
        assert_eq!(toml::from_str::<BTreeMap<String, String>>(&text).unwrap(), values, "{text}");
    }

    #[test]
    fn ordinary_documents_are_not_changed() {
        let text = "a = 'x\"y'\nb = '''\n## note ##a\nC:\\n'''\nempty = \"\"\n[\"k y\"]\nc = \"\\\"\\\\\"\n";
        assert_eq!(visible(text), text);
    }
}
