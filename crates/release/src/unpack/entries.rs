//! Reads the form of tar that layers have, and nothing else of tar: regular files, with GNU's long names before them. Every
//! extension of the format is one more way to mean something else than what was checked, so that all of them are refused.

use std::io::{self, Read};

use tar::{EntryType, Header};

/// The unit of the format.
const BLOCK: usize = 512;
/// The longest name, with the zero byte at its end.
const LONGEST_NAME: u64 = 1025;
/// Zero blocks behind the end: what writers fill their last record with.
const MOST_PADDING: u64 = 64 << 10;

/// A regular file in an archive; its bytes come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The path as written in the archive.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Whether it is a program.
    pub executable: bool,
}

/// Why an archive is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BadArchive {
    /// It is not what a file is.
    #[error("{0}, and only regular files are taken")]
    Kind(String),
    /// It has the set-user-id or set-group-id bit.
    #[error("its mode is {0:o}: it has the set-user-id or set-group-id bit")]
    Mode(u32),
    /// It is no such archive.
    #[error("{0}")]
    Form(String),
    /// It can't be read, or ends too early.
    #[error("{0}")]
    Read(#[from] io::Error),
}

fn form(what: impl Into<String>) -> BadArchive {
    BadArchive::Form(what.into())
}

/// An archive that is read.
#[derive(Debug)]
pub struct ArchiveEntries<R> {
    from: R,
    padding: usize,
}

impl<R: Read> ArchiveEntries<R> {
    /// Begins.
    pub fn new(from: R) -> Self {
        Self { from, padding: 0 }
    }

    /// What is read from.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next file, after all bytes of the one before were read; none at the end.
    ///
    /// # Errors
    /// Anything but a regular file, or what is no such archive; with the name of the entry, where it has one.
    pub fn next_file(&mut self) -> Result<Option<ArchiveEntry>, (Option<String>, BadArchive)> {
        let mut long = None;
        loop {
            let header = match self.header() {
                Ok(Some(header)) => header,
                Ok(None) if long.is_some() => return Err((long, form("it ends behind a long name"))),
                Ok(None) => return self.end().map(|()| None).map_err(|bad| (None, bad)),
                Err(bad) => return Err((long, bad)),
            };
            if header.entry_type() == EntryType::GNULongName && long.is_none() {
                long = Some(self.long_name(&header).map_err(|bad| (None, bad))?);
                continue;
            }
            let own = header.path_bytes().into_owned();
            let name = long.clone().unwrap_or_else(|| String::from_utf8_lossy(&own).into_owned());
            let entry = entry(&header, long, own).map_err(|bad| (Some(name), bad))?;
            self.padding = padding(entry.size);
            return Ok(Some(entry));
        }
    }

    /// The bytes of the entry that came last.
    pub fn content(&mut self, buffer: &mut [u8]) -> Result<(), BadArchive> {
        self.from.read_exact(buffer).map_err(|error| early(error, "in the middle of a file"))
    }

    /// A header, or none where the zero blocks of the end begin.
    fn header(&mut self) -> Result<Option<Header>, BadArchive> {
        self.skip_padding()?;
        let mut block = [0; BLOCK];
        self.from
            .read_exact(&mut block)
            .map_err(|error| early(error, "without the blocks that end an archive"))?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
            .sum();
        if header.cksum().map_err(|error| form(error.to_string()))? != sum {
            return Err(form("the checksum of a header is wrong"));
        }
        Ok(Some(header.clone()))
    }

    fn skip_padding(&mut self) -> Result<(), BadArchive> {
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..std::mem::take(&mut self.padding)];
        self.from.read_exact(rest).map_err(|error| early(error, "behind a file"))?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(form("something is hidden behind a file"));
        }
        Ok(())
    }

    fn long_name(&mut self, header: &Header) -> Result<String, BadArchive> {
        let size = header.entry_size().map_err(|error| form(error.to_string()))?;
        if size > LONGEST_NAME {
            return Err(form(format!("a name of {size} bytes")));
        }
        let mut name = vec![0; usize::try_from(size).unwrap_or_default()];
        self.content(&mut name)?;
        self.padding = padding(size);
        if name.last() == Some(&0) {
            name.pop();
        }
        String::from_utf8(name).map_err(|_| form("a name that is not UTF-8"))
    }

    /// Behind the first zero block: a second one, then zeros up to the end of the record.
    fn end(&mut self) -> Result<(), BadArchive> {
        let mut seen = BLOCK as u64;
        let mut buffer = [0; BLOCK];
        loop {
            let count = match self.from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                break;
            }
            seen += count as u64;
            if buffer[..count].iter().any(|byte| *byte != 0) || seen > MOST_PADDING {
                return Err(form("data follows the end of the archive"));
            }
        }
        if seen < 2 * BLOCK as u64 {
            return Err(form("it ends without the blocks that end an archive"));
        }
        Ok(())
    }
}

fn entry(header: &Header, long: Option<String>, own: Vec<u8>) -> Result<ArchiveEntry, BadArchive> {
    let is_long = long.is_some();
    let kind = match header.entry_type() {
        EntryType::Regular => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Directory => Some("a folder"),
        EntryType::Fifo => Some("a pipe"),
        EntryType::GNUSparse => Some("a file with holes"),
        EntryType::XHeader | EntryType::XGlobalHeader => Some("an extension (pax)"),
        EntryType::GNULongName | EntryType::GNULongLink => Some("a second long name"),
        _ => Some("an entry of an unknown kind"),
    };
    if let Some(kind) = kind {
        return Err(BadArchive::Kind(format!("it is {kind}")));
    }
    if header.link_name_bytes().is_some_and(|name| !name.is_empty()) {
        return Err(BadArchive::Kind("it names the target of a link".to_owned()));
    }
    let wrong = |error: io::Error| form(error.to_string());
    let mode = header.mode().map_err(wrong)?;
    if mode & !0o777 != 0 {
        return Err(BadArchive::Mode(mode));
    }
    let size = header.entry_size().map_err(wrong)?;
    let path = match long {
        Some(long) => long,
        None => String::from_utf8(own).map_err(|_| form("its name is not UTF-8"))?,
    };
    // What is shorter than the field is written there; a long name for it would hide the other one.
    if is_long && path.len() < 100 {
        return Err(form("it has two names"));
    }
    Ok(ArchiveEntry { path, size, executable: mode & 0o111 != 0 })
}

fn padding(size: u64) -> usize {
    usize::try_from(size.wrapping_neg() % BLOCK as u64).unwrap_or_default()
}

fn early(error: io::Error, at: &str) -> BadArchive {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        form(format!("it ends {at}"))
    } else {
        BadArchive::Read(error)
    }
}
