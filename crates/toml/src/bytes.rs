//! The form of a document in bytes.
//!
//! A value is a tag, its place in the text where places are kept, and its content. Places and the lengths of arrays and tables
//! are 32-bit numbers, all numbers are little-endian. The length of a string has seven bits to a byte, the lowest first, and the
//! eighth where more follow. A table is keys and values in turn; a key is written as a string is.

use std::ops::Range;

use toml::de::{DeFloat, DeInteger, DeValue};

use crate::TomlError;

/// Whether values have their place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spans {
    Kept,
    Dropped,
}

/// What a value is.
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

pub(crate) struct Writer {
    bytes: Vec<u8>,
    spans: Spans,
}

impl Writer {
    pub(crate) fn new(spans: Spans) -> Self {
        Self { bytes: Vec::new(), spans }
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
                self.measured(|writer| {
                    items.iter().try_for_each(|item| writer.value(item.get_ref(), item.span()))
                })
            }
            DeValue::Table(table) => {
                self.head(Tag::Table, span)?;
                self.measured(|writer| {
                    table.iter().try_for_each(|(key, value)| {
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

    fn measured(
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

/// Goes through the bytes once, from the front.
pub(crate) struct ByteReader<'de> {
    bytes: &'de [u8],
    spans: Spans,
    at: usize,
    inserted: Option<Inserted>,
}

/// A value that is read before the next one, though it is not in the document.
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

    /// The bytes of the next value, without reading it.
    pub(crate) fn whole(&mut self) -> Result<&'de [u8], TomlError> {
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
        self.bytes.get(start..self.at).ok_or_else(broken)
    }

    pub(crate) fn insert(&mut self, value: Inserted) {
        self.inserted = Some(value);
    }

    /// The next tag, which stays the next.
    pub(crate) fn peek(&self) -> Result<Tag, TomlError> {
        match self.inserted {
            Some(Inserted::Text(_)) => return Ok(Tag::String),
            Some(Inserted::Number(_)) => return Ok(Tag::Integer),
            None => {}
        }
        let tag = self.bytes.get(self.at).and_then(|byte| TAGS.get(usize::from(*byte)));
        tag.copied().ok_or_else(broken)
    }

    /// The place of the next value, which stays the next.
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
            return i64::try_from(number).map_err(|_| broken());
        }
        self.eight().map(i64::from_le_bytes)
    }

    pub(crate) fn float(&mut self) -> Result<f64, TomlError> {
        self.eight().map(f64::from_le_bytes)
    }

    fn eight(&mut self) -> Result<[u8; 8], TomlError> {
        self.take(8)?.try_into().map_err(|_| broken())
    }

    pub(crate) fn text(&mut self) -> Result<&'de str, TomlError> {
        if let Some(Inserted::Text(text)) = self.inserted.take() {
            return Ok(text);
        }
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = self.take(1)?[0];
            length |= usize::from(byte & 0x7f).checked_shl(shift).ok_or_else(broken)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        std::str::from_utf8(self.take(length)?).map_err(|_| broken())
    }

    /// The text that comes next, which stays the next.
    pub(crate) fn peek_text(&mut self) -> Result<&'de str, TomlError> {
        let at = self.at;
        self.tag()?;
        let text = self.text();
        self.at = at;
        text
    }

    /// Where the content ends that begins here with its length.
    pub(crate) fn end(&mut self) -> Result<usize, TomlError> {
        let length = self.length()?;
        Ok(self.at + length)
    }

    pub(crate) fn is_at(&self, end: usize) -> bool {
        self.at >= end
    }

    /// Goes on after content that may not have been read whole.
    pub(crate) fn skip_to(&mut self, end: usize) {
        self.at = end;
    }

    fn length(&mut self) -> Result<usize, TomlError> {
        read_u32(self.take(4)?).map(|length| length as usize).ok_or_else(broken)
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8], TomlError> {
        let end = self.at.checked_add(count).ok_or_else(broken)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(broken)?;
        self.at = end;
        Ok(taken)
    }
}

fn read_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn broken() -> TomlError {
    TomlError::new("these bytes were not written by this version of `encode`", None)
}
