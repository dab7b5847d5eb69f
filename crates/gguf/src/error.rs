//! Errors of GGUF files: the file, the offset, the field, and the problem.

use super::types::TensorType;

/// An invalid file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{file}`, byte {offset}, {field}: {problem}")]
pub struct Error {
    /// Name of the file.
    pub file: String,
    /// Bytes from its start to the field, or to where the field should be.
    pub offset: u64,
    /// Key, tensor or part of the header.
    pub field: String,
    /// The problem.
    pub problem: Problem,
}

/// A problem with a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum Problem {
    #[error("not a GGUF file: it starts with {0:02x?} instead of `GGUF`")]
    Magic([u8; 4]),
    #[error("written on a big-endian machine; only little-endian files are supported")]
    BigEndian,
    #[error("GGUF version {0}; only versions 2 and 3 are supported")]
    Version(u32),
    #[error("the file ends here: {needed} bytes needed, {remaining} left")]
    Truncated { needed: u64, remaining: u64 },
    #[error("{count} entries of at least {least} bytes each cannot fit in the {remaining} remaining bytes")]
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
    #[error("rows of {width} elements are not a multiple of {kind} blocks of {}", kind.block_elements())]
    Block { width: u64, kind: TensorType },
    #[error("data offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned { offset: u64, alignment: u64 },
    #[error("its data, {bytes} bytes at {offset}, ends outside the {available} bytes of tensor data")]
    Outside { offset: u64, bytes: u64, available: u64 },
    #[error("missing")]
    Missing,
    #[error("is {found}, but must be {expected}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("{value} is not {expected}")]
    Range { value: String, expected: String },
    #[error("has shape {found:?}, but must have {expected:?}")]
    Shape { expected: Vec<u64>, found: Vec<u64> },
    #[error("{found} entries, but there must be {expected}")]
    Length { expected: u64, found: u64 },
    #[error("{what} `{name}` is not supported; supported: {known}")]
    Unsupported { what: &'static str, name: String, known: String },
    #[error("an unknown tensor in a model of architecture `{0}`; ignoring it would give wrong results")]
    UnknownTensor(String),
}
