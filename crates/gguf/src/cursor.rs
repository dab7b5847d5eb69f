//! Reads little-endian values from untrusted bytes; never allocates more than the available bytes justify.

use super::error::Problem;

/// A read position in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// A problem and the offset of the value that has it.
pub(crate) type Located = (u64, Problem);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// A reader at `position`, which may be past the end.
    pub(crate) fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.position as u64
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], Located> {
        let taken = usize::try_from(length)
            .ok()
            .and_then(|length| self.position.checked_add(length))
            .and_then(|end| self.bytes.get(self.position..end).map(|bytes| (bytes, end)));
        let Some((bytes, end)) = taken else {
            return Err((self.offset(), Problem::Truncated { needed: length, remaining: self.remaining() }));
        };
        self.position = end;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Located> {
        let bytes = self.take(N as u64)?;
        Ok(std::array::from_fn(|index| bytes[index]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Located> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Located> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length, then that many bytes of UTF-8.
    pub(crate) fn string(&mut self) -> Result<&'a str, Located> {
        let start = self.offset();
        let length = self.u64()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| (start, Problem::Utf8))
    }

    /// A count of entries that take at least `least` bytes each; an error if they exceed the remaining bytes.
    pub(crate) fn count(&mut self, least: u64) -> Result<usize, Located> {
        let start = self.offset();
        let count = self.u64()?;
        self.check_count(start, count, least)
    }

    pub(crate) fn check_count(&self, start: u64, count: u64, least: u64) -> Result<usize, Located> {
        let remaining = self.remaining();
        let fits = count.checked_mul(least).is_some_and(|bytes| bytes <= remaining);
        match usize::try_from(count) {
            Ok(count) if fits => Ok(count),
            _ => Err((start, Problem::Count { count, least, remaining })),
        }
    }
}
