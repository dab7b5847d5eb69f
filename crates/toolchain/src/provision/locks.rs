//! Collects the known locks: the embedded ones, and those in additional folders.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::wheels::{WheelLock, lock};

/// The folder with a project's own locks.
pub const PROJECT_FOLDER: &str = "gpubuild.lock.d";

/// The embedded locks and those in `folders`. A later lock of the same release replaces an earlier one. Folders that do not
/// exist are ignored.
///
/// # Errors
/// A file cannot be read, or is not a valid lock. The text includes its path.
pub fn known(host: &dyn ReadFiles, folders: &[HostPath]) -> Result<Vec<WheelLock>, String> {
    let mut locks: Vec<WheelLock> = lock::embedded().to_vec();
    for folder in folders.iter().filter(|folder| host.is_dir(folder)) {
        let names = host
            .list_matching(folder, "*.toml")
            .map_err(|error| format!("failed to read `{folder}`: {error}"))?;
        for name in &names {
            let path = folder.join(name);
            let text = host.read_text(&path).map_err(|error| format!("failed to read `{path}`: {error}"))?;
            let lock =
                WheelLock::parse(&text).map_err(|error| format!("`{path}` is not a valid lock: {error}"))?;
            locks.retain(|known| (&known.toolkit, &known.release) != (&lock.toolkit, &lock.release));
            locks.push(lock);
        }
    }
    locks.sort_indirect_by(|left, right| {
        (&left.toolkit, &left.release).cmp(&(&right.toolkit, &right.release))
    });
    Ok(locks)
}
