//! JSON in the format of Python's `json.dumps`, on which models were trained: spaces after commas and colons,
//! keys in insertion order, no HTML escapes.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// The options of `json.dumps` that templates use.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// Spaces per level; `None` = everything on one line.
    pub(super) indent: Option<usize>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    /// Escape all characters outside ASCII.
    pub(super) ascii: bool,
}

struct Writer<'a> {
    style: &'a Style,
    level: usize,
    has_items: bool,
}

impl Writer<'_> {
    fn line<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        match self.style.indent {
            Some(indent) => write!(writer, "\n{:width$}", "", width = indent * self.level),
            None => Ok(()),
        }
    }

    fn open<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.has_items = false;
        writer.write_all(bracket)
    }

    fn close<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.has_items {
            self.line(writer)?;
        }
        self.has_items = true;
        writer.write_all(bracket)
    }

    fn item<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.style.item_separator.as_bytes())?;
        }
        self.has_items = true;
        self.line(writer)
    }
}

impl Formatter for Writer<'_> {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.style.key_separator.as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Python does not escape DEL, like every other character that JSON allows.
        if !self.style.ascii || fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

/// Serialises a value.
pub(super) fn dumps(value: &impl Serialize, style: &Style) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let writer = Writer { style, level: 0, has_items: false };
    value.serialize(&mut Serializer::with_formatter(&mut bytes, writer))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::Value;

    fn style(indent: Option<usize>, ascii: bool) -> Style {
        let item_separator = if indent.is_some() { "," } else { ", " }.to_owned();
        Style { indent, item_separator, key_separator: ": ".to_owned(), ascii }
    }

    /// The expected texts were printed by Python 3.11.
    #[test]
    fn texts_match_python() {
        let list: Value =
            [Value::from(1), Value::from(2.5), Value::from(true), Value::from(())].into_iter().collect();
        let empty: [(&str, Value); 0] = [];
        let nothing: Value = std::iter::empty::<Value>().collect();
        let inner = Value::from_pairs([
            ("x", Value::from("é<😀>\"\n\u{7f}")),
            ("e", nothing),
            ("o", Value::from_pairs(empty)),
        ]);
        let value = Value::from_pairs([("b", list), ("a", inner)]);
        for (style, expected) in [
            (
                style(None, false),
                "{\"b\": [1, 2.5, true, null], \"a\": {\"x\": \"é<😀>\\\"\\n\u{7f}\", \"e\": [], \"o\": {}}}",
            ),
            (
                style(None, true),
                "{\"b\": [1, 2.5, true, null], \"a\": {\"x\": \"\\u00e9<\\ud83d\\ude00>\\\"\\n\u{7f}\", \"e\": [], \"o\": {}}}",
            ),
            (
                style(Some(2), false),
                "{\n  \"b\": [\n    1,\n    2.5,\n    true,\n    null\n  ],\n  \"a\": {\n    \"x\": \"é<😀>\\\"\\n\u{7f}\",\n    \"e\": [],\n    \"o\": {}\n  }\n}",
            ),
        ] {
            assert_eq!(dumps(&value, &style).expect("a value"), expected);
        }
    }
}
