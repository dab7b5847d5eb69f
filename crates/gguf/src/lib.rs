//! Reads GGUF files, which are untrusted input: every length, count, offset and product is checked against
//! the available bytes before anything is allocated or read.
//!
//! This crate handles only the container; its callers interpret keys and tensors.

mod bytes;
mod cursor;
mod error;
mod types;
mod value;
mod writer;

pub use bytes::Bytes;
pub use error::{Error, Problem};
pub use types::TensorType;
pub use value::{Value, ValueType};
pub use writer::Writer;

use cursor::{Cursor, Located};
use std::collections::BTreeMap;
use std::ops::Range;

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Offset of its entry in the header.
    pub entry: u64,
    /// Type of its elements.
    pub kind: TensorType,
    /// Elements in each dimension, 1 to 4 of them, the contiguous one first.
    pub shape: Vec<u64>,
    /// Position of its bytes in the file.
    pub data: Range<usize>,
}

/// A checked file.
#[derive(Debug)]
pub struct Gguf {
    name: String,
    bytes: Bytes,
    /// Key -> offset and type of its value.
    metadata: BTreeMap<String, (u64, ValueType)>,
    tensors: BTreeMap<String, TensorInfo>,
}

/// Collects the header while it is read.
#[derive(Default)]
struct Header {
    metadata: BTreeMap<String, (u64, ValueType)>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Checks the bytes of a file. `name` appears in messages.
    ///
    /// # Errors
    /// The bytes violate the format; the error has file, offset, field and problem.
    pub fn new(name: impl Into<String>, bytes: Bytes) -> Result<Self, Error> {
        let length = bytes.as_slice().len() as u64;
        Self::header(name, bytes, length)
    }

    /// Checks the start of a file of `length` bytes, which contains at least the header. [`Gguf::data`] is empty for tensors beyond it.
    ///
    /// # Errors
    /// Same as [`Gguf::new`].
    pub fn header(name: impl Into<String>, bytes: Bytes, length: u64) -> Result<Self, Error> {
        let name = name.into();
        let parsed = Header::parse(bytes.as_slice(), length);
        match parsed {
            Ok(header) => Ok(Self { name, bytes, metadata: header.metadata, tensors: header.tensors }),
            Err((field, (offset, problem))) => Err(Error { file: name, offset, field, problem }),
        }
    }

    /// Name of the file, as it appears in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of all tensors, sorted.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor by name, if the file has it.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Bytes of a tensor of this file.
    #[must_use]
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        self.bytes.as_slice().get(tensor.data.clone()).unwrap_or_default()
    }

    /// The value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        let (offset, kind) = *self.metadata.get(key)?;
        let mut cursor = Cursor::at(self.bytes.as_slice(), usize::try_from(offset).ok()?);
        value::read(&mut cursor, kind).ok()
    }

    /// The string of a key, if the file has it.
    ///
    /// # Errors
    /// The value has another type.
    pub fn string(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong_type(key, "a string")),
        }
    }

    /// The boolean of a key, if the file has it.
    ///
    /// # Errors
    /// The value has another type.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong_type(key, "a boolean")),
        }
    }

    /// The integer of a key, if the file has it, as an unsigned 32-bit number.
    ///
    /// # Errors
    /// The value has another type, is negative or too large.
    pub fn integer(&self, key: &str) -> Result<Option<u32>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(value)) => match u32::try_from(value) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(self.key_error(
                    key,
                    Problem::Range {
                        value: value.to_string(),
                        expected: "between 0 and 4294967295".to_owned(),
                    },
                )),
            },
            Some(_) => Err(self.wrong_type(key, "an integer")),
        }
    }

    /// The real number of a key, if the file has it.
    ///
    /// # Errors
    /// The value has another type, or is not finite.
    pub fn real(&self, key: &str) -> Result<Option<f64>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Real(value)) if value.is_finite() => Ok(Some(value)),
            Some(Value::Real(value)) => Err(self.key_error(
                key,
                Problem::Range { value: value.to_string(), expected: "a finite number".to_owned() },
            )),
            Some(_) => Err(self.wrong_type(key, "a real number")),
        }
    }

    /// The elements of an array, if the file has it; `convert` returns `None` for elements of the wrong type.
    ///
    /// # Errors
    /// The value is not an array, or has elements of another type.
    pub fn array<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        let (element, count, start) = match self.value(key) {
            None => return Ok(None),
            Some(Value::Array { element, count, start }) => (element, count, start),
            Some(_) => return Err(self.wrong_type(key, expected)),
        };
        let mut cursor = Cursor::at(self.bytes.as_slice(), start);
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let value = value::read(&mut cursor, element).ok().and_then(&convert);
            values.push(value.ok_or_else(|| {
                self.key_error(key, Problem::WrongType { expected, found: "an array of another type" })
            })?);
        }
        Ok(Some(values))
    }

    /// The strings of an array, if the file has it.
    ///
    /// # Errors
    /// The value has another type.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        self.array(key, "an array of strings", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// Unwraps a required value.
    ///
    /// # Errors
    /// The value is missing.
    pub fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.key_error(key, Problem::Missing))
    }

    /// An error about a key, at its offset if the file has it.
    #[must_use]
    pub fn key_error(&self, key: &str, problem: Problem) -> Error {
        let offset = self.metadata.get(key).map_or(0, |(offset, _)| *offset);
        Error { file: self.name.clone(), offset, field: format!("key `{key}`"), problem }
    }

    /// An error about a tensor, at its offset if the file has it.
    #[must_use]
    pub fn tensor_error(&self, name: &str, problem: Problem) -> Error {
        let offset = self.tensors.get(name).map_or(0, |tensor| tensor.entry);
        Error { file: self.name.clone(), offset, field: format!("tensor `{name}`"), problem }
    }

    fn wrong_type(&self, key: &str, expected: &'static str) -> Error {
        let found = self.metadata.get(key).map_or("missing", |(_, kind)| kind.name());
        self.key_error(key, Problem::WrongType { expected, found })
    }
}

