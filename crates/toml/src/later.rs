//! Values that are read when they are first needed.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

use serde_core::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use crate::from_bytes;

/// The name by which a deserializer of [`from_bytes`] knows such a value.
pub(crate) const NAME: &str = "$gpubuild_toml_later";

/// Part of a document that is read when it is first needed, if the document is embedded. In a text it is read at once, so that
/// every mistake is reported.
#[derive(Debug, Clone)]
pub struct Later<T> {
    bytes: Box<[u8]>,
    value: OnceLock<T>,
}

impl<T: Default> Default for Later<T> {
    fn default() -> Self {
        Self { bytes: Box::default(), value: OnceLock::from(T::default()) }
    }
}

impl<T: DeserializeOwned> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get_or_init(|| {
            from_bytes(&self.bytes).unwrap_or_else(|error| panic!("embedded documents are tested: {error}"))
        })
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Later<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(NAME, LaterContent(PhantomData))
    }
}

struct LaterContent<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for LaterContent<T> {
    type Value = Later<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Later<T>, E> {
        Ok(Later { bytes: bytes.into(), value: OnceLock::new() })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Later<T>, D::Error> {
        Ok(Later { bytes: Box::default(), value: OnceLock::from(T::deserialize(deserializer)?) })
    }
}
