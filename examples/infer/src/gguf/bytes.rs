//! The bytes of a model: a memory-mapped file, a vector, or static data.

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes that live as long as the model.
#[derive(Debug)]
pub enum Bytes {
    /// A file, read on demand by the operating system.
    Mapped(memmap2::Mmap),
    /// Bytes in memory.
    Owned(Vec<u8>),
    /// Static data of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// Maps a file.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        // Mapping an empty file fails on some systems; this way the parser reports the error.
        if metadata.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        #[expect(unsafe_code, reason = "memory map")]
        // SAFETY: the map is read-only and private. Another process that truncates the file while it is in
        // use can kill this one with SIGBUS, as for every program that maps its input.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self::Mapped(map))
    }

    /// All bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
            Self::Static(bytes) => bytes,
        }
    }
}
