//! Values that are deserialized on first use.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

use serde_core::de::{Deserialize, DeserializeOwned, Deserializer, Error, Visitor};

use crate::{TomlError, from_bytes};

/// The newtype name by which the deserializer recognizes such a value.
pub(crate) const NAME: &str = "$gpubuild_toml_lazy";

/// A part of a document. In embedded documents, it is deserialized on first use. In text documents, it is deserialized immediately, so
/// that errors are reported.
#[derive(Debug, Clone)]
pub struct Lazy<T> {
    bytes: Cow<'static, [u8]>,
    // Most values of a document are never read, so an empty one is only a pointer.
    value: OnceLock<Box<T>>,
}

thread_local! {
    /// The embedded document that is being read.
    static SOURCE: Cell<&'static [u8]> = const { Cell::new(&[]) };
}

/// Deserializes an embedded document, whose lazy values refer to it.
pub(crate) fn from_static<T: DeserializeOwned>(bytes: &'static [u8]) -> Result<T, TomlError> {
    let outer = SOURCE.replace(bytes);
    let value = from_bytes(bytes);
    SOURCE.set(outer);
    value
}

/// The bytes as a part of the embedded document, or a copy if they are not in it.
fn part_of_source(bytes: &[u8]) -> Cow<'static, [u8]> {
    let source = SOURCE.get();
    let start = bytes.as_ptr().addr().checked_sub(source.as_ptr().addr());
    let part = start.and_then(|start| source.get(start..start.checked_add(bytes.len())?));
    part.map_or_else(|| Cow::Owned(bytes.to_vec()), Cow::Borrowed)
}

impl<T: Default> Default for Lazy<T> {
    fn default() -> Self {
        Self { bytes: Cow::default(), value: OnceLock::from(Box::new(T::default())) }
    }
}

impl<T: DeserializeOwned> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get_or_init(|| {
            let value = match &self.bytes {
                Cow::Borrowed(bytes) => from_static(bytes),
                Cow::Owned(bytes) => from_bytes(bytes),
            };
            Box::new(value.unwrap_or_else(|error| panic!("invalid embedded document: {error}")))
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
        Ok(Lazy { bytes: part_of_source(bytes), value: OnceLock::new() })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lazy<T>, D::Error> {
        let value = Box::new(T::deserialize(deserializer)?);
        Ok(Lazy { bytes: Cow::default(), value: OnceLock::from(value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Document = std::collections::BTreeMap<String, Lazy<Vec<u8>>>;

    #[test]
    fn lazy_values_refer_to_the_document_only_if_it_is_embedded() {
        let bytes = crate::encode("numbers = [1, 2]\n").unwrap();
        let copied: Document = from_bytes(&bytes).unwrap();
        assert!(matches!(copied["numbers"].bytes, Cow::Owned(_)));
        assert_eq!(**copied["numbers"], [1, 2]);
        let embedded: &'static [u8] = Vec::leak(bytes);
        let borrowed: Document = from_static(embedded).unwrap();
        assert!(matches!(borrowed["numbers"].bytes, Cow::Borrowed(_)));
        assert_eq!(**borrowed["numbers"], [1, 2]);
        assert_eq!(SOURCE.get(), b"");
    }
}
