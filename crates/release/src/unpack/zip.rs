//! Reads the subset of ZIP that archives of sources use: stored and deflated files, folders, and symbolic links of Unix. The directory at the
//! end and the header before each file have to agree, because programs trust one or the other.

use std::io::{self, Read};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, ReadFiles};

use super::entries::{ArchiveEntry, BadArchive, EntrySource, form};
use super::names::MAX_FILES;

/// The size of the record at the end of an archive without its comment.
const END: usize = 22;
/// The largest comment of an archive.
const MAX_COMMENT: u64 = u16::MAX as u64;
/// The size of an entry of the directory without its names.
const DIRECTORY_ENTRY: usize = 46;
/// The size of the header of a file without its names.
const LOCAL_HEADER: usize = 30;
/// The largest accepted directory in bytes.
const MAX_DIRECTORY: u64 = 64 << 20;
/// The longest accepted name or target of a link in bytes.
const MAX_NAME: usize = 1024;
/// How much of a file is read at once.
const PIECE: usize = 128 << 10;

/// Bits of the flags: the file is encrypted, in one of two ways.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// The name is UTF-8.
const UTF8: u16 = 1 << 11;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// An entry of the directory.
#[derive(Debug, Clone)]
struct DirectoryEntry {
    name: String,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u64,
    size: u64,
    /// The mode of Unix with the kind of file; 0 if it was written elsewhere.
    mode: u32,
    /// Where its header starts.
    offset: u64,
    /// Where the next file or the directory starts.
    end: u64,
}

/// The files of an archive.
pub(super) struct ZipEntries<'a> {
    host: &'a dyn ReadFiles,
    path: &'a HostPath,
    /// The entries that follow, in reverse order.
    left: Vec<DirectoryEntry>,
    /// The current file.
    content: Option<Content<'a>>,
}

/// Content that is decompressed and verified.
struct Content<'a> {
    from: Box<dyn Read + 'a>,
    crc: Crc,
    expected: u32,
    left: u64,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    let found = bytes.get(at..at + N).unwrap_or(&[0; N]);
    number[..N].copy_from_slice(found);
    u64::from_le_bytes(number)
}

#[expect(clippy::cast_possible_truncation, reason = "two bytes")]
fn short(bytes: &[u8], at: usize) -> u16 {
    number::<2>(bytes, at) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "four bytes")]
fn long(bytes: &[u8], at: usize) -> u32 {
    number::<4>(bytes, at) as u32
}

impl<'a> ZipEntries<'a> {
    /// Reads the directory of an archive.
    pub(super) fn open(host: &'a dyn ReadFiles, path: &'a HostPath) -> Result<Self, BadArchive> {
        let (start, directory, count) = directory(host, path)?;
        let mut entries = Vec::new();
        let mut rest = &directory[..];
        for _ in 0..count {
            let (entry, after) = directory_entry(rest)?;
            entries.push(entry);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(form("its directory has more entries than it announces"));
        }
        no_overlaps(&mut entries, start)?;
        entries.reverse();
        Ok(Self { host, path, left: entries, content: None })
    }

    /// Compares the header of a file with its directory entry. Returns the position of the content.
    fn start_of(&self, entry: &DirectoryEntry) -> Result<u64, BadArchive> {
        let header = self.host.read_part(self.path, entry.offset, LOCAL_HEADER)?;
        let names = usize::from(short(&header, 26));
        let offset = entry.offset + LOCAL_HEADER as u64;
        let name = self.host.read_part(self.path, offset, names)?;
        let is_same = header.starts_with(b"PK\x03\x04")
            && name == entry.name.as_bytes()
            && short(&header, 6) & ENCRYPTED == 0
            && short(&header, 8) == entry.method;
        if !is_same {
            return Err(form("its header differs from its entry in the directory"));
        }
        let start = offset + number::<2>(&header, 26) + number::<2>(&header, 28);
        // The header may have a longer extra field than the directory.
        if start + entry.compressed > entry.end { Err(overlap(&entry.name)) } else { Ok(start) }
    }

