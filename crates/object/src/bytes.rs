//! The bytes of a file of a host, read in pieces: libraries of two gigabytes are looked into without reading them whole.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::rc::Rc;

use gpubuild_host::{FileKind, HostPath, ReadFiles};
use object::{ReadCache, ReadRef};

/// What is read at a time. Headers of kernels lie far apart, so larger pieces would be read in vain.
const PAGE: usize = 16 << 10;
/// Pages that are kept.
const KEPT: usize = 256;
/// More than this is never asked for at once by a file that tells the truth: tables, not contents.
const LARGEST: u64 = 64 << 20;
/// Names in tables are shorter.
const LONGEST_NAME: u64 = 4096;

/// Why a file tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableObject {
    /// There is none.
    #[error("there is no such file")]
    Missing,
    /// It is there, and a recording has no content of it.
    #[error("its content was not recorded")]
    NotRecorded,
    /// The system refuses.
    #[error("it can't be read: {0}")]
    Refused(String),
    /// It is something else.
    #[error("it is {0}")]
    Foreign(&'static str),
    /// It starts like an executable or library and is none.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl UnreadableObject {
    /// A damaged file.
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<object::Error> for UnreadableObject {
    fn from(error: object::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// A file that is looked into.
pub struct ObjectBytes<'h> {
    cache: ReadCache<Pages<'h>>,
    size: u64,
    problem: ObjectProblem,
}

/// Where the first error of reading is kept: `object` passes none on.
type ObjectProblem = Rc<RefCell<Option<io::Error>>>;

impl<'h> ObjectBytes<'h> {
    /// Opens a file.
    ///
    /// # Errors
    /// It is not there, no file, or may not be read.
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
            FileKind::Device | FileKind::Other => return Err(UnreadableObject::Foreign("no regular file")),
        }
        host.read_start(path, 1).map_err(|error| refused(&error))?;
        let problem = ObjectProblem::default();
        let pages = Pages {
            host,
            path: path.clone(),
            size: stat.size,
            position: 0,
            kept: HashMap::new(),
            problem: Rc::clone(&problem),
        };
        Ok(Self { cache: ReadCache::new(pages), size: stat.size, problem })
    }

    /// Its bytes.
    #[must_use]
    pub fn data(&self) -> Data<'_, 'h> {
        Data { cache: &self.cache, start: 0, size: self.size }
    }

    /// The error that is behind a result: what the system said about reading comes before what was made of it.
    pub(super) fn explain(&self, error: UnreadableObject) -> UnreadableObject {
        match self.problem.borrow_mut().take() {
            Some(problem) => UnreadableObject::Refused(problem.to_string()),
            None => error,
        }
    }
}

/// The bytes of a file, or a part of them, in the form that `object` reads.
#[derive(Clone, Copy)]
pub struct Data<'a, 'h> {
    cache: &'a ReadCache<Pages<'h>>,
    start: u64,
    size: u64,
}

impl<'a> Data<'a, '_> {
    /// How many there are.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A part; `None` if it does not lie inside.
    pub(super) fn part(&self, start: u64, size: u64) -> Option<Self> {
        let end = start.checked_add(size)?;
        (end <= self.size).then_some(Self { start: self.start + start, size, ..*self })
    }

    /// These bytes; `None` if they do not lie inside.
    pub(super) fn bytes(&self, start: u64, size: u64) -> Option<&'a [u8]> {
        self.read_bytes_at(start, size).ok()
    }

    /// A number of two bytes.
    pub(super) fn u16(&self, at: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(at, 2)?.try_into().ok()?))
    }

    /// A number of four bytes.
    pub(super) fn u32(&self, at: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(at, 4)?.try_into().ok()?))
    }

    /// A number of eight bytes.
    pub(super) fn u64(&self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(at, 8)?.try_into().ok()?))
    }

    /// The text that ends with a zero.
    pub(super) fn text(&self, at: u64) -> Option<String> {
        let end = at.checked_add(LONGEST_NAME)?.min(self.size);
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
        if end > self.size || size > LARGEST {
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

/// The stream behind the cache.
struct Pages<'h> {
    host: &'h dyn ReadFiles,
    path: HostPath,
    size: u64,
    position: u64,
    kept: HashMap<u64, Vec<u8>>,
    problem: ObjectProblem,
}

impl Pages<'_> {
    fn fetch(&mut self, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.host.read_part(&self.path, start, limit).inspect_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.problem.borrow_mut().get_or_insert(copy);
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
            if self.kept.len() >= KEPT {
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
