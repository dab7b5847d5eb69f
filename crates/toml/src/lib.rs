//! Reads TOML into Rust types: text at run time, or what a build script has parsed already.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.
//!
//! Both are converted to the same bytes first, so that each type is compiled for one deserializer. The `toml` crate has three
//! kinds of tables, and compiles the code of a type for each of them. Embedded data is not parsed when a program starts: a build
//! script calls [`embed`], and the program calls [`from_bytes`].

mod bytes;
mod de;
mod embed;
mod error;
mod later;

pub use embed::{embed, keys};
pub use error::TomlError;
pub use later::Later;
use serde_core::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use self::bytes::{ByteReader, Spans, Writer};

/// Reads a document.
///
/// # Errors
/// It is not TOML, or not a `T`: the error has the line.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let bytes = write(text, Spans::Kept)?;
    de::read(ByteReader::new(&bytes, Spans::Kept)).map_err(|error| error.of(text))
}

/// Reads a document that [`encode`] has parsed.
///
/// # Errors
/// It is not a `T`: the error has the keys that lead to the place.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, TomlError> {
    de::read(ByteReader::new(bytes, Spans::Dropped))
}

/// Parses a document, for [`from_bytes`].
///
/// # Errors
/// It is not TOML: the error has the line.
pub fn encode(text: &str) -> Result<Vec<u8>, TomlError> {
    write(text, Spans::Dropped)
}

fn write(text: &str, spans: Spans) -> Result<Vec<u8>, TomlError> {
    let syntax = |error: &toml::de::Error| TomlError::new(error.message(), error.span()).of(text);
    let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
    let mut writer = Writer::new(spans);
    let span = table.span();
    writer.value(&DeValue::Table(table.into_inner()), span).map_err(|error| error.of(text))?;
    Ok(writer.finish())
}

#[cfg(test)]
mod tests;
