//! The bytes of a model: a memory map of the caller, a vector, or static data.

use std::fmt;

/// Bytes that live as long as the model.
pub enum Bytes {
    /// A file that the caller has mapped.
    Mapped(Box<dyn AsRef<[u8]> + Send + Sync>),
    /// Bytes in memory.
    Owned(Vec<u8>),
    /// Static data of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// All bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => (**map).as_ref(),
            Self::Owned(bytes) => bytes,
            Self::Static(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Bytes({} bytes)", self.as_slice().len())
    }
}
