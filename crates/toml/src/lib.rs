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

pub use embed::{embed, embed_without, keys};
pub use error::TomlError;
pub use lazy::Lazy;
use serde_core::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use self::bytes::{ByteReader, Spans, Writer};

/// The maximum weight of a document, see [`weight`]: one is up to 50 bytes of memory of the parser, so that a document needs at most 100 MB.
/// The largest document of gpubuild has 75,000.
const MAX_WEIGHT: usize = 2_000_000;
/// The weight of a character that starts or separates values and tables.
const SEPARATOR: usize = 10;

/// Deserializes a document.
///
/// # Errors
/// The text is not TOML, does not match the type, or has far more values than any real document. The error contains the line.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let bytes = write(text, Spans::Kept, &[])?;
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
    encode_without(text, &[])
}

fn encode_without(text: &str, keys: &[&str]) -> Result<Vec<u8>, TomlError> {
    write(text, Spans::Dropped, keys)
}

fn write(text: &str, spans: Spans, without: &[&str]) -> Result<Vec<u8>, TomlError> {
    if weight(text) > MAX_WEIGHT {
        return Err(TomlError::new(
            "it has too many values or lines: they need more than 100 MB of memory",
            None,
        ));
    }
    let syntax = |error: &toml::de::Error| TomlError::new(error.message(), error.span()).of(text);
    let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
    let mut writer = Writer::new(spans, without);
    let span = table.span();
    writer.value(&DeValue::Table(table.into_inner()), span).map_err(|error| error.of(text))?;
    Ok(writer.finish())
}

/// How much memory the parser needs for the tokens of a document, whatever their length: those that start or separate values and tables need
/// most. Strings, comments, words, and spaces in a row are one token each.
fn weight(text: &str) -> usize {
    let mut rest = text.as_bytes();
    let mut weight = 0;
    while let [byte, after @ ..] = rest {
        let (of_token, next) = match byte {
            b'#' => (1, after.iter().position(|byte| *byte == b'\n').map_or(&[][..], |end| &after[end..])),
            b'"' | b'\'' => (1, after_string(rest)),
            b'=' | b'.' | b',' | b'[' | b'{' => (SEPARATOR, after),
            b' ' | b'\t' => (1, after_spaces(after)),
            b'\n' | b'\r' | b']' | b'}' => (1, after),
            _ => (1, after_word(after)),
        };
        weight += of_token;
        rest = next;
    }
    weight
}

/// What follows the spaces at the start of the text.
fn after_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !b" \t".contains(byte));
    &text[end.unwrap_or(text.len())..]
}

/// What follows the word at the start of the text.
fn after_word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| b"#\"'=.,[]{} \t\r\n".contains(byte));
    &text[end.unwrap_or(text.len())..]
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

    /// Parsing 50 MB of small values would need 7 GB, and of short comments 1.7 GB.
    #[test]
    fn documents_with_too_many_tokens_are_refused() {
        let list = |count: usize| format!("a = [{}]", "1,".repeat(count));
        let parsed = from_str::<BTreeMap<String, Vec<u8>>>(&list(150_000)).unwrap();
        assert_eq!(parsed["a"].len(), 150_000);
        let small = [
            "#\n", "\n", "\r\n", "a ", "] ", "}", "\r", " \n", "\"\n", "'' ", "\\ ", "\t\n#\n", "é\n",
            "a\u{1}\n",
        ];
        let small = small.map(|piece| piece.repeat(MAX_WEIGHT + 1));
        let large = [list(200_000), "a.".repeat(200_001), "[[a]]\n".repeat(100_000), "{".repeat(200_001)];
        for text in small.into_iter().chain(large) {
            let error = from_str::<BTreeMap<String, Vec<u8>>>(&text).unwrap_err();
            assert!(error.message().starts_with("it has too many values"), "{:?}", text.chars().next());
        }
        // The contents of large strings and comments are not counted.
        for quotes in ["\"", "'", "\"\"\"", "'''"] {
            let text = format!("a = {quotes}{}{quotes} # {0}", "x.".repeat(300_000));
            assert!(from_str::<BTreeMap<String, String>>(&text).is_ok(), "{quotes}");
        }
    }

    #[test]
    fn tokens_after_every_kind_of_string_are_counted() {
        // Separators, other tokens.
        for (text, separators, others) in [
            ("a = 1", 1, 4),
            ("a.b = ','", 2, 5),
            (r#"a = "\\", "#, 2, 5),
            (r#"a = "\", ", "#, 2, 5),
            ("a = \"x\nb = ,", 3, 8),
            ("a = \"x\\\nb = ,", 3, 8),
            ("a = \"\"\"x,\n,\"\"\"\"\", ,", 3, 5),
            ("a = '''x,\n\\''', ,", 3, 5),
            ("a = \"\", b = '', ,", 5, 10),
            ("# a = 1,\nb = 1", 1, 6),
            ("a  =\t\t \"\\", 1, 4),
        ] {
            assert_eq!(weight(text), separators * SEPARATOR + others, "{text}");
        }
    }
}
