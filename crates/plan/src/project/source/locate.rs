//! Finds the folder with a project's sources. Only reads: `gpubuild fetch` downloads.

use gpubuild_host::folders::cache_folder;
use gpubuild_host::{HostInfo, HostPath, ReadFiles};
use serde::{Deserialize, Serialize};

use super::lock::{LOCK_NAME, LockedSource};
use super::{FetchedSource, Source};
use crate::project::{ProjectError, ProjectTable};

/// Folder of downloaded sources in the cache.
pub const SOURCES: &str = "sources";
/// The file in a downloaded folder that says which sources it contains.
pub const MARKER: &str = ".gpubuild-source.json";

/// Content of [`MARKER`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMarker {
    /// [`LockedSource::identity`].
    pub identity: String,
}

/// The folder of the sources in the cache, whether or not it exists. `None` without a cache folder.
#[must_use]
pub fn cached(host: &dyn HostInfo, locked: &LockedSource) -> Option<HostPath> {
    Some(cache_folder(host)?.join(SOURCES).join(&locked.folder()))
}

/// The folder of the vendored sources, whether or not it exists. `None` if gpubuild.toml sets no `vendor`.
#[must_use]
pub fn vendored(root: &HostPath, table: &ProjectTable, locked: &LockedSource) -> Option<HostPath> {
    Some(root.join(table.vendor.as_ref()?).join(&locked.name()).normalized())
}

/// Whether a folder contains exactly these sources.
#[must_use]
pub fn contains(host: &dyn ReadFiles, folder: &HostPath, locked: &LockedSource) -> bool {
    let marker = host.read(&folder.join(MARKER)).ok();
    let marker = marker.and_then(|bytes| serde_json::from_slice::<SourceMarker>(&bytes).ok());
    marker.is_some_and(|marker| marker.identity == locked.identity())
}

/// The folder that contains the locked sources: the vendored one, else the one in the cache.
#[must_use]
pub fn available(
    host: &dyn ReadFiles,
    root: &HostPath,
    table: &ProjectTable,
    locked: &LockedSource,
) -> Option<HostPath> {
    let folders = [vendored(root, table, locked), cached(host, locked)];
    folders.into_iter().flatten().find(|folder| contains(host, folder, locked))
}

/// The largest lock file that is read, in bytes. It has a handful of lines.
const LARGEST_LOCK: u64 = 64 << 10;

/// The lock file of a project; `None` if it does not exist.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read_lock(host: &dyn ReadFiles, root: &HostPath) -> Result<Option<LockedSource>, ProjectError> {
    let path = root.join(LOCK_NAME);
    let not_utf8 = |_| std::io::Error::other("it is not UTF-8");
    let text = host.read_up_to(&path, LARGEST_LOCK);
    let text = match text.and_then(|bytes| String::from_utf8(bytes).map_err(not_utf8)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let (path, message) = (path.to_string(), error.to_string());
            return Err(ProjectError::Unreadable { path, message });
        }
    };
    LockedSource::parse(&text)
        .map(Some)
        .map_err(|message| ProjectError::SourceLock { path: path.to_string(), message })
}

/// The pin of the sources: the lock file's, if it is for the same origin. Origins that are exact need no lock file.
///
/// # Errors
/// The lock file is invalid.
pub fn pinned(
    host: &dyn ReadFiles,
    root: &HostPath,
    source: &FetchedSource,
) -> Result<Option<LockedSource>, ProjectError> {
    let locked = read_lock(host, root)?.filter(|locked| locked.origin == source.origin);
    Ok(locked.or_else(|| LockedSource::exact(&source.origin)))
}

/// The folder with the top-level CMakeLists.txt of a project in `root`.
///
/// # Errors
/// The sources were not fetched yet, the lock file is invalid, or the folder is not part of the sources.
pub fn folder(host: &dyn ReadFiles, root: &HostPath, table: &ProjectTable) -> Result<HostPath, ProjectError> {
    let source = match &table.source {
        Source::Folder(folder) => return Ok(root.join(folder)),
        Source::Fetched(source) => source,
    };
    let missing = |why: String| ProjectError::SourceNotFetched {
        source_name: source.origin.shown(),
        why,
        folder: root.to_string(),
    };
    let Some(locked) = pinned(host, root, source)? else {
        let why = match read_lock(host, root)? {
            Some(_) => format!("`{LOCK_NAME}` pins other sources"),
            None => format!("`{LOCK_NAME}` does not exist"),
        };
        return Err(missing(why));
    };
    let Some(found) = available(host, root, table, &locked) else {
        let vendored = vendored(root, table, &locked);
        let vendored = vendored.map(|folder| format!(" nor in `{folder}`")).unwrap_or_default();
        return Err(missing(format!("they are not in gpubuild's cache{vendored}")));
    };
    inside(host, &found, source)
}

