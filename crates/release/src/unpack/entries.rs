//! Reads the subset of tar that layers use: regular files, with GNU long names. All other extensions are rejected, because programs
//! interpret them differently, so that a file could differ from the one that was checked.

use std::io::{self, Read};

use tar::{EntryType, Header};

/// The block size of the format in bytes.
const BLOCK: usize = 512;
/// The longest accepted name in bytes, including the terminating zero byte.
const LONGEST_NAME: u64 = 1025;
/// The maximum size in bytes of the zero blocks at the end, which fill the last record.
const MAX_PADDING: u64 = 64 << 10;

/// A regular file in an archive. Its content follows in the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The path as written in the archive.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// Whether any execute bit is set in its mode.
    pub executable: bool,
}

/// Why an archive is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BadArchive {
    /// An entry is not a regular file.
    #[error("{0}, but only regular files are accepted")]
    Kind(String),
    /// The mode has bits other than the permissions, such as set-user-id.
    #[error("its mode is {0:o}, but only permission bits are accepted")]
    Mode(u32),
    /// The archive is malformed.
    #[error("{0}")]
    Form(String),
    /// The archive cannot be read or is truncated.
    #[error("{0}")]
    Read(#[from] io::Error),
}

fn form(what: impl Into<String>) -> BadArchive {
    BadArchive::Form(what.into())
}

/// Reads the entries of an archive.
#[derive(Debug)]
pub struct ArchiveEntries<R> {
    from: R,
    padding: usize,
}

impl<R: Read> ArchiveEntries<R> {
    /// Starts to read an archive.
    pub fn new(from: R) -> Self {
        Self { from, padding: 0 }
    }

    /// The underlying reader.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next file; `None` at the end. The content of the previous file must have been read completely.
    ///
    /// # Errors
    /// The entry is not a regular file, or the archive is malformed. Includes the path of the entry, if it is known.
    pub fn next_file(&mut self) -> Result<Option<ArchiveEntry>, (Option<String>, BadArchive)> {
        let mut long = None;
        loop {
            let header = match self.header() {
                Ok(Some(header)) => header,
                Ok(None) if long.is_some() => return Err((long, form("it ends after a long name"))),
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

    /// Reads content of the current file.
    pub fn content(&mut self, buffer: &mut [u8]) -> Result<(), BadArchive> {
        self.from.read_exact(buffer).map_err(|error| early(error, "in the middle of a file"))
    }

    /// The next header; `None` at the zero blocks that end the archive.
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
        self.from.read_exact(rest).map_err(|error| early(error, "in the padding after a file"))?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(form("the padding after a file is not zero"));
        }
        Ok(())
    }

    fn long_name(&mut self, header: &Header) -> Result<String, BadArchive> {
        let size = header.entry_size().map_err(|error| form(error.to_string()))?;
        if size > LONGEST_NAME {
            return Err(form(format!("a name has {size} bytes, but the limit is {LONGEST_NAME}")));
        }
        let mut name = vec![0; usize::try_from(size).unwrap_or_default()];
        self.content(&mut name)?;
        self.padding = padding(size);
        if name.last() == Some(&0) {
            name.pop();
        }
        String::from_utf8(name).map_err(|_| form("a name is not UTF-8"))
    }

    /// Checks that the first zero block is followed by a second one and nothing but zeros.
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
            if buffer[..count].iter().any(|byte| *byte != 0) || seen > MAX_PADDING {
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
        EntryType::GNUSparse => Some("a sparse file"),
        EntryType::XHeader | EntryType::XGlobalHeader => Some("a pax extension"),
        EntryType::GNULongName | EntryType::GNULongLink => Some("a second long name"),
        _ => Some("an entry of an unknown kind"),
    };
    if let Some(kind) = kind {
        return Err(BadArchive::Kind(format!("it is {kind}")));
    }
    if header.link_name_bytes().is_some_and(|name| !name.is_empty()) {
        return Err(BadArchive::Kind("it has a link target".to_owned()));
    }
    let malformed = |error: io::Error| form(error.to_string());
    let mode = header.mode().map_err(malformed)?;
    if mode & !0o777 != 0 {
        return Err(BadArchive::Mode(mode));
    }
    let size = header.entry_size().map_err(malformed)?;
    let path = match long {
        Some(long) => long,
        None => String::from_utf8(own).map_err(|_| form("its name is not UTF-8"))?,
    };
    // A name that fits into the header field is stored there; a long name would override it.
    if is_long && path.len() < 100 {
        return Err(form("it has two names"));
    }
    Ok(ArchiveEntry { path, size, executable: mode & 0o111 != 0 })
}

fn padding(size: u64) -> usize {
    usize::try_from(size.wrapping_neg() % BLOCK as u64).unwrap_or_default()
}

/// The error for a read that may have reached the end of the archive.
fn early(error: io::Error, at: &str) -> BadArchive {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        form(format!("it ends {at}"))
    } else {
        BadArchive::Read(error)
    }
}
