//! Recognises a full disk after a failed step. Tools report it in many ways, and CMake not at all, so this writes test files.

use gpubuild_host::{Host, HostPath};
use gpubuild_plan::plan::PlannedTree;

use super::error::{BuildError, has_no_space, is_disk_full};
use super::log::BuildLog;
use crate::cmake;

/// Size in bytes of a test file.
const TEST_SIZE: usize = 128 * 1024;

/// Returns an error if the disk of the build folder or of the temporary folder is full.
pub(super) fn refuse(host: &dyn Host, tree: &PlannedTree, log: &BuildLog<'_>) -> Result<(), BuildError> {
    if has_no_room(host, &cmake::own_folder(tree)) {
        return Err(BuildError::full(host, &tree.build));
    }
    let temporary = gpubuild_host::folders::temporary_folder(host);
    let no_temporary_space = || BuildError::NoTemporarySpace { path: temporary.to_string() };
    let Some(line) = log.last().iter().find(|line| is_disk_full(line)) else {
        return if has_no_room(host, &temporary) { Err(no_temporary_space()) } else { Ok(()) };
    };
    // A compiler removes its temporary files before it ends, so the folder may have space again.
    let is_named = line.contains(temporary.as_str()) && !line.contains(tree.build.as_str());
    if is_named || has_no_room(host, &temporary) {
        return Err(no_temporary_space());
    }
    Err(BuildError::full(host, &tree.build))
}

/// Whether a folder has no space for a small file.
fn has_no_room(host: &dyn Host, folder: &HostPath) -> bool {
    let written = host.temporary_dir(folder).and_then(|own| {
        let written = host.write(&own.join("room"), &vec![0; TEST_SIZE]);
        // A leftover test file does no harm.
        let _ = host.remove(&own);
        written
    });
    written.is_err_and(|error| has_no_space(&error))
}
