//! A layer: files of a variant as a tar archive in zstd, the same bytes from the same files.

use std::io::{self, Write};

use gpubuild_host::{HostPath, NewFile, ReadFiles, WriteFiles};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use zstd::Encoder;
use zstd::bulk::Compressor;

use super::PackError;
use crate::manifest::Layer;

/// Level of compression for programs and other small layers.
const LEVEL: i32 = 19;
/// Bytes up to which a layer is compressed as a whole.
const SMALL: u64 = 4 << 20;
/// Bytes from which on a layer gets [`LARGE_LEVEL`].
const LARGE: u64 = 64 << 20;
/// The level for libraries of vendors, which are compressed inside: higher ones take ten times as long for half a percent.
const LARGE_LEVEL: i32 = 9;
/// The window size as a power of two. Every decoder accepts this size by default.
const WINDOW_LOG: u32 = 27;
/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 20;

/// A file on its way into a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPiece {
    /// Its path in the variant, `bin/infer`.
    pub path: String,
    /// Its present path.
    pub from: HostPath,
    /// Whether it may be started.
    pub executable: bool,
    /// The layer that it belongs to.
    pub part: LayerKind,
}

/// The layers into which files are divided: files that change together, or that variants share, form a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// The program.
    Program,
    /// A shared library or module that was built with it, by its name.
    Built(String),
    /// Files that the project names.
    Files,
    /// Licences.
    Licences,
    /// A third-party library by its name.
    Library(String),
    /// Data of such a library.
    Data(String),
}

/// A piece with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedPiece<'a> {
    /// The file.
    pub piece: &'a LayerPiece,
    /// Its bytes.
    pub size: u64,
    sha256: String,
}

/// Reads the files of a layer for what is in them, sorted by path.
///
/// # Errors
/// A file can't be read.
pub fn hash<'a>(host: &dyn ReadFiles, pieces: &[&'a LayerPiece]) -> io::Result<Vec<HashedPiece<'a>>> {
    let mut hashed = Vec::new();
    for piece in pieces {
        let mut sum = Sum::new(io::sink());
        io::copy(&mut host.open(&piece.from)?, &mut sum)?;
        let (size, sha256) = sum.told();
        hashed.push(HashedPiece { piece, size, sha256 });
    }
    hashed.sort_by(|one, other| one.piece.path.cmp(&other.piece.path));
    Ok(hashed)
}

/// The sha256 of a file, read as a stream.
///
/// # Errors
/// It can't be read.
pub fn sum(host: &dyn ReadFiles, path: &HostPath) -> Result<String, PackError> {
    let mut sum = Sum::new(io::sink());
    let read = host.open(path).and_then(|mut file| io::copy(&mut file, &mut sum));
    read.map_err(|error| PackError::io("read", path, &error))?;
    Ok(sum.told().1)
}

/// Says what a layer holds, so that the same need not be compressed twice.
#[must_use]
pub fn contents(files: &[HashedPiece<'_>]) -> String {
    let mut sum = Sha256::new();
    sum.update(format!("{} {WINDOW_LOG} {}\n", level(files), zstd::zstd_safe::version_string()));
    for file in files {
        let mode = mode(file.piece);
        sum.update(format!("{mode:o} {} {} {}\n", file.size, file.sha256, file.piece.path));
    }
    hexadecimal(&sum.finalize())
}

/// Writes a layer into a folder, where it is named by its hash.
///
/// # Errors
/// What the disk says; a file that changed since it was hashed.
pub fn write(host: &dyn WriteFiles, files: &[HashedPiece<'_>], folder: &HostPath) -> io::Result<Layer> {
    let place = folder.join(".layer");
    host.remove(&place)?;
    let out = Sum::new(host.create(&place)?);
    let sum = if bytes(files) < SMALL { at_once(host, files, out)? } else { streamed(host, files, out)? };
    let (size, sha256) = sum.told();
    sum.inner.finish()?;
    host.rename(&place, &folder.join(&sha256))?;
    Ok(Layer { sha256, size, unpacked: bytes(files) })
}

type Out = Sum<Box<dyn NewFile>>;

/// A small layer as a whole: what knows how much will come takes memory and time for that much.
fn at_once(host: &dyn ReadFiles, files: &[HashedPiece<'_>], mut out: Out) -> io::Result<Out> {
    let mut archive = Builder::new(Vec::new());
    for file in files {
        append(host, &mut archive, file)?;
    }
    let mut compressor = Compressor::new(level(files))?;
    compressor.include_checksum(true)?;
    out.write_all(&compressor.compress(&archive.into_inner()?)?)?;
    Ok(out)
}

/// A layer that may be larger than memory.
fn streamed(host: &dyn ReadFiles, files: &[HashedPiece<'_>], out: Out) -> io::Result<Out> {
    let mut encoder = Encoder::new(out, level(files))?;
    // One worker or many: the blocks, and so the bytes, are the same. None at all would make others.
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
    let mut sum = LayerReader { inner: host.open(&file.piece.from)?, sum: Sha256::new(), bytes: 0 };
    archive.append_data(&mut header, &file.piece.path, &mut io::Read::take(&mut sum, file.size))?;
    if sum.bytes != file.size || hexadecimal(&sum.sum.finalize()) != file.sha256 {
        return Err(io::Error::other(format!("`{}` changed while it was packed", file.piece.from)));
    }
    Ok(())
}

fn mode(piece: &LayerPiece) -> u32 {
    if piece.executable { 0o755 } else { 0o644 }
}

fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1).min(8))
}

/// Passes on what is written and sums it up.
struct Sum<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W> Sum<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    fn told(&self) -> (u64, String) {
        (self.bytes, hexadecimal(&self.hash.clone().finalize()))
    }
}

impl<W: Write> Write for Sum<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Passes on what is read and sums it up.
struct LayerReader {
    inner: Box<dyn io::Read + Send>,
    sum: Sha256,
    bytes: u64,
}

impl io::Read for LayerReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(AT_ONCE);
        let count = self.inner.read(&mut into[..most])?;
        self.sum.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}