    fn open_content(&self, entry: &DirectoryEntry) -> Result<Content<'a>, BadArchive> {
        let at = self.start_of(entry)?;
        let part = FilePart {
            host: self.host,
            path: self.path,
            at,
            left: entry.compressed,
            buffer: Vec::new(),
            used: 0,
        };
        let from: Box<dyn Read + 'a> = match entry.method {
            STORED if entry.compressed == entry.size => Box::new(part),
            STORED => return Err(form("it is stored with two sizes")),
            _ => Box::new(DeflateDecoder::new(part)),
        };
        Ok(Content { from, crc: Crc::new(), expected: entry.crc, left: entry.size })
    }

    /// Checks that the previous file was read and is intact.
    fn finish(&mut self) -> Result<(), BadArchive> {
        let Some(mut content) = self.content.take() else { return Ok(()) };
        if content.left > 0 || content.from.read(&mut [0])? > 0 {
            return Err(form("a file has more bytes than it announces"));
        }
        if content.crc.sum() == content.expected {
            Ok(())
        } else {
            Err(form("the checksum of a file is wrong"))
        }
    }

    /// The entry as a file; `None` for a folder.
    fn file(&mut self, entry: &DirectoryEntry) -> Result<Option<ArchiveEntry>, BadArchive> {
        let is_folder = entry.name.ends_with('/');
        let kind = match entry.mode & 0o170_000 {
            0 => None,
            0o100_000 | 0o120_000 if !is_folder => None,
            0o040_000 if is_folder => None,
            0o040_000 | 0o100_000 | 0o120_000 => Some("named like another kind of file"),
            0o020_000 | 0o060_000 => Some("a device"),
            0o010_000 => Some("a pipe"),
            _ => Some("an entry of an unknown kind"),
        };
        if let Some(kind) = kind {
            return Err(BadArchive::Kind(format!("it is {kind}")));
        }
        if is_folder {
            return if entry.size == 0 { Ok(None) } else { Err(form("it is a folder with content")) };
        }
        let is_link = entry.mode & 0o170_000 == 0o120_000;
        let mut file = ArchiveEntry {
            path: entry.name.clone(),
            size: entry.size,
            executable: entry.mode & 0o111 != 0,
            link: None,
        };
        self.content = Some(self.open_content(entry)?);
        if is_link {
            if entry.size > MAX_NAME as u64 {
                return Err(form("the target of a link is too long"));
            }
            let mut target = vec![0; usize::try_from(entry.size).unwrap_or_default()];
            self.content(&mut target)?;
            self.finish()?;
            let target = String::from_utf8(target).map_err(|_| form("the target of a link is not UTF-8"))?;
            (file.link, file.size, file.executable) = (Some(target), 0, false);
        }
        Ok(Some(file))
    }
}

impl EntrySource for ZipEntries<'_> {
    fn next_file(&mut self) -> Result<Option<ArchiveEntry>, (Option<String>, BadArchive)> {
        self.finish().map_err(|bad| (None, bad))?;
        while let Some(entry) = self.left.pop() {
            if let Some(file) = self.file(&entry).map_err(|bad| (Some(entry.name.clone()), bad))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    fn content(&mut self, buffer: &mut [u8]) -> Result<(), BadArchive> {
        let Some(content) = &mut self.content else { return Err(form("a file has no content")) };
        if content.left < buffer.len() as u64 {
            return Err(form("a file has fewer bytes than it announces"));
        }
        content.from.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => form("a file has fewer bytes than it announces"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                form(format!("a file is damaged: {error}"))
            }
            _ => BadArchive::Read(error),
        })?;
        content.left -= buffer.len() as u64;
        content.crc.update(buffer);
        Ok(())
    }
}

