//! Wheels of an index, for machines without uv and pip: the pinned file is downloaded, verified and unpacked.

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_exec::python::{Network, PipCause, PipInstallError, UnpackWheel};
use gpubuild_exec::store::hash_file;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::wheels::PinnedWheel;
use gpubuild_plan::wheels::tag::{self, TagFit, WheelLibc};
use gpubuild_release::fetch::Client;
use gpubuild_release::unpack::tree::{TreeRequest, unpack_tree};

use crate::error::LARGEST_ARCHIVE;
use crate::{SourceError, archive, python_index};

/// Downloads wheels from the index that uv or pip is configured to use.
pub struct IndexWheels<'a> {
    /// Downloads the list of files and the wheel.
    pub client: Client<'a>,
    /// The C library, which decides between the wheels of a release.
    pub libc: WheelLibc,
}

impl UnpackWheel for IndexWheels<'_> {
    fn unpack(
        &self,
        wheel: &PinnedWheel,
        find_links: &[HostPath],
        folder: &HostPath,
    ) -> Result<(), PipInstallError> {
        let host = self.client.host;
        let write = |error: std::io::Error| PipInstallError::Write {
            path: folder.to_string(),
            message: error.to_string(),
        };
        let parent = folder.parent().unwrap_or_else(|| host.path("."));
        let scratch = host.temporary_dir(&parent).map_err(write)?;
        let found = self.in_folder(wheel, find_links).map_or_else(|| self.download(wheel, &scratch), Ok);
        let result = found.and_then(|(archive, sha256)| {
            let rejected =
                |error| SourceError::Rejected { name: wheel.package.clone(), error: Box::new(error) };
            unpack_tree(host, &archive, TreeRequest { sha256: &sha256, strip: 0 }, folder).map_err(rejected)
        });
        let result = result.map_err(|error| failure(wheel, &error));
        host.remove(&scratch).map_err(write)?;
        result?;
        spread(host, folder).map_err(write)
    }
}

impl IndexWheels<'_> {
    /// The wheel in one of the folders, and its hash.
    fn in_folder(&self, wheel: &PinnedWheel, folders: &[HostPath]) -> Option<(HostPath, String)> {
        let named = wheel.files.iter().filter(|file| !file.name.is_empty());
        named.flat_map(|file| folders.iter().map(move |folder| folder.join(&file.name))).find_map(|path| {
            let (hash, _) = hash_file(self.client.host, &path).ok()?;
            wheel.files.iter().any(|file| file.sha256 == hash).then_some((path, hash))
        })
    }

    /// The wheel in the index, and its hash.
    fn download(&self, wheel: &PinnedWheel, scratch: &HostPath) -> Result<(HostPath, String), SourceError> {
        let host = self.client.host;
        if self.client.network == Network::Offline {
            return Err(SourceError::OfflineArchive { name: wheel.package.clone() });
        }
        let (page, files) = python_index::files(&self.client, &wheel.package)?;
        let pinned = |hash: &String| wheel.files.iter().any(|file| file.sha256 == *hash);
        let found = files.iter().find_map(|file| {
            // A single pinned file was selected by its name, perhaps for another platform.
            let is_selected = wheel.files.len() == 1 && wheel.files[0].name == file.filename;
            let fits = is_selected || tag::fit(&file.filename, host.platform(), &self.libc) == TagFit::Yes;
            Some((file, file.sha256().filter(pinned)?)).filter(|_| fits)
        });
        let Some((file, sha256)) = found else {
            let (name, version) = (wheel.package.clone(), wheel.version.clone());
            return Err(SourceError::NoWheel { name, version, index: page.shown() });
        };
        let archive =
            archive::download(&self.client, &page.join(&file.url)?, &sha256, LARGEST_ARCHIVE, scratch)?;
        Ok((archive, sha256))
    }
}

fn failure(wheel: &PinnedWheel, error: &SourceError) -> PipInstallError {
    let (what, version) = (wheel.package.clone(), wheel.version.clone());
    let cause = match error {
        SourceError::Interrupted => return PipInstallError::Interrupted,
        SourceError::OfflineArchive { .. } => return PipInstallError::Offline { what, version },
        SourceError::Hash { .. } => PipCause::Hash,
        SourceError::Rejected { .. } => PipCause::Damaged,
        SourceError::NoWheel { .. } | SourceError::UnknownPackage { .. } | SourceError::Missing { .. } => {
            PipCause::NotFound
        }
        error if error.id().as_str() == "disk.full" => PipCause::Space,
        SourceError::Write { .. } => PipCause::ReadOnly,
        _ => PipCause::Network,
    };
    PipInstallError::Failed { what, version, cause, message: error.to_string() }
}

/// Moves the files below `NAME.data` of an unpacked wheel to their places.
fn spread(host: &dyn Host, folder: &HostPath) -> std::io::Result<()> {
    let scripts = if host.platform().os == gpubuild_host::Os::Windows { "Scripts" } else { "bin" };
    for name in host.list(folder)?.iter().filter(|name| name.strip_suffix(".data").is_some()) {
        let data = folder.join(name);
        for kind in host.list(&data)? {
            let to = match kind.as_str() {
                "scripts" => folder.join(scripts),
                "data" | "purelib" | "platlib" => folder.clone(),
                _ => continue,
            };
            merge(host, &data.join(&kind), &to)?;
        }
        host.remove(&data)?;
    }
    Ok(())
}

/// Moves the files of a folder into another, which may have folders of the same names.
fn merge(host: &dyn Host, from: &HostPath, to: &HostPath) -> std::io::Result<()> {
    if !host.is_dir(from) || !host.exists(to) {
        if let Some(parent) = to.parent() {
            host.create_dir_all(&parent)?;
        }
        return host.rename(from, to);
    }
    host.list(from)?.iter().try_for_each(|name| merge(host, &from.join(name), &to.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{HostInfo as _, ReadFiles as _, RealHost, WriteFiles as _};

    #[test]
    fn data_of_a_wheel_is_moved_to_its_places() {
        let host = RealHost::new();
        let temporary = tempfile::tempdir().unwrap();
        let folder = host.path(temporary.path().to_str().unwrap());
        let write = |path: &str| host.write(&folder.join(path), path.as_bytes()).unwrap();
        for path in
            ["ninja/__init__.py", "share/old", "n-1.data/scripts/ninja", "n-1.data/data/share/doc/new"]
        {
            write(path);
        }
        write("n-1.data/purelib/ninja/more.py");
        write("n-1.data/headers/x.h");
        spread(&host, &folder).unwrap();
        let scripts = if cfg!(windows) { "Scripts/ninja" } else { "bin/ninja" };
        for path in [scripts, "ninja/__init__.py", "ninja/more.py", "share/old", "share/doc/new"] {
            assert!(host.is_file(&folder.join(path)), "{path}");
        }
        assert!(!host.exists(&folder.join("n-1.data")));
    }
}
