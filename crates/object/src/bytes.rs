//! Reads parts of a file through a page cache, because libraries can be several gigabytes large.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::rc::Rc;

use gpubuild_host::{FileKind, HostPath, LIBRARY_LIMIT, ReadFiles};
use object::{ReadCache, ReadRef};

/// The page size in bytes. Headers of kernels are far apart, so larger pages would mostly contain unused data.
const PAGE: usize = 16 << 10;
/// The number of cached pages.
const MAX_PAGES: usize = 256;
/// The limit of a single read in bytes, unless sections are read: a larger table is a sign of a damaged file.
const MAX_READ: u64 = 64 << 20;
/// The limit of a name's length in bytes.
const MAX_NAME: u64 = 4096;

/// Why a file can't be read as an executable or library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableObject {
    /// The file does not exist.
    #[error("there is no such file")]
    Missing,
    /// The file exists, but the recorded host does not contain its content.
    #[error("its content was not recorded")]
    NotRecorded,
    /// The operating system reports an error.
    #[error("it can't be read: {0}")]
    Refused(String),
    /// The file has another format. The text completes the sentence "it is …".
    #[error("it is {0}")]
    Foreign(&'static str),
    /// The file starts like an executable or library, but is invalid.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl UnreadableObject {
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<UnreadableObject> for io::Error {
    fn from(error: UnreadableObject) -> Self {
        match error {
            UnreadableObject::Missing => Self::new(io::ErrorKind::NotFound, error),
            _ => Self::other(error),
        }
    }
}

impl From<object::Error> for UnreadableObject {
    fn from(error: object::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// An open file of a host.
pub struct ObjectBytes<'h> {
    cache: ReadCache<Pages<'h>>,
    size: u64,
    max_read: u64,
    read_error: FirstReadError,
}

/// The first read error. The `object` crate does not return I/O errors to its caller.
type FirstReadError = Rc<RefCell<Option<io::Error>>>;

impl<'h> ObjectBytes<'h> {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file does not exist, is not a regular file, or can't be read.
    pub fn open(host: &'h dyn ReadFiles, path: &HostPath) -> Result<Self, UnreadableObject> {
        let refused = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => UnreadableObject::Missing,
            io::ErrorKind::Unsupported => UnreadableObject::NotRecorded,
            _ => UnreadableObject::Refused(error.to_string()),
        };
        let stat = host.stat(path).map_err(|error| refused(&error))?;
        match stat.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(UnreadableObject::Foreign("a folder")),
            FileKind::Device | FileKind::Other => {
                return Err(UnreadableObject::Foreign("not a regular file"));
            }
        }
        host.read_start(path, 1).map_err(|error| refused(&error))?;
        let read_error = FirstReadError::default();
        let pages = Pages {
            host,
            path: path.clone(),
            size: stat.size,
            position: 0,
            kept: HashMap::new(),
            read_error: Rc::clone(&read_error),
        };
        Ok(Self { cache: ReadCache::new(pages), size: stat.size, max_read: MAX_READ, read_error })
    }

    /// Opens a file whose sections are read, which can be as large as the file. What is read stays in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_sections(host: &'h dyn ReadFiles, path: &HostPath) -> Result<Self, UnreadableObject> {
        Ok(Self { max_read: LIBRARY_LIMIT, ..Self::open(host, path)? })
    }

    /// The size of the file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of the file.
    #[must_use]
    pub fn data(&self) -> Data<'_, 'h> {
        Data { cache: &self.cache, start: 0, size: self.size, max_read: self.max_read }
    }

    /// The read error behind a parse error, if there is one; otherwise the parse error.
    pub(super) fn explain(&self, error: UnreadableObject) -> UnreadableObject {
        match self.read_error.borrow_mut().take() {
            Some(read_error) => UnreadableObject::Refused(read_error.to_string()),
            None => error,
        }
    }
}

/// The bytes of a file or a part of it, as a source for the `object` crate.
#[derive(Clone, Copy)]
pub struct Data<'a, 'h> {
    cache: &'a ReadCache<Pages<'h>>,
    start: u64,
    size: u64,
    max_read: u64,
}

impl<'a> Data<'a, '_> {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A part of the data; `None` if it is out of bounds.
    pub(super) fn part(&self, start: u64, size: u64) -> Option<Self> {
        let end = start.checked_add(size)?;
        (end <= self.size).then_some(Self { start: self.start + start, size, ..*self })
    }

    /// The bytes of a range; `None` if it is out of bounds.
    pub(super) fn bytes(&self, start: u64, size: u64) -> Option<&'a [u8]> {
        self.read_bytes_at(start, size).ok()
    }

    /// A little-endian 16-bit number.
    pub(super) fn u16(&self, at: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(at, 2)?.try_into().ok()?))
    }

    /// A little-endian 32-bit number.
    pub(super) fn u32(&self, at: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(at, 4)?.try_into().ok()?))
    }

    /// A little-endian 64-bit number.
    pub(super) fn u64(&self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(at, 8)?.try_into().ok()?))
    }

    /// A null-terminated string.
    pub(super) fn text(&self, at: u64) -> Option<String> {
        let end = at.checked_add(MAX_NAME)?.min(self.size);
        let bytes = self.read_bytes_at_until(at..end, 0).ok()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl<'a> ReadRef<'a> for Data<'a, '_> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.size)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        let end = offset.checked_add(size).ok_or(())?;
        if end > self.size || size > self.max_read {
            return Err(());
        }
        self.cache.read_bytes_at(self.start + offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        if range.start > range.end || range.end > self.size {
            return Err(());
        }
        self.cache.read_bytes_at_until(self.start + range.start..self.start + range.end, delimiter)
    }
}

/// The stream behind the cache: reads pages of a host's file.
struct Pages<'h> {
    host: &'h dyn ReadFiles,
    path: HostPath,
    size: u64,
    position: u64,
    kept: HashMap<u64, Vec<u8>>,
    read_error: FirstReadError,
}

impl Pages<'_> {
    fn fetch(&mut self, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.host.read_part(&self.path, start, limit).inspect_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.read_error.borrow_mut().get_or_insert(copy);
        })
    }
}

impl Read for Pages<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.len() > PAGE {
            let bytes = self.fetch(self.position, buffer.len())?;
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            self.position += count as u64;
            return Ok(count);
        }
        let page = self.position / PAGE as u64;
        if !self.kept.contains_key(&page) {
            let bytes = self.fetch(page * PAGE as u64, PAGE)?;
            if self.kept.len() >= MAX_PAGES {
                self.kept.clear();
            }
            self.kept.insert(page, bytes);
        }
        let bytes = self.kept.get(&page).map_or(&[][..], Vec::as_slice);
        let skip = usize::try_from(self.position % PAGE as u64).unwrap_or(PAGE).min(bytes.len());
        let count = (bytes.len() - skip).min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[skip..skip + count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Pages<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
