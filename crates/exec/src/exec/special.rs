//! Refuses pipes, sockets and devices in the place of files that CMake, Ninja or a compiler opens. Opening a pipe waits for a writer, and
//! reading a device may never end.

use gpubuild_host::{FileKind, HostPath, ReadFiles};

use super::error::BuildError;

/// The deepest folder of a build folder that is examined. Those of object files have the names of the sources' folders.
const DEEPEST: usize = 40;

/// Refuses what is not a regular file among the state of an earlier build. Files that gpubuild replaces without reading them are skipped,
/// and so are the sources that CMake has downloaded.
pub(super) fn refuse(host: &dyn ReadFiles, build: &HostPath, own: &HostPath) -> Result<(), BuildError> {
    let skipped = [own.clone(), build.join(".cmake/api/v1/reply"), build.join("_deps")];
    let mut pending = vec![(build.clone(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        for name in host.list(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            // Dangling links and files that disappear are skipped.
            let Ok(stat) = host.stat(&path) else { continue };
            match stat.kind {
                FileKind::File => {}
                FileKind::Device | FileKind::Other if skipped.contains(&path) => {}
                FileKind::Device | FileKind::Other => {
                    return Err(BuildError::NotRegular { path: path.to_string() });
                }
                // A folder behind a link is not a part of the build folder, and may be above it.
                FileKind::Directory => {
                    if depth < DEEPEST && !skipped.contains(&path) && host.read_link(&path).is_err() {
                        pending.push((path, depth + 1));
                    }
                }
            }
        }
    }
    Ok(())
}
