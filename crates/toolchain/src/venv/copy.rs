//! Copies libraries of an environment next to a program for distribution: those that its files need, and those that the
//! libraries load at run time.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};

use super::problem::VenvProblem;
use super::table::{WheelRelease, same};

/// A copied library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedLibrary {
    /// Source path.
    pub from: HostPath,
    /// Destination path.
    pub to: HostPath,
    /// Size in bytes.
    pub bytes: u64,
}

/// The libraries with these names and all that they need or load, by name.
///
/// # Errors
/// A library that a wheel of the release contains is missing in the folders, or cannot be read.
pub fn closure(
    host: &dyn ReadFiles,
    release: &WheelRelease,
    folders: &[HostPath],
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, HostPath>, VenvProblem> {
    let platform = host.platform();
    let mut found: BTreeMap<String, HostPath> = BTreeMap::new();
    let mut pending: Vec<String> = names.iter().cloned().collect();
    while let Some(name) = pending.pop() {
        if found.keys().any(|known| same(platform.os, known, &name)) {
            continue;
        }
        // Libraries that no wheel contains belong to the system.
        let Some(wheel) = release.wheel_of(platform.os, &name) else { continue };
        let path = folders.iter().map(|folder| folder.join(&name)).find(|path| host.is_file(path));
        let path = path.ok_or_else(|| {
            VenvProblem::failed(id!("venv.incomplete"))
                .value("what", format!("`{name}` of {} is missing", wheel.package))
        })?;
        let library = gpubuild_object::read(host, &path, platform.arch).map_err(|error| {
            VenvProblem::failed(id!("venv.not-loadable"))
                .value("how", "cannot be read")
                .value("error", format!("{path}: {error}"))
        })?;
        pending.extend(library.needed.into_iter().map(|needed| needed.name));
        pending.extend(wheel.opens(platform.os).iter().cloned());
        found.insert(name, path);
    }
    Ok(found)
}

/// Copies libraries into a folder. An existing copy is kept if it has the same size and is not older.
///
/// # Errors
/// A library cannot be read, or the folder cannot be written.
pub fn copy(
    host: &dyn WriteFiles,
    libraries: &BTreeMap<String, HostPath>,
    folder: &HostPath,
) -> Result<Vec<CopiedLibrary>, VenvProblem> {
    host.create_dir_all(folder).map_err(|error| VenvProblem::io("make", folder, &error))?;
    let mut copied = Vec::new();
    for (name, from) in libraries {
        let to = folder.join(name);
        let source = host.stat(from).map_err(|error| VenvProblem::io("read", from, &error))?;
        let is_there =
            host.stat(&to).is_ok_and(|there| there.size == source.size && there.modified >= source.modified);
        if !is_there {
            host.copy(from, &to).map_err(|error| VenvProblem::io("write", &to, &error))?;
        }
        copied.push(CopiedLibrary { from: from.clone(), to, bytes: source.size });
    }
    Ok(copied)
}
