//! What can be wrong with a GGUF file: the file, the byte, the field, and the problem in words.

use super::types::TensorType;

/// A file that is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{file}`, byte {offset}, {field}: {problem}")]
pub struct Error {
    /// Name of the file.
    pub file: String,
    /// Bytes from its start to the field, or to the place where the field should be.
    pub offset: u64,
    /// Key, tensor or part of the header.
    pub field: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it means")]
pub enum Problem {
    #[error("not a GGUF file: it starts with {0:02x?} instead of `GGUF`")]
    Magic([u8; 4]),
    #[error("written on a big-endian machine; only little-endian files are read")]
    BigEndian,
    #[error("GGUF version {0}; this program reads version 2 and 3")]
    Version(u32),
    #[error("the file ends here: {needed} bytes needed, {remaining} left")]
    Truncated { needed: u64, remaining: u64 },
    #[error(
        "{count} entries of at least {least} bytes each cannot be in the {remaining} bytes that are left"
    )]
    Count { count: u64, least: u64, remaining: u64 },
    #[error("not valid UTF-8")]
    Utf8,
    #[error("an empty name")]
    EmptyName,
    #[error("appears twice")]
    Duplicate,
    #[error("unknown value type {0}")]
    ValueType(u32),
    #[error("an array of arrays is not supported")]
    NestedArray,
    #[error("a boolean of value {0}")]
    Boolean(u8),
    #[error("an alignment of {0} is not a power of two between 1 and 65536")]
    Alignment(u64),
    #[error("{0} dimensions; 1 to 4 are allowed")]
    Dimensions(u32),
    #[error("dimension {0} is zero or larger than 4294967295")]
    Dimension(u32),
    #[error("its size overflows")]
    Overflow,
    #[error("unknown element type {0}")]
    ElementType(u32),
    #[error("rows of {width} elements are no whole number of {kind} blocks of {}", kind.block_elements())]
    Block { width: u64, kind: TensorType },
    #[error("data offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned { offset: u64, alignment: u64 },
    #[error("its data, {bytes} bytes at {offset}, ends outside the {available} bytes of tensor data")]
    Outside { offset: u64, bytes: u64, available: u64 },
    #[error("missing")]
    Missing,
    #[error("is {found}, but {expected} is needed")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("{value} is not {expected}")]
    Range { value: String, expected: String },
    #[error("has shape {found:?}, but {expected:?} is needed")]
    Shape { expected: Vec<u64>, found: Vec<u64> },
    #[error("{found} entries, but {expected} are needed")]
    Length { expected: u64, found: u64 },
    #[error("{what} `{name}` is not supported; supported: {known}")]
    Unsupported { what: &'static str, name: String, known: String },
    #[error(
        "a tensor that this program does not know in a model of architecture `{0}`: refusing to leave it out"
    )]
    UnknownTensor(String),
}
