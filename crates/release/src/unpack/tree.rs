//! Unpacks an archive of sources into a folder, with the rules for layers. Its hash is known, its unpacked size is not.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use gpubuild_host::{HostPath, WriteFiles};
use lzma_rust2::XzReader;
use zstd::stream::read::Decoder;

use super::entries::{ArchiveEntries, ArchiveRules, BadArchive, EntrySource};
use super::names::Names;
use super::zip::ZipEntries;
use super::{BUFFER, Hashed, RejectReason, RejectedArchive, WINDOW_LOG, rejected, write};

/// The largest accepted total size of the files in bytes.
const LARGEST: u64 = 8 << 30;

/// The offset of `ustar` in the header of a tar archive.
const TAR_MARK: usize = 257;

/// The memory that decompressing xz may use, in KiB: enough for `xz -9`.
const XZ_MEMORY: u32 = 128 << 10;

type HashedFile = BufReader<Hashed<Box<dyn Read + Send>>>;

/// How an archive is unpacked.
#[derive(Debug, Clone, Copy)]
pub struct TreeRequest<'a> {
    /// Its sha256.
    pub sha256: &'a str,
    /// Number of leading path components to remove. Files with fewer components are left out, as with `tar --strip-components`.
    pub strip: usize,
}

/// Unpacks an archive. Files are not flushed to disk. Returns the number of files.
///
/// # Errors
/// The first problem of the archive. Files that were already written remain.
pub fn unpack_tree(
    host: &dyn WriteFiles,
    archive: &HostPath,
    request: TreeRequest<'_>,
    folder: &HostPath,
) -> Result<usize, RejectedArchive> {
    let read = |error| rejected(RejectReason::Read(error));
    let file = host.open(archive).map_err(read)?;
    let mut file: HashedFile = BufReader::with_capacity(BUFFER, Hashed::new(file));
    let start = file.fill_buf().map_err(read)?;
    // A tar archive without compression has its mark behind the first name.
    let is_tar = start.get(TAR_MARK..TAR_MARK + 5) == Some(b"ustar");
    let mut tree = Tree { host, folder, strip: request.strip, names: Names::default(), bytes: 0 };
    let mut rest = match start {
        [0x1f, 0x8b, ..] => tree.unpack(GzDecoder::new(file))?.into_inner(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = Decoder::with_buffer(file).map_err(read)?.single_frame();
            decoder.window_log_max(WINDOW_LOG).map_err(read)?;
            tree.unpack(decoder)?.finish()
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            tree.unpack(XzReader::new_mem_limit(file, false, XZ_MEMORY))?.into_inner()
        }
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => tree.unpack(BzDecoder::new(file))?.into_inner(),
        [b'P', b'K', 3, 4, ..] => {
            let mut entries = ZipEntries::open(host, archive)
                .map_err(|bad| RejectedArchive { entry: None, why: bad.into() })?;
            tree.add_all(&mut entries)?;
            io::copy(&mut file, &mut io::sink()).map_err(read)?;
            file
        }
        _ if is_tar => tree.unpack(file)?,
        other => return Err(rejected(RejectReason::Format(format_of(other)))),
    };
    if !rest.fill_buf().map_err(read)?.is_empty() {
        return Err(rejected(RejectReason::TrailingData));
    }
    // The file must not have been replaced between verification and unpacking.
    if rest.get_ref().sha256() != request.sha256 {
        return Err(rejected(RejectReason::Changed));
    }
    Ok(tree.names.files())
}

fn format_of(start: &[u8]) -> &'static str {
    match start {
        [b'P', b'K', 5, 6, ..] => "an empty ZIP archive",
        [b'P', b'K', 7, 8, ..] => "a ZIP archive in several parts",
        [b'7', b'z', 0xbc, ..] => "a 7z archive",
        [] => "empty",
        _ => "a file of an unknown format",
    }
}

struct Tree<'a> {
    host: &'a dyn WriteFiles,
    folder: &'a HostPath,
    strip: usize,
    names: Names,
    bytes: u64,
}

