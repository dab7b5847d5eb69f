//! Files that the user names for documents of gpubuild.

use gpubuild_detect::id;
use gpubuild_host::HostPath;

use super::{CommandContext, Failure};

/// Bytes that are read of an existing file. Documents of gpubuild are smaller.
const READ_LIMIT: usize = 16 << 20;

/// Fails if a document would replace a file that is not a document of the same kind. `is_own` gets the text of the existing file. Devices
/// and folders are left to the write.
pub(super) fn check_replaceable(
    context: &CommandContext<'_>,
    path: &HostPath,
    is_own: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let is_link = context.host.read_link(path).is_ok();
    if is_link && context.host.is_dir(path) {
        let message = format!("`{path}` is a link to a folder, and gpubuild did not make it");
        return Err(Failure::usage(id!("file.not-ours"), message).hint("name a file, or remove the link"));
    }
    if !context.host.is_file(path) {
        return Ok(());
    }
    let start = context
        .host
        .read_start(path, READ_LIMIT)
        .map_err(|error| Failure::file(id!("file.failed"), "read", path, &error))?;
    let text = String::from_utf8_lossy(&start);
    if text.trim().is_empty() || is_own(&text) {
        return Ok(());
    }
    let message = format!("`{path}` exists, and gpubuild did not write it");
    Err(Failure::usage(id!("file.not-ours"), message).hint("name another file, or remove this one"))
}
