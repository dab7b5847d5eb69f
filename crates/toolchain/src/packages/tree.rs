//! Folders of unpacked packages.

use std::io;

use gpubuild_host::{HostPath, WriteFiles};

/// Moves the content of a folder into another one. Existing files are kept.
pub(super) fn merge(host: &dyn WriteFiles, from: &HostPath, to: &HostPath) -> io::Result<()> {
    let is_link = |path: &HostPath| host.read_link(path).is_ok();
    host.create_dir_all(to)?;
    for name in host.list(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if !is_link(&target) && !host.exists(&target) {
            host.rename(&source, &target)?;
        } else if !is_link(&source) && host.is_dir(&source) && host.is_dir(&target) {
            merge(host, &source, &target)?;
        }
    }
    Ok(())
}
