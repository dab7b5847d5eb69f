//! Reads the subset of tar that layers use: regular files, with GNU long names. All other extensions are rejected, because programs
//! interpret them differently, so that a file could differ from the one that was checked.
//!
//! Archives of sources come from other programs, so that they may also contain folders, which are skipped, symbolic links, and names in
//! pax headers.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::pax::{self, PaxHeader};

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
    /// The target of a symbolic link; `None` for a file.
    pub link: Option<String>,
}

/// Which entries an archive may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveRules {
    /// Regular files only, as gpubuild packs them.
    Layer,
    /// Files, folders and symbolic links.
    Sources,
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

/// The files of an archive, one after the other.
pub(super) trait EntrySource {
    /// The next file; `None` at the end. The content of the previous file must have been read completely.
    fn next_file(&mut self) -> Result<Option<ArchiveEntry>, (Option<String>, BadArchive)>;

    /// Reads content of the current file.
    fn content(&mut self, buffer: &mut [u8]) -> Result<(), BadArchive>;
}

impl<R: Read> EntrySource for ArchiveEntries<R> {
    fn next_file(&mut self) -> Result<Option<ArchiveEntry>, (Option<String>, BadArchive)> {
        Self::next_file(self)
    }

    fn content(&mut self, buffer: &mut [u8]) -> Result<(), BadArchive> {
        Self::content(self, buffer)
    }
}

pub(super) fn form(what: impl Into<String>) -> BadArchive {
    BadArchive::Form(what.into())
}

/// Reads the entries of an archive.
#[derive(Debug)]
pub struct ArchiveEntries<R> {
    from: R,
    padding: usize,
    rules: ArchiveRules,
}

/// Names from the entries before a file, which override those in its header.
#[derive(Debug, Default)]
struct Extensions {
    long: Option<String>,
    pax: Option<PaxHeader>,
}

impl<R: Read> ArchiveEntries<R> {
    /// Starts to read an archive.
    pub fn new(from: R, rules: ArchiveRules) -> Self {
        Self { from, padding: 0, rules }
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
        let mut extensions = Extensions::default();
        loop {
            let header = match self.header() {
                Ok(Some(header)) => header,
                Ok(None) if extensions.long.is_some() || extensions.pax.is_some() => {
                    return Err((extensions.long, form("it ends after a long name")));
                }
                Ok(None) => return self.end().map(|()| None).map_err(|bad| (None, bad)),
                Err(bad) => return Err((extensions.long, bad)),
            };
            if self.extension(&header, &mut extensions).map_err(|bad| (None, bad))? {
                continue;
            }
            let own = header.path_bytes().into_owned();
            let pax = extensions.pax.take().unwrap_or_default();
            let long = extensions.long.take().or(pax.path);
            let name = long.clone().unwrap_or_else(|| String::from_utf8_lossy(&own).into_owned());
            let is_folder =
                header.entry_type() == EntryType::Directory && self.rules == ArchiveRules::Sources;
            if is_folder {
                // Folders are created with their files.
                let size =
                    header.entry_size().map_err(|error| (Some(name.clone()), form(error.to_string())))?;
                if size > 0 {
                    return Err((Some(name), form("it is a folder with content")));
                }
                continue;
            }
            let names = EntryNames { own, long, link: pax.link };
            let entry = entry(&header, names, self.rules).map_err(|bad| (Some(name), bad))?;
            self.padding = padding(entry.size);
            return Ok(Some(entry));
        }
    }

    /// Reads an entry that describes the next one. Returns whether it is one.
    fn extension(&mut self, header: &Header, extensions: &mut Extensions) -> Result<bool, BadArchive> {
        let is_first = extensions.long.is_none() && extensions.pax.is_none();
        match header.entry_type() {
            EntryType::GNULongName if is_first => {
                let name = self.long_entry(header, LONGEST_NAME, "a name")?;
                extensions.long = Some(String::from_utf8(name).map_err(|_| form("a name is not UTF-8"))?);
            }
            EntryType::XHeader if is_first && self.rules == ArchiveRules::Sources => {
                let records = self.long_entry(header, pax::LARGEST, "a pax header")?;
                extensions.pax = Some(pax::parse(&records).map_err(form)?);
            }
            EntryType::XGlobalHeader if is_first && self.rules == ArchiveRules::Sources => {
                let records = self.long_entry(header, pax::LARGEST, "a pax header")?;
                if pax::parse(&records).map_err(form)? != PaxHeader::default() {
                    return Err(form("a pax header names all files"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
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

    /// Reads the content of an entry that describes others, without the zero byte at its end.
    fn long_entry(&mut self, header: &Header, limit: u64, what: &str) -> Result<Vec<u8>, BadArchive> {
        let size = header.entry_size().map_err(|error| form(error.to_string()))?;
        if size > limit {
            return Err(form(format!("{what} has {size} bytes, but the limit is {limit}")));
        }
        let mut content = vec![0; usize::try_from(size).unwrap_or_default()];
        self.content(&mut content)?;
        self.padding = padding(size);
        if content.last() == Some(&0) {
            content.pop();
        }
        Ok(content)
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

/// The names of an entry.
struct EntryNames {
    /// The name in its header.
    own: Vec<u8>,
    /// The name in an extension.
    long: Option<String>,
    /// The target of a link in an extension.
    link: Option<String>,
}

fn entry(header: &Header, names: EntryNames, rules: ArchiveRules) -> Result<ArchiveEntry, BadArchive> {
    let is_long = names.long.is_some();
    let is_link = header.entry_type() == EntryType::Symlink && rules == ArchiveRules::Sources;
    let kind = match header.entry_type() {
        EntryType::Regular => None,
        EntryType::Symlink if is_link => None,
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
    let target = header.link_name_bytes().filter(|name| !name.is_empty());
    if !is_link && (target.is_some() || names.link.is_some()) {
        return Err(BadArchive::Kind("it has a link target".to_owned()));
    }
    let malformed = |error: io::Error| form(error.to_string());
    let mode = header.mode().map_err(malformed)?;
    // Programs that write archives of sources add the kind of file. Only the execute bits are used.
    if mode & !0o777 != 0 && rules == ArchiveRules::Layer {
        return Err(BadArchive::Mode(mode));
    }
    let size = header.entry_size().map_err(malformed)?;
    let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| form("its name is not UTF-8"));
    let path = match names.long {
        Some(long) => long,
        None => utf8(names.own)?,
    };
    // A name that fits into the header field is stored there; a long name would override it. Other programs write short names into pax
    // headers as well.
    if is_long && path.len() < 100 && rules == ArchiveRules::Layer {
        return Err(form("it has two names"));
    }
    let link = match (is_link, names.link) {
        (false, _) => None,
        (true, Some(link)) => Some(link),
        (true, None) => Some(utf8(target.map(std::borrow::Cow::into_owned).unwrap_or_default())?),
    };
    if is_link && size > 0 {
        return Err(form("it is a link with content"));
    }
    Ok(ArchiveEntry { path, size, executable: mode & 0o111 != 0, link })
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