/// A part of the archive.
struct FilePart<'a> {
    host: &'a dyn ReadFiles,
    path: &'a HostPath,
    /// The position of the next piece.
    at: u64,
    /// The number of bytes from there.
    left: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Read for FilePart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            let count = usize::try_from(self.left).map_or(PIECE, |left| left.min(PIECE));
            self.buffer = self.host.read_part(self.path, self.at, count)?;
            self.used = 0;
            self.at += self.buffer.len() as u64;
            self.left -= self.buffer.len() as u64;
        }
        let count = into.len().min(self.buffer.len() - self.used);
        into[..count].copy_from_slice(&self.buffer[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

/// Finds the directory: its position, its bytes and the number of entries.
fn directory(host: &dyn ReadFiles, path: &HostPath) -> Result<(u64, Vec<u8>, usize), BadArchive> {
    let size = host.stat(path)?.size;
    let searched = (END as u64 + MAX_COMMENT).min(size);
    let tail = host.read_part(path, size - searched, usize::try_from(searched).unwrap_or_default())?;
    let is_end = |at: &usize| {
        tail[*at..].starts_with(b"PK\x05\x06")
            && *at + END + usize::from(short(&tail, *at + 20)) == tail.len()
    };
    let last = tail.len().checked_sub(END).ok_or_else(|| form("it ends without a directory"))?;
    let at = (0..=last).rev().find(is_end).ok_or_else(|| form("it ends without a directory"))?;
    let end = &tail[at..];
    let (count, bytes, start) = (short(end, 10), number::<4>(end, 12), number::<4>(end, 16));
    if short(end, 4) != 0 || short(end, 6) != 0 || short(end, 8) != count {
        return Err(form("it consists of several files"));
    }
    if count == u16::MAX || bytes == u64::from(u32::MAX) || start == u64::from(u32::MAX) {
        return Err(form("it uses the extension for large archives (ZIP64), which is not supported"));
    }
    if start + bytes != size - searched + at as u64 || bytes > MAX_DIRECTORY || usize::from(count) > MAX_FILES
    {
        return Err(form("its directory has another size or position than it announces"));
    }
    let directory = host.read_part(path, start, usize::try_from(bytes).unwrap_or_default())?;
    Ok((start, directory, usize::from(count)))
}

/// The first entry of the directory, and what follows.
fn directory_entry(bytes: &[u8]) -> Result<(DirectoryEntry, &[u8]), BadArchive> {
    let cut = || form("its directory is damaged");
    let fixed =
        bytes.get(..DIRECTORY_ENTRY).filter(|fixed| fixed.starts_with(b"PK\x01\x02")).ok_or_else(cut)?;
    let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(short(fixed, at)));
    let total = DIRECTORY_ENTRY + name + extra + comment;
    let rest = bytes.get(total..).ok_or_else(cut)?;
    let name = &bytes[DIRECTORY_ENTRY..DIRECTORY_ENTRY + name];
    let flags = short(fixed, 8);
    // Other encodings than UTF-8 differ between programs.
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii() || flags & UTF8 != 0);
    let name =
        name.filter(|name| name.len() <= MAX_NAME).ok_or_else(|| form("a name is not UTF-8 or too long"))?;
    let is_of_unix = fixed[5] == 3 || fixed[5] == 19;
    let entry = DirectoryEntry {
        name: name.to_owned(),
        flags,
        method: short(fixed, 10),
        crc: long(fixed, 16),
        compressed: number::<4>(fixed, 20),
        size: number::<4>(fixed, 24),
        mode: if is_of_unix { long(fixed, 38) >> 16 } else { 0 },
        offset: number::<4>(fixed, 42),
        end: 0,
    };
    let large = u64::from(u32::MAX);
    if entry.flags & ENCRYPTED != 0 {
        return Err(form(format!("`{name}` is encrypted")));
    }
    if !matches!(entry.method, STORED | DEFLATED) {
        return Err(form(format!(
            "`{name}` is compressed with method {}, which is not supported",
            entry.method
        )));
    }
    if entry.compressed == large || entry.size == large || entry.offset == large {
        return Err(form("it uses the extension for large archives (ZIP64), which is not supported"));
    }
    Ok((entry, rest))
}

/// Refuses files that share bytes with others or with the directory, which would unpack to much more than the archive. Determines where each
/// file ends at the latest.
fn no_overlaps(entries: &mut [DirectoryEntry], directory: u64) -> Result<(), BadArchive> {
    let mut sorted: Vec<&mut DirectoryEntry> = entries.iter_mut().collect();
    sorted.sort_indirect_by_key(|entry| entry.offset);
    let mut end = directory;
    for entry in sorted.into_iter().rev() {
        let header = (LOCAL_HEADER + entry.name.len()) as u64;
        if entry.offset + header + entry.compressed > end {
            return Err(overlap(&entry.name));
        }
        entry.end = end;
        end = entry.offset;
    }
    Ok(())
}

fn overlap(name: &str) -> BadArchive {
    form(format!("`{name}` overlaps with the next file"))
}