/// Adds the name of the field to a problem.
fn within<T>(field: impl FnOnce() -> String, result: Result<T, Located>) -> Result<T, (String, Located)> {
    result.map_err(|located| (field(), located))
}

/// Minimum size of a metadata entry (a length, a type, one byte of value) and of a tensor entry (length,
/// dimensions, one dimension, type, offset), in bytes.
const LEAST_METADATA: u64 = 13;
const LEAST_TENSOR: u64 = 32;

impl Header {
    fn parse(bytes: &[u8], length: u64) -> Result<Self, (String, Located)> {
        let mut cursor = Cursor::new(bytes);
        let (tensor_count, metadata_count) = Self::preamble(&mut cursor)?;
        let mut header = Self::default();
        for index in 0..metadata_count {
            header.metadata_entry(&mut cursor, index)?;
        }
        let alignment = header.alignment(bytes)?;
        // The count was checked against the complete file; the metadata has been read by now.
        let at = cursor.offset();
        within(|| "tensor count".to_owned(), cursor.check_count(at, tensor_count, LEAST_TENSOR))?;
        let mut offsets = Vec::new();
        for index in 0..tensor_count {
            offsets.push(header.tensor_entry(&mut cursor, index, alignment)?);
        }
        header.place(length, cursor.offset(), alignment, &offsets)?;
        Ok(header)
    }

    fn preamble(cursor: &mut Cursor<'_>) -> Result<(u64, usize), (String, Located)> {
        let magic = within(|| "magic".to_owned(), cursor.array::<4>())?;
        if &magic != b"GGUF" {
            return Err(("magic".to_owned(), (0, Problem::Magic(magic))));
        }
        let at = cursor.offset();
        let version = within(|| "version".to_owned(), cursor.u32())?;
        match version {
            2 | 3 => {}
            swapped if (1..=3).contains(&swapped.swap_bytes()) => {
                return Err(("version".to_owned(), (at, Problem::BigEndian)));
            }
            other => return Err(("version".to_owned(), (at, Problem::Version(other)))),
        }
        let tensors = within(|| "tensor count".to_owned(), cursor.count(LEAST_TENSOR))? as u64;
        let metadata = within(|| "metadata count".to_owned(), cursor.count(LEAST_METADATA))?;
        Ok((tensors, metadata))
    }

    fn metadata_entry(&mut self, cursor: &mut Cursor<'_>, index: usize) -> Result<(), (String, Located)> {
        let start = cursor.offset();
        let key = within(|| format!("name of metadata entry {index}"), cursor.string())?;
        let field = || format!("key `{key}`");
        if key.is_empty() {
            return Err((format!("name of metadata entry {index}"), (start, Problem::EmptyName)));
        }
        let at = cursor.offset();
        let id = within(field, cursor.u32())?;
        let kind = ValueType::from_id(id).ok_or_else(|| (field(), (at, Problem::ValueType(id))))?;
        let at = cursor.offset();
        within(field, value::read(cursor, kind))?;
        match self.metadata.insert(key.to_owned(), (at, kind)) {
            None => Ok(()),
            Some(_) => Err((field(), (start, Problem::Duplicate))),
        }
    }

