//! The members of archives, which are read as they are needed: archives can be several gigabytes large.

use std::ops::Range;

use object::ReadRef;
use object::read::archive::ArchiveFile;

/// A part of a file.
#[derive(Debug, Clone, Copy)]
pub struct FilePart<R> {
    file: R,
    start: u64,
    size: u64,
}

impl<R> FilePart<R> {
    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl<'data, R: ReadRef<'data>> ReadRef<'data> for FilePart<R> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.size)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size);
        end.ok_or(())?;
        self.file.read_bytes_at(self.start + offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        if range.start > range.end || range.end > self.size {
            return Err(());
        }
        self.file.read_bytes_at_until(self.start + range.start..self.start + range.end, delimiter)
    }
}

/// Whether a file is an archive. Thin archives, whose members are other files, do not count.
pub fn is_archive<'data>(file: impl ReadRef<'data>) -> bool {
    const MAGIC: &[u8] = b"!<arch>\n";
    file.read_bytes_at(0, MAGIC.len() as u64) == Ok(MAGIC)
}

/// A file in an archive.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveMember<'data, R> {
    /// Its name.
    pub name: &'data [u8],
    /// Its content.
    pub data: FilePart<R>,
}

/// The members of an archive. Those of a thin archive, which are other files, are empty.
///
/// # Errors
/// The file is not an archive. An iteration ends with an error if the archive is damaged.
pub fn members<'data, R: ReadRef<'data>>(
    file: R,
) -> Result<impl Iterator<Item = Result<ArchiveMember<'data, R>, String>>, String> {
    let archive = ArchiveFile::parse(file).map_err(|error| error.to_string())?;
    let length = file.len().unwrap_or_default();
    Ok(archive.members().map(move |member| {
        let member = member.map_err(|error| error.to_string())?;
        let (start, size) = member.file_range();
        let fits = start.checked_add(size).is_some_and(|end| end <= length);
        let size = if fits && !member.is_thin() { size } else { 0 };
        Ok(ArchiveMember { name: member.name(), data: FilePart { file, start, size } })
    }))
}
