//! Rejects symbolic links in places where gpubuild writes and deletes.

use super::{HostPath, ReadFiles};

/// A symbolic link where only a file or folder of gpubuild is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is a link to `{target}`; gpubuild neither writes nor deletes through a link there")]
pub struct LinkRefused {
    /// The link's path.
    pub path: String,
    /// The link's target.
    pub target: String,
}

/// Rejects a path that is a link.
///
/// # Errors
/// The link and its target.
pub fn refuse_link(host: &dyn ReadFiles, path: &HostPath) -> Result<(), LinkRefused> {
    let target = match host.read_link(path) {
        Ok(target) => target,
        // The target of the link is not UTF-8.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => "?".to_owned(),
        Err(_) => return Ok(()),
    };
    Err(LinkRefused { path: path.to_string(), target })
}

/// Rejects a folder that is a link, or that contains links to folders at any depth.
///
/// # Errors
/// The first link.
pub fn refuse_links_below(host: &dyn ReadFiles, folder: HostPath) -> Result<(), LinkRefused> {
    let mut waiting = vec![folder];
    while let Some(folder) = waiting.pop() {
        refuse_link(host, &folder)?;
        let inner = host.list(&folder).unwrap_or_default().into_iter().map(|name| folder.join(&name));
        waiting.extend(inner.filter(|path| host.is_dir(path)));
    }
    Ok(())
}
