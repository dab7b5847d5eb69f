//! Readers and writers that hash and count what passes through them.

use std::io::{self, Read, Write};

use gpubuild_exec::store::digits;
use sha2::{Digest, Sha256};

/// The maximum number of bytes per read.
const MAX_READ: usize = 1 << 20;

/// A reader or writer that hashes and counts the bytes that pass through it.
pub struct Hashed<T> {
    /// The reader or writer.
    pub inner: T,
    hash: Sha256,
    bytes: u64,
}

impl<T> Hashed<T> {
    /// Nothing has passed through it yet.
    pub fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// The number of bytes so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// The sha256 of the bytes so far.
    #[must_use]
    pub fn sha256(&self) -> String {
        digits(&self.hash.clone().finalize())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<T: Read> Read for Hashed<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let max = into.len().min(MAX_READ);
        let count = self.inner.read(&mut into[..max])?;
        self.add(&into[..count]);
        Ok(count)
    }
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.add(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
