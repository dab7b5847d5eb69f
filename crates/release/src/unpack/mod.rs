//! Unpacks a layer into a folder of its own: every entry is checked before anything of it is written, and never more is read than
//! the manifest has announced.

pub mod entries;
pub mod names;

use std::io::{self, BufRead, BufReader, Read, Write};

use gpubuild_host::{Host, HostPath};
use sha2::{Digest, Sha256};
use zstd::stream::read::Decoder;

use self::entries::{Bad, Entries, Entry};
use self::names::{Names, Unfit};
use super::manifest::Layer;

/// The largest window that is decompressed with: what `zstd` takes without being asked, 128 MiB.
const WINDOW_LOG: u32 = 27;
/// Bytes on their way.
const BUFFER: usize = 128 << 10;

/// Why a layer is refused. What was written of it until then lies in a folder that nobody uses.
#[derive(Debug, thiserror::Error)]
#[error("{}{why}", .entry.as_ref().map(|entry| format!("`{entry}`: ")).unwrap_or_default())]
pub struct Refused {
    /// The entry, where it is one.
    pub entry: Option<String>,
    /// Why.
    pub why: Why,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// A name.
    #[error(transparent)]
    Name(#[from] Unfit),
    /// An entry, or the archive.
    #[error(transparent)]
    Bad(#[from] Bad),
    /// More than was announced.
    #[error("it has more than the {announced} bytes that the manifest announces")]
    More {
        /// In the manifest.
        announced: u64,
    },
    /// Less than was announced.
    #[error("it has {found} bytes, and the manifest announces {announced}")]
    Less {
        /// In the archive.
        found: u64,
        /// In the manifest.
        announced: u64,
    },
    /// Something behind the compressed part.
    #[error("something stands behind the compressed archive")]
    Behind,
    /// It is not what was verified before.
    #[error("it has changed while it was unpacked")]
    Changed,
    /// The archive can't be read.
    #[error("{0}")]
    Read(io::Error),
    /// A file can't be written.
    #[error("{0}")]
    Write(io::Error),
}

impl Refused {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match &self.why {
            Why::Name(Unfit::Many) | Why::More { .. } | Why::Less { .. } => "archive.size",
            Why::Name(Unfit::Twice | Unfit::Case(_) | Unfit::Both(_)) => "archive.same-name",
            Why::Name(_) => "archive.path",
            Why::Bad(Bad::Kind(_)) => "archive.kind",
            Why::Bad(Bad::Mode(_)) => "archive.mode",
            Why::Bad(_) | Why::Behind | Why::Changed => "archive.damaged",
            Why::Read(_) => "archive.unreadable",
            Why::Write(error) if is_full(error) => "install.no-space",
            Why::Write(_) => "install.unwritable",
        }
    }
}

/// Whether the disk, or what this user may take of it, is used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn refused(why: impl Into<Why>) -> Refused {
    Refused { entry: None, why: why.into() }
}

/// Unpacks a layer below `folder`. `names` are those of all layers of the variant so far.
///
/// # Errors
/// The first thing that is wrong with it; what was written until then stays.
pub fn unpack(
    host: &dyn Host,
    archive: &HostPath,
    layer: &Layer,
    folder: &HostPath,
    names: &mut Names,
) -> Result<(), Refused> {
    let file = host.open(archive).map_err(|error| refused(Why::Read(error)))?;
    let hashed = Hashed { from: file, hash: Sha256::new() };
    let mut decoder = Decoder::with_buffer(BufReader::with_capacity(BUFFER, hashed))
        .map_err(|error| refused(Why::Read(error)))?
        .single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(|error| refused(Why::Read(error)))?;
    let mut entries = Entries::new(decoder);
    let mut left = layer.unpacked;
    let mut buffer = vec![0; BUFFER];
    while let Some(entry) = entries.next_file().map_err(|(entry, bad)| Refused { entry, why: bad.into() })? {
        let one = |why: Why| Refused { entry: Some(entry.path.clone()), why };
        names.take(&entry.path).map_err(|unfit| one(unfit.into()))?;
        left = left.checked_sub(entry.size).ok_or_else(|| one(Why::More { announced: layer.unpacked }))?;
        write(host, &mut entries, &entry, folder, &mut buffer).map_err(one)?;
    }
    if left > 0 {
        return Err(refused(Why::Less { found: layer.unpacked - left, announced: layer.unpacked }));
    }
    let mut rest = entries.into_inner().finish();
    if !rest.fill_buf().map_err(|error| refused(Why::Read(error)))?.is_empty() {
        return Err(refused(Why::Behind));
    }
    // Between verifying and unpacking nobody may have put something else there.
    if hex(rest.into_inner().hash) != layer.sha256 {
        return Err(refused(Why::Changed));
    }
    Ok(())
}

fn write<R: Read>(
    host: &dyn Host,
    entries: &mut Entries<R>,
    entry: &Entry,
    folder: &HostPath,
    buffer: &mut [u8],
) -> Result<(), Why> {
    let path = folder.join(&entry.path);
    let mut file = host.create(&path).map_err(Why::Write)?;
    let mut left = entry.size;
    while left > 0 {
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        entries.content(&mut buffer[..count])?;
        file.write_all(&buffer[..count]).map_err(Why::Write)?;
        left -= count as u64;
    }
    file.finish().map_err(Why::Write)?;
    if entry.executable {
        host.set_executable(&path).map_err(Why::Write)?;
    }
    Ok(())
}

/// Hashes what is read through it.
struct Hashed<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// The hash of a file that may be large, and its bytes.
///
/// # Errors
/// It can't be read.
pub fn hash_file(host: &dyn Host, path: &HostPath) -> io::Result<(String, u64)> {
    let mut hashed = Hashed { from: host.open(path)?, hash: Sha256::new() };
    let mut buffer = vec![0; BUFFER];
    let mut size = 0;
    loop {
        match hashed.read(&mut buffer) {
            Ok(0) => return Ok((hex(hashed.hash), size)),
            Ok(count) => size += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(hash: Sha256) -> String {
    use std::fmt::Write as _;
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
