//! Writes layers: tar archives with zstd compression. The output is reproducible.

use std::io::{self, Write};

use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::store::{digits, hash_file};
use gpubuild_host::{HostPath, NewFile, ReadFiles, WriteFiles};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use zstd::Encoder;
use zstd::bulk::Compressor;

use super::PackError;
use crate::hashed::Hashed;
use crate::manifest::Layer;

/// The compression level for programs and other small layers.
const LEVEL: i32 = 19;
/// Layers below this size in bytes are compressed in memory.
const SMALL: u64 = 4 << 20;
/// Layers from this size in bytes use [`LARGE_LEVEL`].
const LARGE: u64 = 64 << 20;
/// The compression level for vendor libraries, which contain compressed data: higher levels take ten times as long and save half a
/// percent.
const LARGE_LEVEL: i32 = 9;
/// The window size as a power of two. Every decoder accepts this size by default.
const WINDOW_LOG: u32 = 27;

/// A file to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPiece {
    /// The path in the variant, `bin/infer`.
    pub path: String,
    /// The path of the source file.
    pub from: HostPath,
    /// Whether the file gets execute permission.
    pub executable: bool,
    /// The layer that the file belongs to.
    pub part: LayerKind,
}

/// The layer of a file. Files that change together or that variants share form a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The program.
    Program,
    /// A shared library or module of the project, by path.
    Built(String),
    /// Files that `include` in `[pack]` lists.
    Files,
    /// Licence files.
    Licences,
    /// The software bill of materials.
    Sbom,
    /// A third-party library, by name.
    Library(String),
    /// Data files of a third-party library, by its name.
    Data(String),
}

/// A file to pack with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedPiece<'a> {
    /// The file.
    pub piece: &'a LayerPiece,
    /// The size in bytes.
    pub size: u64,
    sha256: String,
}

/// Hashes the files of a layer and sorts them by path.
///
/// # Errors
/// A file cannot be read.
pub fn hash<'a>(host: &dyn ReadFiles, pieces: &[&'a LayerPiece]) -> io::Result<Vec<HashedPiece<'a>>> {
    let mut hashed = Vec::new();
    for piece in pieces {
        let mut sum = Hashed::new(io::sink());
        io::copy(&mut host.open(&piece.from)?, &mut sum)?;
        hashed.push(HashedPiece { piece, size: sum.size(), sha256: sum.sha256() });
    }
    hashed.sort_indirect_by(|one, other| one.piece.path.cmp(&other.piece.path));
    Ok(hashed)
}

/// The sha256 of a file, read as a stream.
///
/// # Errors
/// The file cannot be read.
pub fn sum(host: &dyn ReadFiles, path: &HostPath) -> Result<String, PackError> {
    hash_file(host, path).map(|(sha256, _)| sha256).map_err(|error| PackError::io("read", path, &error))
}

/// A hash of everything that determines a layer's bytes: files, modes and compression settings. If it is known, the layer need not be
/// compressed again.
#[must_use]
pub fn contents(files: &[HashedPiece<'_>]) -> String {
    let mut sum = Sha256::new();
    sum.update(format!("{} {WINDOW_LOG} {}\n", level(files), zstd::zstd_safe::version_string()));
    for file in files {
        let mode = mode(file.piece);
        sum.update(format!("{mode:o} {} {} {}\n", file.size, file.sha256, file.piece.path));
    }
    digits(&sum.finalize())
}

/// Writes a layer into a folder. The file name is the sha256 of the archive.
///
/// # Errors
/// The archive cannot be written, or a file has changed since it was hashed.
pub fn write(host: &dyn WriteFiles, files: &[HashedPiece<'_>], folder: &HostPath) -> io::Result<Layer> {
    let temporary = folder.join(".layer");
    host.remove(&temporary)?;
    let out = Hashed::new(host.create(&temporary)?);
    let sum = if bytes(files) < SMALL { in_memory(host, files, out)? } else { streamed(host, files, out)? };
    let (size, sha256) = (sum.size(), sum.sha256());
    sum.inner.finish()?;
    host.rename(&temporary, &folder.join(&sha256))?;
    Ok(Layer { sha256, size, unpacked: bytes(files) })
}

type Out = Hashed<Box<dyn NewFile>>;

/// Compresses a small layer in memory: with a known size, zstd adapts its memory and time to it.
fn in_memory(host: &dyn ReadFiles, files: &[HashedPiece<'_>], mut out: Out) -> io::Result<Out> {
    let mut archive = Builder::new(Vec::new());
    for file in files {
        append(host, &mut archive, file)?;
    }
    let mut compressor = Compressor::new(level(files))?;
    compressor.include_checksum(true)?;
    out.write_all(&compressor.compress(&archive.into_inner()?)?)?;
    Ok(out)
}

/// Compresses a layer that may be larger than the memory.
fn streamed(host: &dyn ReadFiles, files: &[HashedPiece<'_>], out: Out) -> io::Result<Out> {
    let mut encoder = Encoder::new(out, level(files))?;
    // The output is the same for any number of workers, but differs without workers.
    encoder.multithread(threads())?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.include_checksum(true)?;
    let mut archive = Builder::new(encoder);
    for file in files {
        append(host, &mut archive, file)?;
    }
    archive.into_inner()?.finish()
}

fn bytes(files: &[HashedPiece<'_>]) -> u64 {
    files.iter().map(|file| file.size).sum()
}

fn level(files: &[HashedPiece<'_>]) -> i32 {
    if bytes(files) < LARGE { LEVEL } else { LARGE_LEVEL }
}

fn append<W: Write>(
    host: &dyn ReadFiles,
    archive: &mut Builder<W>,
    file: &HashedPiece<'_>,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(mode(file.piece));
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(file.size);
    let mut sum = Hashed::new(host.open(&file.piece.from)?);
    archive.append_data(&mut header, &file.piece.path, &mut io::Read::take(&mut sum, file.size))?;
    if sum.size() != file.size || sum.sha256() != file.sha256 {
        return Err(io::Error::other(format!("`{}` was changed while it was packed", file.piece.from)));
    }
    Ok(())
}

fn mode(piece: &LayerPiece) -> u32 {
    if piece.executable { 0o755 } else { 0o644 }
}

fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1).min(8))
}
