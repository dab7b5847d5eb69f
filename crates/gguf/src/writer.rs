//! Writes small GGUF files: random models for measurements, and models that tests modify.

use super::types::TensorType;
use super::value::ValueType;
use std::io::Write;

/// Collects metadata and tensors; [`Writer::finish`] returns the bytes.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    metadata: Vec<(String, ValueType, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, TensorType, Vec<u8>)>,
}

const ALIGNMENT: usize = 32;

fn push_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl Writer {
    /// An empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A key with a value in its file format.
    #[must_use]
    pub fn raw(mut self, key: &str, kind: ValueType, value: &[u8]) -> Self {
        self.metadata.push((key.to_owned(), kind, value.to_vec()));
        self
    }

    /// A key with a 32-bit unsigned integer.
    #[must_use]
    pub fn integer(self, key: &str, value: u32) -> Self {
        self.raw(key, ValueType::U32, &value.to_le_bytes())
    }

    /// A key with a 32-bit real number.
    #[must_use]
    pub fn real(self, key: &str, value: f32) -> Self {
        self.raw(key, ValueType::F32, &value.to_le_bytes())
    }

    /// A key with a boolean.
    #[must_use]
    pub fn boolean(self, key: &str, value: bool) -> Self {
        self.raw(key, ValueType::Bool, &[u8::from(value)])
    }

    /// A key with a string.
    #[must_use]
    pub fn string(self, key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        push_string(&mut bytes, value);
        self.raw(key, ValueType::String, &bytes)
    }

    /// A key with an array of strings.
    #[must_use]
    pub fn strings<T: AsRef<str>>(self, key: &str, values: &[T]) -> Self {
        let mut bytes = array_header(ValueType::String, values.len());
        for value in values {
            push_string(&mut bytes, value.as_ref());
        }
        self.raw(key, ValueType::Array, &bytes)
    }

    /// A key with an array of 32-bit real numbers.
    #[must_use]
    pub fn reals(self, key: &str, values: &[f32]) -> Self {
        let mut bytes = array_header(ValueType::F32, values.len());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, ValueType::Array, &bytes)
    }

    /// A key with an array of 32-bit integers.
    #[must_use]
    pub fn integers(self, key: &str, values: &[i32]) -> Self {
        let mut bytes = array_header(ValueType::I32, values.len());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, ValueType::Array, &bytes)
    }

    /// A tensor with its bytes in the file format.
    #[must_use]
    pub fn tensor(mut self, name: &str, shape: &[u64], kind: TensorType, data: Vec<u8>) -> Self {
        self.tensors.push((name.to_owned(), shape.to_vec(), kind, data));
        self
    }

    /// Removes a key or a tensor.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.metadata.retain(|(key, _, _)| key != name);
        self.tensors.retain(|(tensor, _, _, _)| tensor != name);
        self
    }

    /// The bytes of the file.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.write_to(&mut bytes) {
            Ok(()) => bytes,
            Err(error) => unreachable!("writing to memory: {error}"),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Errors of `target`.
    pub fn write_to(&self, target: &mut impl Write) -> std::io::Result<()> {
        let header = self.header();
        target.write_all(&header)?;
        let mut written = header.len();
        for (_, _, _, data) in &self.tensors {
            let start = written.next_multiple_of(ALIGNMENT);
            target.write_all(&[0; ALIGNMENT][..start - written])?;
            target.write_all(data)?;
            written = start + data.len();
        }
        Ok(())
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.metadata {
            push_string(&mut bytes, key);
            bytes.extend(kind.id().to_le_bytes());
            bytes.extend(value);
        }
        let mut offset = 0_usize;
        for (name, shape, kind, data) in &self.tensors {
            push_string(&mut bytes, name);
            bytes.extend(u32::try_from(shape.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(shape.iter().flat_map(|elements| elements.to_le_bytes()));
            bytes.extend(kind.id().to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            offset += data.len().next_multiple_of(ALIGNMENT);
        }
        bytes
    }
}

fn array_header(element: ValueType, count: usize) -> Vec<u8> {
    let mut bytes = element.id().to_le_bytes().to_vec();
    bytes.extend((count as u64).to_le_bytes());
    bytes
}
