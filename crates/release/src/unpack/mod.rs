//! Unpacks a layer into a separate folder. Every entry is checked before it is written, and no more is read than the manifest declares.

pub mod entries;
pub mod names;

use std::io::{self, BufRead, BufReader, Read, Write};

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use sha2::{Digest, Sha256};
use zstd::stream::read::Decoder;

use self::entries::{ArchiveEntries, ArchiveEntry, BadArchive};
use self::names::{Names, UnfitName};
use super::manifest::Layer;

/// The largest window that is decompressed with: what `zstd` takes without being asked, 128 MiB.
const WINDOW_LOG: u32 = 27;
/// Bytes on their way.
const BUFFER: usize = 128 << 10;

/// Why a layer is rejected. Files that were already written are in a temporary folder.
#[derive(Debug, thiserror::Error)]
#[error("{}{why}", .entry.as_ref().map(|entry| format!("`{entry}`: ")).unwrap_or_default())]
pub struct RefusedArchive {
    /// The entry, where it is one.
    pub entry: Option<String>,
    /// Why.
    pub why: RefusalReason,
}

/// Why an archive is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RefusalReason {
    /// A name.
    #[error(transparent)]
    Name(#[from] UnfitName),
    /// An entry, or the archive.
    #[error(transparent)]
    Bad(#[from] BadArchive),
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
    #[error("data follows the compressed archive")]
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

impl Diagnostic for RefusedArchive {
    fn id(&self) -> DiagnosticId {
        match &self.why {
            RefusalReason::Name(UnfitName::Many)
            | RefusalReason::More { .. }
            | RefusalReason::Less { .. } => id!("archive.size"),
            RefusalReason::Name(UnfitName::Twice | UnfitName::Case(_) | UnfitName::Both(_)) => {
                id!("archive.same-name")
            }
            RefusalReason::Name(_) => id!("archive.path"),
            RefusalReason::Bad(BadArchive::Kind(_)) => id!("archive.kind"),
            RefusalReason::Bad(BadArchive::Mode(_)) => id!("archive.mode"),
            RefusalReason::Bad(_) | RefusalReason::Behind | RefusalReason::Changed => id!("archive.damaged"),
            RefusalReason::Read(_) => id!("archive.unreadable"),
            RefusalReason::Write(error) if is_full(error) => id!("install.no-space"),
            RefusalReason::Write(_) => id!("install.unwritable"),
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

fn refused(why: impl Into<RefusalReason>) -> RefusedArchive {
    RefusedArchive { entry: None, why: why.into() }
}

/// Unpacks a layer below `folder`. `names` are those of all layers of the variant so far.
///
/// # Errors
/// The first thing that is wrong with it; what was written until then stays.
pub fn unpack(
    host: &dyn WriteFiles,
    archive: &HostPath,
    layer: &Layer,
    folder: &HostPath,
    names: &mut Names,
) -> Result<(), RefusedArchive> {
    let file = host.open(archive).map_err(|error| refused(RefusalReason::Read(error)))?;
    let hashed = HashingReader { from: file, hash: Sha256::new() };
    let mut decoder = Decoder::with_buffer(BufReader::with_capacity(BUFFER, hashed))
        .map_err(|error| refused(RefusalReason::Read(error)))?
        .single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(|error| refused(RefusalReason::Read(error)))?;
    let mut entries = ArchiveEntries::new(decoder);
    let mut left = layer.unpacked;
    let mut buffer = vec![0; BUFFER];
    while let Some(entry) =
        entries.next_file().map_err(|(entry, bad)| RefusedArchive { entry, why: bad.into() })?
    {
        let one = |why: RefusalReason| RefusedArchive { entry: Some(entry.path.clone()), why };
        names.take(&entry.path).map_err(|unfit| one(unfit.into()))?;
        left = left
            .checked_sub(entry.size)
            .ok_or_else(|| one(RefusalReason::More { announced: layer.unpacked }))?;
        write(host, &mut entries, &entry, folder, &mut buffer).map_err(one)?;
    }
    if left > 0 {
        return Err(refused(RefusalReason::Less { found: layer.unpacked - left, announced: layer.unpacked }));
    }
    let mut rest = entries.into_inner().finish();
    if !rest.fill_buf().map_err(|error| refused(RefusalReason::Read(error)))?.is_empty() {
        return Err(refused(RefusalReason::Behind));
    }
    // The file must not have been replaced between verification and unpacking.
    if hex(rest.into_inner().hash) != layer.sha256 {
        return Err(refused(RefusalReason::Changed));
    }
    Ok(())
}

fn write<R: Read>(
    host: &dyn WriteFiles,
    entries: &mut ArchiveEntries<R>,
    entry: &ArchiveEntry,
    folder: &HostPath,
    buffer: &mut [u8],
) -> Result<(), RefusalReason> {
    let path = folder.join(&entry.path);
    let mut file = host.create(&path).map_err(RefusalReason::Write)?;
    let mut left = entry.size;
    while left > 0 {
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        entries.content(&mut buffer[..count])?;
        file.write_all(&buffer[..count]).map_err(RefusalReason::Write)?;
        left -= count as u64;
    }
    file.finish().map_err(RefusalReason::Write)?;
    if entry.executable {
        host.set_executable(&path).map_err(RefusalReason::Write)?;
    }
    Ok(())
}

/// Hashes what is read through it.
struct HashingReader<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
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
pub fn hash_file(host: &dyn ReadFiles, path: &HostPath) -> io::Result<(String, u64)> {
    let mut hashed = HashingReader { from: host.open(path)?, hash: Sha256::new() };
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
