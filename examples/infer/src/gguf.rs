//! GGUF files ([`gpubuild_gguf`]), mapped into memory.

pub use gpubuild_gguf::{Bytes, Error, Gguf, Problem, TensorInfo, TensorType, Value, ValueType, Writer};

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Maps and checks a file.
///
/// # Errors
/// The file cannot be read, or [`Gguf::new`] fails.
pub fn open(path: &Path) -> Result<Gguf, crate::Error> {
    let bytes = map(path)
        .map_err(|source| crate::Error::Read { path: path.display().to_string(), source: source.into() })?;
    Ok(Gguf::new(path.display().to_string(), bytes)?)
}

/// Maps a file.
///
/// # Errors
/// The file cannot be opened or mapped.
pub fn map(path: &Path) -> io::Result<Bytes> {
    let refuse_others = |metadata: &Metadata| {
        if metadata.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
    };
    // Opening a named pipe would wait for a writer.
    refuse_others(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    refuse_others(&metadata)?;
    // Mapping an empty file fails on some systems; this way the parser reports the error.
    if metadata.len() == 0 {
        return Ok(Bytes::Owned(Vec::new()));
    }
    #[expect(unsafe_code, reason = "memory map")]
    // SAFETY: the map is read-only and private. Another process that truncates the file while it is in
    // use can kill this one with SIGBUS, as for every program that maps its input.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::Mapped(Box::new(map)))
}
