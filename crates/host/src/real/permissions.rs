//! Permissions of files on the real host.
#![expect(clippy::disallowed_methods, reason = "host interface: permissions of files")]

use std::fs;
use std::io;

use super::files::with_path;
use crate::HostPath;

#[cfg(unix)]
pub(super) fn set_executable(path: &HostPath) -> io::Result<()> {
    change_mode(path, &|mode| mode | 0o111).map_err(with_path("make executable", path))
}

#[cfg(not(unix))]
pub(super) fn set_executable(path: &HostPath) -> io::Result<()> {
    fs::metadata(path.as_std()).map(drop).map_err(with_path("make executable", path))
}

#[cfg(unix)]
pub(super) fn set_read_only(path: &HostPath) -> io::Result<()> {
    change_mode(path, &|mode| mode & !0o222).map_err(with_path("make read-only", path))
}

#[cfg(unix)]
pub(super) fn set_writable(path: &HostPath) -> io::Result<()> {
    change_mode(path, &|mode| mode | 0o200).map_err(with_path("make writable", path))
}

#[cfg(unix)]
fn change_mode(path: &HostPath, change: &dyn Fn(u32) -> u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(path.as_std())?.permissions();
    let (before, after) = (permissions.mode(), change(permissions.mode()));
    if before == after {
        return Ok(());
    }
    permissions.set_mode(after);
    fs::set_permissions(path.as_std(), permissions)
}

#[cfg(not(unix))]
pub(super) fn set_read_only(path: &HostPath) -> io::Result<()> {
    fs::metadata(path.as_std()).map(drop).map_err(with_path("make read-only", path))
}

#[cfg(not(unix))]
pub(super) fn set_writable(path: &HostPath) -> io::Result<()> {
    fs::metadata(path.as_std()).map(drop).map_err(with_path("make writable", path))
}
