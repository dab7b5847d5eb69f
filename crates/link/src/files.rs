//! All I/O of this crate: files, variables, and the lines for cargo.
#![expect(clippy::disallowed_methods, reason = "this crate has no `Host`: all its I/O is in this file")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The environment variables of the build script.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn read() -> Self {
        // A value that is not UTF-8 with replaced characters would be the path of another file.
        Self::new(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// The value of a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[expect(clippy::print_stdout, reason = "a build script passes lines to cargo on standard output")]
pub(crate) fn print(text: &str) {
    print!("{text}");
}

pub(crate) fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// The id of the user who owns a file; `None` on platforms without such ids, or if it is unknown.
pub(crate) fn owner(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|metadata| metadata.uid())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Opens a regular file. A pipe is refused at once instead of waiting for its writer, and a device because it need not end.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(any(
        all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
        ),
        target_os = "macos"
    ))]
    {
        use std::os::unix::fs::OpenOptionsExt;
        /// `O_NONBLOCK`, which the standard library does not define and other processors number differently.
        const NONBLOCK: i32 = if cfg!(target_os = "linux") { 0o4000 } else { 4 };
        options.custom_flags(NONBLOCK);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads a document of at most 64 MiB.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    const LIMIT: u64 = 64 << 20;
    let file = open(path)?;
    let mut bytes =
        Vec::with_capacity(usize::try_from(file.metadata()?.len().min(LIMIT)).unwrap_or_default());
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
    }
    Ok(bytes)
}

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file of this run unless it already has that content, because cargo compares modification times.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if read(path).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}

pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file()
}

pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// Size of a file, and its times in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkStamp {
    pub(crate) size: u64,
    pub(crate) modified: u128,
    /// When content or attributes last changed; zero if the system does not report it.
    pub(crate) changed: u128,
}

pub(crate) fn stamp(path: &Path) -> Option<LinkStamp> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Some(LinkStamp {
        size: metadata.len(),
        modified: modified.map_or(0, |time| time.as_nanos()),
        changed: changed(&metadata),
    })
}

#[cfg(unix)]
fn changed(metadata: &std::fs::Metadata) -> u128 {
    use std::os::unix::fs::MetadataExt;
    let whole = u128::try_from(metadata.ctime()).unwrap_or_default() * 1_000_000_000;
    whole + u128::try_from(metadata.ctime_nsec()).unwrap_or_default()
}

#[cfg(not(unix))]
fn changed(_: &std::fs::Metadata) -> u128 {
    0
}

pub(crate) fn has_hash(path: &Path, sha256: &str) -> bool {
    let Ok(hash) = hash(path) else { return false };
    let is_byte = |(index, byte): (usize, &u8)| {
        let digits = sha256.get(2 * index..2 * index + 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) == Some(*byte)
    };
    sha256.len() == 2 * hash.len() && hash.iter().enumerate().all(is_byte)
}

/// The SHA-256 hash of a file, which is read in pieces.
fn hash(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = open(path)?;
    let mut hash = hmac_sha256::Hash::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hash.finalize()),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hard-links a file, or copies it if the two paths are on different disks.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    // A hard link to a symbolic link could dangle.
    let from = std::fs::canonicalize(from)?;
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::hard_link(&from, to).or_else(|_| std::fs::copy(&from, to).map(|_| ()))
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether two paths are the same file, or files with the same content.
pub(crate) fn is_same(left: &Path, right: &Path) -> bool {
    let (Some(of_left), Some(of_right)) = (stamp(left), stamp(right)) else { return false };
    of_left.size == of_right.size
        && matches!((hash(left), hash(right)), (Ok(left), Ok(right)) if left == right)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        let large = File::create(path("large")).unwrap();
        large.set_len((64 << 20) + 1).unwrap();
        for (name, message) in
            [("pipe", "regular"), ("zero", "regular"), ("large", "64 MiB"), (".", "regular")]
        {
            let error = read(&path(name)).unwrap_err().to_string();
            assert!(error.contains(message), "{name}: {error}");
        }
        assert!(hash(&path("pipe")).is_err() && hash(&path("zero")).is_err());
        large.set_len(64 << 20).unwrap();
        assert_eq!(read(&path("large")).unwrap().len(), 64 << 20);
        std::fs::write(path("text"), "abc").unwrap();
        assert!(has_hash(&path("text"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    }
}