/// The folder below downloaded sources that `path` names.
///
/// # Errors
/// It does not exist.
pub fn inside(
    host: &dyn ReadFiles,
    downloaded: &HostPath,
    source: &FetchedSource,
) -> Result<HostPath, ProjectError> {
    let Some(path) = &source.path else { return Ok(downloaded.clone()) };
    let folder = downloaded.join(path);
    if host.is_dir(&folder) {
        return Ok(folder);
    }
    let mut names = host.list(downloaded).unwrap_or_default();
    names.retain(|name| name != MARKER && host.is_dir(&downloaded.join(name)));
    Err(ProjectError::SourcePath { source_name: source.origin.shown(), path: path.clone(), folders: names })
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, Os, RecordedHost};

    use super::*;
    use crate::project::{FILE_NAME, load};
    use gpubuild_detect::diagnostic::Diagnostic as _;

    const SHA: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn lock() -> String {
        format!(
            "version = 1\n\n[source]\ncrate = \"x-sys\"\nrequirement = \"0.1\"\nversion = \"0.1.3\"\nsha256 = \"{SHA}\"\n"
        )
    }

    /// The source folder of a project whose vendored and cached folders are marked with these hashes.
    fn source(
        lock: Option<&str>,
        vendored: Option<&str>,
        cached: Option<&str>,
    ) -> Result<String, ProjectError> {
        let file = "schema = 1\n[project]\nname = \"x\"\nvendor = \"third\"\n\
                    source = { crate = \"x-sys\", version = \"0.1\", path = \"native\" }\n";
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .file("/w/gpubuild.toml", file);
        if let Some(lock) = lock {
            host = host.file("/w/gpubuild.lock", lock);
        }
        let folders = [
            ("/w/third/x-sys-0.1.3", vendored),
            ("/home/u/.cache/gpubuild/sources/x-sys-0.1.3-0011223344556677", cached),
        ];
        for (folder, sha) in folders {
            if let Some(sha) = sha {
                let marker = format!("{{\"identity\":\"sha256:{sha}:strip=1\"}}");
                host = host
                    .file(&format!("{folder}/{MARKER}"), &marker)
                    .file(&format!("{folder}/native/CMakeLists.txt"), "project(x)\n");
            }
        }
        let host = host.build();
        load(&host, &host.path("/w").join(FILE_NAME)).map(|project| project.source.to_string())
    }

    #[test]
    fn the_vendored_folder_has_precedence_if_it_has_the_locked_sources() {
        let (lock, other) = (lock(), "f".repeat(64));
        let found = source(Some(&lock), Some(SHA), Some(SHA)).unwrap();
        assert_eq!(found, "/w/third/x-sys-0.1.3/native");
        let found = source(Some(&lock), Some(&other), Some(SHA)).unwrap();
        assert_eq!(found, "/home/u/.cache/gpubuild/sources/x-sys-0.1.3-0011223344556677/native");
    }

    #[test]
    fn sources_that_are_not_there_are_reported_with_the_command() {
        let (lock, other) = (lock(), "f".repeat(64));
        for (lock, cached, expected) in [
            (None, Some(SHA), "`gpubuild.lock` does not exist"),
            (Some(lock.as_str()), None, "not in gpubuild's cache nor in `/w/third/x-sys-0.1.3`"),
            (Some(&lock), Some(other.as_str()), "not in gpubuild's cache"),
            (Some(&lock.replace("x-sys", "y-sys")), Some(SHA), "pins other sources"),
        ] {
            let error = source(lock, None, cached).unwrap_err();
            assert_eq!(error.id().as_str(), "source.not-fetched");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.hint().unwrap(), "run `gpubuild fetch --project /w`");
        }
        let error = source(Some("version = 1\n"), None, None).unwrap_err();
        assert_eq!(error.id().as_str(), "source.lock-invalid");
    }

    #[test]
    fn a_path_outside_the_archive_lists_what_is_there() {
        let source_table = FetchedSource {
            origin: super::super::SourceOrigin::Crate { name: "x".into(), requirement: "1".into() },
            path: Some("natiev".to_owned()),
        };
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/c/native/CMakeLists.txt", "")
            .file("/c/src/lib.rs", "")
            .build();
        let error = inside(&host, &host.path("/c"), &source_table).unwrap_err();
        assert_eq!(error.id().as_str(), "source.path-missing");
        assert_eq!(error.hint().unwrap(), "correct `path`; it contains the folders `native`, `src`");
    }
}
