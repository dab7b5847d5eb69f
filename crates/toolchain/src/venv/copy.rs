//! Libraries of an environment beside a program that is given away: everything that the program's libraries name, and
//! what they open while they run.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};

use super::problem::VenvProblem;
use super::table::{WheelRelease, same};

/// A library that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedLibrary {
    /// Where it came from.
    pub from: HostPath,
    /// Where it lies now.
    pub to: HostPath,
    /// In bytes.
    pub bytes: u64,
}

/// Libraries of an environment that these names lead to, in alphabetical order.
///
/// # Errors
/// One that a wheel of the release should hold is not in the folders, or can't be read.
pub fn closure(
    host: &dyn ReadFiles,
    release: &WheelRelease,
    folders: &[HostPath],
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, HostPath>, VenvProblem> {
    let platform = host.platform();
    let mut found: BTreeMap<String, HostPath> = BTreeMap::new();
    let mut waiting: Vec<String> = names.iter().cloned().collect();
    while let Some(name) = waiting.pop() {
        if found.keys().any(|known| same(platform.os, known, &name)) {
            continue;
        }
        // What no wheel holds is the system's.
        let Some(wheel) = release.wheel_of(platform.os, &name) else { continue };
        let path = folders.iter().map(|folder| folder.join(&name)).find(|path| host.is_file(path));
        let path = path.ok_or_else(|| {
            VenvProblem::failed(id!("venv.incomplete"))
                .value("what", format!("`{name}` of {}", wheel.package))
        })?;
        let library = gpubuild_object::read(host, &path, platform.arch).map_err(|error| {
            VenvProblem::failed(id!("venv.not-loadable"))
                .value("how", "can't be read")
                .value("error", format!("{path}: {error}"))
        })?;
        waiting.extend(library.needed.into_iter().map(|needed| needed.name));
        waiting.extend(wheel.opens(platform.os).iter().cloned());
        found.insert(name, path);
    }
    Ok(found)
}

/// Copies libraries into a folder. One of the same size that is not older is left as it is.
///
/// # Errors
/// The folder can't be written.
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
