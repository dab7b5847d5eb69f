//! Deserializes TOML: text at run time, or documents that a build script has already parsed.
//!
//! Part of gpubuild. The interface is not stable.
//!
//! Both are converted to the same binary encoding first, so that the code of each type is only compiled for one deserializer. (The
//! `toml` crate compiles it for three kinds of tables.) Embedded documents are not parsed at run time: a build script calls [`embed`],
//! and the program calls [`from_static`].

mod bytes;
mod de;
mod embed;
mod error;
mod lazy;

pub use embed::{embed, keys};
pub use error::TomlError;
pub use lazy::Lazy;
use serde_core::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use self::bytes::{ByteReader, Spans, Writer};

/// The maximum number of characters outside of strings that start or separate values and tables. The parser uses up to 500 bytes of memory
/// for each, so that a document needs at most 125 MB. The largest document of gpubuild has 7,000.
const MAX_SEPARATORS: usize = 250_000;

/// Deserializes a document.
///
/// # Errors
/// The text is not TOML, does not match the type, or has far more values than any real document. The error contains the line.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let bytes = write(text, Spans::Kept)?;
    de::read(ByteReader::new(&bytes, Spans::Kept)).map_err(|error| error.of(text))
}

/// Deserializes a document that was encoded by [`encode`].
///
/// # Errors
/// The document does not match the type. The error contains the keys of the value.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, TomlError> {
    de::read(ByteReader::new(bytes, Spans::Dropped))
}

/// Deserializes a document that was encoded by [`encode`] and is part of the program. Its [`Lazy`] values are not copied.
///
/// # Errors
/// The document does not match the type. The error contains the keys of the value.
pub fn from_static<T: DeserializeOwned>(bytes: &'static [u8]) -> Result<T, TomlError> {
    lazy::from_static(bytes)
}

/// Encodes a document for [`from_bytes`] and [`from_static`].
///
/// # Errors
/// The text is not TOML. The error contains the line.
pub fn encode(text: &str) -> Result<Vec<u8>, TomlError> {
    write(text, Spans::Dropped)
}

fn write(text: &str, spans: Spans) -> Result<Vec<u8>, TomlError> {
    if separators(text) > MAX_SEPARATORS {
        return Err(TomlError::new(&format!("it has more than {MAX_SEPARATORS} values"), None));
    }
    let syntax = |error: &toml::de::Error| TomlError::new(error.message(), error.span()).of(text);
    let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
    let mut writer = Writer::new(spans);
    let span = table.span();
    writer.value(&DeValue::Table(table.into_inner()), span).map_err(|error| error.of(text))?;
    Ok(writer.finish())
}

/// The number of characters outside of strings and comments that start or separate values and tables.
fn separators(text: &str) -> usize {
    let mut rest = text.as_bytes();
    let mut count = 0;
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'#' => after.iter().position(|byte| *byte == b'\n').map_or(&[], |end| &after[end..]),
            b'"' | b'\'' => after_string(rest),
            _ => {
                count += usize::from(b"=.,[{".contains(byte));
                after
            }
        };
    }
    count
}

/// What follows the string at the start of the text. A string on one line ends with the line, whatever it contains.
fn after_string(text: &[u8]) -> &[u8] {
    let quote = text[0];
    let long = [quote; 3];
    let is_long = text.starts_with(&long);
    let mut at = if is_long { 3 } else { 1 };
    while let Some(byte) = text.get(at) {
        match byte {
            b'\n' if !is_long => break,
            b'\\' if quote == b'"' && text.get(at + 1).is_some_and(|next| *next != b'\n') => at += 2,
            _ if *byte != quote || is_long && !text[at..].starts_with(&long) => at += 1,
            _ if !is_long => return &text[at + 1..],
            // The content can end with quotes.
            _ => {
                let quotes = text[at..].iter().take(5).take_while(|byte| **byte == quote).count();
                return &text[at + quotes..];
            }
        }
    }
    text.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Parsing 50 MB of small values would need 7 GB.
    #[test]
    fn documents_with_too_many_values_are_refused() {
        let list = |count: usize| format!("a = [{}]", "1,".repeat(count));
        let parsed = from_str::<BTreeMap<String, Vec<u8>>>(&list(200_000)).unwrap();
        assert_eq!(parsed["a"].len(), 200_000);
        for text in [list(250_000), "a.".repeat(250_001), "[[a]]\n".repeat(200_000), "{".repeat(300_000)] {
            let error = from_str::<BTreeMap<String, Vec<u8>>>(&text).unwrap_err();
            assert_eq!(error.message(), "it has more than 250000 values", "{}", &text[..10]);
        }
        // What large strings and comments contain is no value.
        for quotes in ["\"", "'", "\"\"\"", "'''"] {
            let text = format!("a = {quotes}{}{quotes} # {0}", "x.".repeat(300_000));
            assert!(from_str::<BTreeMap<String, String>>(&text).is_ok(), "{quotes}");
        }
    }

    #[test]
    fn values_after_every_kind_of_string_are_counted() {
        for (text, expected) in [
            ("a = 1", 1),
            ("a.b = ','", 2),
            (r#"a = "\\", "#, 2),
            (r#"a = "\", ", "#, 2),
            ("a = \"x\nb = ,", 3),
            ("a = \"x\\\nb = ,", 3),
            ("a = \"\"\"x,\n,\"\"\"\"\", ,", 3),
            ("a = '''x,\n\\''', ,", 3),
            ("a = \"\", b = '', ,", 5),
            ("# a = 1,\nb = 1", 1),
            ("a = \"\\", 1),
        ] {
            assert_eq!(separators(text), expected, "{text}");
        }
    }
}
