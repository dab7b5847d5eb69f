//! Values that are deserialized on first use.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

use serde_core::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use crate::from_bytes;

/// The newtype name by which the deserializer recognizes such a value.
pub(crate) const NAME: &str = "$gpubuild_toml_lazy";

/// A part of a document. In embedded documents, it is deserialized on first use. In text documents, it is deserialized immediately, so
/// that errors are reported.
#[derive(Debug, Clone)]
pub struct Lazy<T> {
    bytes: Box<[u8]>,
    value: OnceLock<T>,
}

impl<T: Default> Default for Lazy<T> {
    fn default() -> Self {
        Self { bytes: Box::default(), value: OnceLock::from(T::default()) }
    }
}

impl<T: DeserializeOwned> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get_or_init(|| {
            from_bytes(&self.bytes).unwrap_or_else(|error| panic!("invalid embedded document: {error}"))
        })
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lazy<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(NAME, LazyVisitor(PhantomData))
    }
}

struct LazyVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for LazyVisitor<T> {
    type Value = Lazy<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Lazy<T>, E> {
        Ok(Lazy { bytes: bytes.into(), value: OnceLock::new() })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lazy<T>, D::Error> {
        Ok(Lazy { bytes: Box::default(), value: OnceLock::from(T::deserialize(deserializer)?) })
    }
}
