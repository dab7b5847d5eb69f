//! Unpacks a layer into a separate folder. Every entry is checked before it is written, and the unpacked size is limited to what the
//! manifest declares.

pub mod entries;
pub mod names;
mod pax;
pub mod tree;
mod zip;

use std::io::{self, BufRead, BufReader, Write};

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, WriteFiles};
use zstd::stream::read::Decoder;

use self::entries::{ArchiveEntries, ArchiveEntry, ArchiveRules, BadArchive, EntrySource};
use self::names::{InvalidName, Names};
use super::hashed::Hashed;
use super::manifest::Layer;

/// The largest accepted window size as a power of two: 128 MiB, the default limit of `zstd`.
const WINDOW_LOG: u32 = 27;
/// The size of read buffers in bytes.
const BUFFER: usize = 128 << 10;

/// A rejected layer. Files that were already written are in a temporary folder.
#[derive(Debug, thiserror::Error)]
#[error("{}{why}", .entry.as_ref().map(|entry| format!("`{entry}`: ")).unwrap_or_default())]
pub struct RejectedArchive {
    /// The path of the invalid entry; `None` if the archive itself is invalid.
    pub entry: Option<String>,
    /// Why the layer is rejected.
    pub why: RejectReason,
}

/// Why an archive is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RejectReason {
    /// The path of an entry is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An entry or the archive is invalid.
    #[error(transparent)]
    Bad(#[from] BadArchive),
    /// The unpacked size is larger than declared.
    #[error("it has more than the {declared} bytes that the manifest declares")]
    More {
        /// The unpacked size in the manifest, in bytes.
        declared: u64,
    },
    /// The unpacked size is smaller than declared.
    #[error("it has {found} bytes, but the manifest declares {declared}")]
    Less {
        /// The actual unpacked size in bytes.
        found: u64,
        /// The unpacked size in the manifest, in bytes.
        declared: u64,
    },
    /// The unpacked size exceeds the limit for archives of sources.
    #[error("it has more than {limit} bytes")]
    Large {
        /// The limit in bytes.
        limit: u64,
    },
    /// The archive is neither compressed tar nor ZIP.
    #[error(
        "it is {0}, but only tar archives compressed with gzip, zstd, xz or bzip2 and ZIP archives are supported"
    )]
    Format(&'static str),
    /// There is data after the compressed archive.
    #[error("data follows the compressed archive")]
    TrailingData,
    /// The file was changed after it was verified.
    #[error("it was changed while it was unpacked")]
    Changed,
    /// The archive cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// A file cannot be written.
    #[error("{0}")]
    Write(io::Error),
}

impl Diagnostic for RejectedArchive {
    fn id(&self) -> DiagnosticId {
        match &self.why {
            RejectReason::Name(InvalidName::Many)
            | RejectReason::More { .. }
            | RejectReason::Less { .. }
            | RejectReason::Large { .. } => id!("archive.size"),
            RejectReason::Format(_) => id!("archive.format"),
            RejectReason::Name(InvalidName::Twice | InvalidName::Case(_) | InvalidName::Both(_)) => {
                id!("archive.same-name")
            }
            RejectReason::Name(_) => id!("archive.path"),
            RejectReason::Bad(BadArchive::Kind(_)) => id!("archive.kind"),
            RejectReason::Bad(BadArchive::Mode(_)) => id!("archive.mode"),
            RejectReason::Bad(_) | RejectReason::TrailingData | RejectReason::Changed => {
                id!("archive.damaged")
            }
            RejectReason::Read(_) => id!("archive.unreadable"),
            RejectReason::Write(error) if is_full(error) => id!("install.no-space"),
            RejectReason::Write(_) => id!("install.unwritable"),
        }
    }
}

/// Whether an error means that the disk is full or the user's quota is exceeded.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn rejected(why: impl Into<RejectReason>) -> RejectedArchive {
    RejectedArchive { entry: None, why: why.into() }
}

/// Unpacks a layer into `folder`. `names` contains the files of the variant's layers that were unpacked before. The files are not
/// flushed to disk: the caller flushes all layers at once.
///
/// # Errors
/// The first problem of the layer. Files that were already written remain.
pub fn unpack(
    host: &dyn WriteFiles,
    archive: &HostPath,
    layer: &Layer,
    folder: &HostPath,
    names: &mut Names,
) -> Result<(), RejectedArchive> {
    let file = host.open(archive).map_err(|error| rejected(RejectReason::Read(error)))?;
    let hashed = Hashed::new(file);
    let mut decoder = Decoder::with_buffer(BufReader::with_capacity(BUFFER, hashed))
        .map_err(|error| rejected(RejectReason::Read(error)))?
        .single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(|error| rejected(RejectReason::Read(error)))?;
    let mut entries = ArchiveEntries::new(decoder, ArchiveRules::Layer);
    let mut left = layer.unpacked;
    let mut buffer = vec![0; BUFFER];
    while let Some(entry) =
        entries.next_file().map_err(|(entry, bad)| RejectedArchive { entry, why: bad.into() })?
    {
        let at_entry = |why: RejectReason| RejectedArchive { entry: Some(entry.path.clone()), why };
        names.add(&entry.path).map_err(|invalid| at_entry(invalid.into()))?;
        left = left
            .checked_sub(entry.size)
            .ok_or_else(|| at_entry(RejectReason::More { declared: layer.unpacked }))?;
        write(host, &mut entries, &entry, folder, &mut buffer).map_err(at_entry)?;
    }
    if left > 0 {
        return Err(rejected(RejectReason::Less { found: layer.unpacked - left, declared: layer.unpacked }));
    }
    let mut rest = entries.into_inner().finish();
    if !rest.fill_buf().map_err(|error| rejected(RejectReason::Read(error)))?.is_empty() {
        return Err(rejected(RejectReason::TrailingData));
    }
    // The file must not have been replaced between verification and unpacking.
    if rest.get_ref().sha256() != layer.sha256 {
        return Err(rejected(RejectReason::Changed));
    }
    Ok(())
}

fn write(
    host: &dyn WriteFiles,
    entries: &mut dyn EntrySource,
    entry: &ArchiveEntry,
    folder: &HostPath,
    buffer: &mut [u8],
) -> Result<(), RejectReason> {
    let path = folder.join(&entry.path);
    let mut file = host.create(&path).map_err(RejectReason::Write)?;
    let mut left = entry.size;
    while left > 0 {
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        entries.content(&mut buffer[..count])?;
        file.write_all(&buffer[..count]).map_err(RejectReason::Write)?;
        left -= count as u64;
    }
    file.close().map_err(RejectReason::Write)?;
    if entry.executable {
        host.set_executable(&path).map_err(RejectReason::Write)?;
    }
    Ok(())
}