    fn alignment(&self, bytes: &[u8]) -> Result<u64, (String, Located)> {
        const KEY: &str = "general.alignment";
        const LARGEST: i128 = 65536;
        let Some((offset, kind)) = self.metadata.get(KEY).copied() else { return Ok(32) };
        let field = || format!("key `{KEY}`");
        let mut cursor = Cursor::at(bytes, usize::try_from(offset).unwrap_or(usize::MAX));
        match within(field, value::read(&mut cursor, kind))? {
            Value::Integer(value) => match u64::try_from(value) {
                Ok(alignment) if alignment.is_power_of_two() && value <= LARGEST => Ok(alignment),
                Ok(alignment) => Err((field(), (offset, Problem::Alignment(alignment)))),
                Err(_) => {
                    let problem =
                        Problem::Range { value: value.to_string(), expected: "a power of two".to_owned() };
                    Err((field(), (offset, problem)))
                }
            },
            _ => Err((field(), (offset, Problem::WrongType { expected: "an integer", found: kind.name() }))),
        }
    }

    /// Reads one tensor entry: its name, the position of its offset field, the offset and the size of its
    /// data.
    fn tensor_entry(
        &mut self,
        cursor: &mut Cursor<'_>,
        index: u64,
        alignment: u64,
    ) -> Result<(String, u64, u64, u64), (String, Located)> {
        let entry = cursor.offset();
        let name = within(|| format!("name of tensor {index}"), cursor.string())?;
        if name.is_empty() {
            return Err((format!("name of tensor {index}"), (entry, Problem::EmptyName)));
        }
        let field = || format!("tensor `{name}`");
        let refuse = |at: u64, problem: Problem| Err((field(), (at, problem)));
        let at = cursor.offset();
        let dimensions = within(field, cursor.u32())?;
        if !(1..=4).contains(&dimensions) {
            return refuse(at, Problem::Dimensions(dimensions));
        }
        let mut shape = Vec::with_capacity(4);
        for dimension in 0..dimensions {
            let at = cursor.offset();
            let elements = within(field, cursor.u64())?;
            if elements == 0 || elements > u64::from(u32::MAX) {
                return refuse(at, Problem::Dimension(dimension));
            }
            shape.push(elements);
        }
        let at = cursor.offset();
        let id = within(field, cursor.u32())?;
        let Some(kind) = TensorType::from_id(id) else { return refuse(at, Problem::ElementType(id)) };
        if !shape[0].is_multiple_of(kind.block_elements()) {
            return refuse(at, Problem::Block { width: shape[0], kind });
        }
        let bytes = shape[1..]
            .iter()
            .try_fold(kind.row_bytes(shape[0]), |bytes, rows| Some(bytes?.checked_mul(*rows)))
            .flatten();
        let Some(bytes) = bytes else { return refuse(at, Problem::Overflow) };
        let at = cursor.offset();
        let offset = within(field, cursor.u64())?;
        if !offset.is_multiple_of(alignment) {
            return refuse(at, Problem::Misaligned { offset, alignment });
        }
        let tensor = TensorInfo { entry, kind, shape, data: 0..0 };
        if self.tensors.insert(name.to_owned(), tensor).is_some() {
            return refuse(entry, Problem::Duplicate);
        }
        Ok((name.to_owned(), at, offset, bytes))
    }

    /// Assigns every tensor its bytes, now that the end of the header is known.
    fn place(
        &mut self,
        length: u64,
        header_end: u64,
        alignment: u64,
        offsets: &[(String, u64, u64, u64)],
    ) -> Result<(), (String, Located)> {
        let start = header_end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let available = length.saturating_sub(start);
        for (name, at, offset, size) in offsets {
            let fits = offset.checked_add(*size).is_some_and(|end| end <= available);
            let problem = || Problem::Outside { offset: *offset, bytes: *size, available };
            let range = fits.then(|| start + offset..start + offset + size);
            let range = range
                .and_then(|range| Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?));
            let range = range.ok_or_else(|| (format!("tensor `{name}`"), (*at, problem())))?;
            self.tensors.get_mut(name).expect("inserted by `tensor_entry`").data = range;
        }
        Ok(())
    }
}
