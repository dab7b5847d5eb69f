//! The binary encoding of a document.
//!
//! A value consists of a tag, its span in the text (optional) and its content. All numbers are little-endian. Spans and the byte
//! lengths of arrays and tables are 32-bit numbers. The length of a string is encoded as LEB128: seven bits per byte, the lowest
//! first; the eighth bit is set if more bytes follow. A table is a sequence of alternating keys and values; keys are strings.

use std::ops::Range;

use toml::de::{DeFloat, DeInteger, DeValue};

use crate::TomlError;

/// Whether the encoding contains the span of each value in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spans {
    Kept,
    Dropped,
}

/// The type of a value, and the value of a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    False,
    True,
    Integer,
    Float,
    String,
    Array,
    Table,
}

const TAGS: [Tag; 7] = [Tag::False, Tag::True, Tag::Integer, Tag::Float, Tag::String, Tag::Array, Tag::Table];

pub(crate) struct Writer<'a> {
    bytes: Vec<u8>,
    spans: Spans,
    /// Keys that are left out of all tables.
    without: &'a [&'a str],
}

impl<'a> Writer<'a> {
    pub(crate) fn new(spans: Spans, without: &'a [&'a str]) -> Self {
        Self { bytes: Vec::new(), spans, without }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn value(&mut self, value: &DeValue<'_>, span: Range<usize>) -> Result<(), TomlError> {
        match value {
            DeValue::Boolean(false) => self.head(Tag::False, span),
            DeValue::Boolean(true) => self.head(Tag::True, span),
            DeValue::Integer(number) => {
                let number = integer(number)
                    .ok_or_else(|| TomlError::new("integer number overflowed", Some(span.clone())))?;
                self.head(Tag::Integer, span)?;
                self.bytes.extend(number.to_le_bytes());
                Ok(())
            }
            DeValue::Float(number) => {
                let number = float(number)
                    .ok_or_else(|| TomlError::new("floating-point number overflowed", Some(span.clone())))?;
                self.head(Tag::Float, span)?;
                self.bytes.extend(number.to_le_bytes());
                Ok(())
            }
            DeValue::String(text) => self.text(text, span),
            DeValue::Datetime(time) => self.text(&time.to_string(), span),
            DeValue::Array(items) => {
                self.head(Tag::Array, span)?;
                self.with_length(|writer| {
                    items.iter().try_for_each(|item| writer.value(item.get_ref(), item.span()))
                })
            }
            DeValue::Table(table) => {
                self.head(Tag::Table, span)?;
                self.with_length(|writer| {
                    let without = writer.without;
                    let mut kept = table.iter().filter(|(key, _)| !without.contains(&key.get_ref().as_ref()));
                    kept.try_for_each(|(key, value)| {
                        writer.text(key.get_ref(), key.span())?;
                        writer.value(value.get_ref(), value.span())
                    })
                })
            }
        }
    }

    fn text(&mut self, text: &str, span: Range<usize>) -> Result<(), TomlError> {
        self.head(Tag::String, span)?;
        let mut length = text.len();
        while length > 0x7f {
            self.bytes.push(0x80 | length.to_le_bytes()[0]);
            length >>= 7;
        }
        self.bytes.push(length.to_le_bytes()[0]);
        self.bytes.extend(text.as_bytes());
        Ok(())
    }

    fn head(&mut self, tag: Tag, span: Range<usize>) -> Result<(), TomlError> {
        self.bytes.push(tag as u8);
        if self.spans == Spans::Kept {
            self.number(span.start)?;
            self.number(span.end)?;
        }
        Ok(())
    }

    /// Writes the byte length of `content`, then the content.
    fn with_length(
        &mut self,
        content: impl FnOnce(&mut Self) -> Result<(), TomlError>,
    ) -> Result<(), TomlError> {
        let start = self.bytes.len();
        self.number(0)?;
        content(self)?;
        let length = to_u32(self.bytes.len() - start - 4)?;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn number(&mut self, number: usize) -> Result<(), TomlError> {
        self.bytes.extend(to_u32(number)?.to_le_bytes());
        Ok(())
    }
}

fn to_u32(number: usize) -> Result<u32, TomlError> {
    u32::try_from(number).map_err(|_| TomlError::new("the document is larger than 4 GiB", None))
}

fn integer(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn float(number: &DeFloat<'_>) -> Option<f64> {
    let text = number.as_str();
    text.parse().ok().filter(|value: &f64| value.is_finite() || text.contains("inf") || text.contains("nan"))
}

/// Reads values in order.
pub(crate) struct ByteReader<'de> {
    bytes: &'de [u8],
    spans: Spans,
    at: usize,
    inserted: Option<Inserted>,
}

/// A value that is returned before the next one of the document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Inserted {
    Text(&'static str),
    Number(usize),
}

impl<'de> ByteReader<'de> {
    pub(crate) fn new(bytes: &'de [u8], spans: Spans) -> Self {
        Self { bytes, spans, at: 0, inserted: None }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.spans == Spans::Dropped
    }

    /// Skips the next value and returns its bytes.
    pub(crate) fn raw_value(&mut self) -> Result<&'de [u8], TomlError> {
        let start = self.at;
        match self.tag()? {
            Tag::False | Tag::True => {}
            Tag::Integer | Tag::Float => drop(self.eight()?),
            Tag::String => drop(self.text()?),
            Tag::Array | Tag::Table => {
                let length = self.length()?;
                self.take(length)?;
            }
        }
        self.bytes.get(start..self.at).ok_or_else(invalid)
    }

    pub(crate) fn insert(&mut self, value: Inserted) {
        self.inserted = Some(value);
    }

    /// Returns the next tag without reading it.
    pub(crate) fn peek(&self) -> Result<Tag, TomlError> {
        match self.inserted {
            Some(Inserted::Text(_)) => return Ok(Tag::String),
            Some(Inserted::Number(_)) => return Ok(Tag::Integer),
            None => {}
        }
        let tag = self.bytes.get(self.at).and_then(|byte| TAGS.get(usize::from(*byte)));
        tag.copied().ok_or_else(invalid)
    }

    /// Returns the span of the next value without reading it.
    pub(crate) fn span(&self) -> Option<Range<usize>> {
        let number = |offset| Some(read_u32(self.bytes.get(self.at + offset..)?)? as usize);
        if self.spans == Spans::Kept { Some(number(1)?..number(5)?) } else { None }
    }

    pub(crate) fn tag(&mut self) -> Result<Tag, TomlError> {
        let tag = self.peek()?;
        if self.inserted.is_none() {
            self.at += if self.spans == Spans::Kept { 9 } else { 1 };
        }
        Ok(tag)
    }

    pub(crate) fn integer(&mut self) -> Result<i64, TomlError> {
        if let Some(Inserted::Number(number)) = self.inserted.take() {
            return i64::try_from(number).map_err(|_| invalid());
        }
        self.eight().map(i64::from_le_bytes)
    }

    pub(crate) fn float(&mut self) -> Result<f64, TomlError> {
        self.eight().map(f64::from_le_bytes)
    }

    fn eight(&mut self) -> Result<[u8; 8], TomlError> {
        self.take(8)?.try_into().map_err(|_| invalid())
    }

    pub(crate) fn text(&mut self) -> Result<&'de str, TomlError> {
        if let Some(Inserted::Text(text)) = self.inserted.take() {
            return Ok(text);
        }
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = self.take(1)?[0];
            length |= usize::from(byte & 0x7f).checked_shl(shift).ok_or_else(invalid)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        std::str::from_utf8(self.take(length)?).map_err(|_| invalid())
    }

    /// The position of the next value.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the string at a position.
    pub(crate) fn text_at(&self, position: usize) -> Option<&'de str> {
        let mut reader = Self { bytes: self.bytes, spans: self.spans, at: position, inserted: None };
        reader.tag().ok()?;
        reader.text().ok()
    }

    /// Reads the length of an array or table and returns the position of its end.
    pub(crate) fn end(&mut self) -> Result<usize, TomlError> {
        let length = self.length()?;
        Ok(self.at + length)
    }

    pub(crate) fn is_at(&self, end: usize) -> bool {
        self.at >= end
    }

    /// Continues at a position, skipping content that was not read.
    pub(crate) fn skip_to(&mut self, end: usize) {
        self.at = end;
    }

    fn length(&mut self) -> Result<usize, TomlError> {
        read_u32(self.take(4)?).map(|length| length as usize).ok_or_else(invalid)
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8], TomlError> {
        let end = self.at.checked_add(count).ok_or_else(invalid)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(invalid)?;
        self.at = end;
        Ok(taken)
    }
}

fn read_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn invalid() -> TomlError {
    TomlError::new("the data was not encoded by this version of `encode`", None)
}