impl Tree<'_> {
    /// Unpacks all entries. Returns the reader at the end of the compressed data.
    fn unpack<R: Read>(&mut self, reader: R) -> Result<R, RejectedArchive> {
        let mut entries = ArchiveEntries::new(reader, ArchiveRules::Sources);
        self.add_all(&mut entries)?;
        // The decompressor has to verify its checksum.
        let mut reader = entries.into_inner();
        let mut buffer = vec![0; BUFFER];
        while reader.read(&mut buffer).map_err(|error| rejected(RejectReason::Read(error)))? > 0 {}
        Ok(reader)
    }

    /// Writes all files and links.
    fn add_all(&mut self, entries: &mut dyn EntrySource) -> Result<(), RejectedArchive> {
        let mut buffer = vec![0; BUFFER];
        let mut links = Vec::new();
        while let Some(mut entry) =
            entries.next_file().map_err(|(entry, bad)| RejectedArchive { entry, why: bad.into() })?
        {
            let original = entry.path.clone();
            let at_entry = |why: RejectReason| RejectedArchive { entry: Some(original.clone()), why };
            // Every name is checked, also if the file is left out.
            let path = entry.path.strip_prefix("./").unwrap_or(&entry.path);
            Names::default().add(path).map_err(|invalid| at_entry(invalid.into()))?;
            self.bytes += entry.size;
            if self.bytes > LARGEST {
                return Err(at_entry(RejectReason::Large { limit: LARGEST }));
            }
            let Some(path) = stripped(path, self.strip).map(str::to_owned) else {
                skip(entries, entry.size, &mut buffer).map_err(at_entry)?;
                continue;
            };
            entry.path = path;
            self.names.add(&entry.path).map_err(|invalid| at_entry(invalid.into()))?;
            if let Some(target) = entry.link.take() {
                if !stays_inside(&entry.path, &target) {
                    let what =
                        format!("it is a symbolic link to `{target}`, which may be outside the archive");
                    return Err(at_entry(BadArchive::Kind(what).into()));
                }
                links.push((entry.path, target));
                continue;
            }
            write(self.host, entries, &entry, self.folder, &mut buffer).map_err(at_entry)?;
            self.host
                .set_read_only(&self.folder.join(&entry.path))
                .map_err(RejectReason::Write)
                .map_err(at_entry)?;
        }
        // After all files, so that no file is written through a link.
        for (path, target) in links {
            self.link(&path, &target)
                .map_err(|error| RejectedArchive { entry: Some(path), why: RejectReason::Write(error) })?;
        }
        Ok(())
    }

    /// Creates a symbolic link, or a copy of its target on platforms without links.
    fn link(&self, path: &str, target: &str) -> std::io::Result<()> {
        let place = self.folder.join(path);
        match self.host.symlink(target, &place) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                let parent = place.parent().unwrap_or_else(|| self.folder.clone());
                let from = parent.join(target).normalized();
                if self.host.is_file(&from) { self.host.copy(&from, &place) } else { Ok(()) }
            }
            other => other,
        }
    }
}

fn skip(entries: &mut dyn EntrySource, mut left: u64, buffer: &mut [u8]) -> Result<(), RejectReason> {
    while left > 0 {
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        entries.content(&mut buffer[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// The path without its first components; `None` if nothing remains.
fn stripped(path: &str, count: usize) -> Option<&str> {
    (0..count).try_fold(path, |path, _| path.split_once('/').map(|(_, rest)| rest))
}

/// Whether a link cannot lead out of the archive: `..` may only be at the start, because it would otherwise follow other links.
fn stays_inside(path: &str, target: &str) -> bool {
    let mut rest = target;
    let mut depth = path.matches('/').count();
    while let Some(after) = rest.strip_prefix("../") {
        let Some(above) = depth.checked_sub(1) else { return false };
        (depth, rest) = (above, after);
    }
    if rest == ".." {
        return depth > 0;
    }
    let is_forbidden = |c: char| c.is_control() || matches!(c, '\\' | ':');
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    !rest.chars().any(is_forbidden) && rest.trim_end_matches('/').split('/').all(is_plain)
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
