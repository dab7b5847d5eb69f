//! Symbolic links in places where gpubuild writes and deletes.

use super::{Host, HostPath};

/// A symbolic link where only a file or folder of gpubuild's own may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is a link to `{target}`, and gpubuild neither writes nor deletes through a link there")]
pub struct LinkRefused {
    /// The link.
    pub path: String,
    /// Where it leads.
    pub target: String,
}

impl LinkRefused {
    /// Stable id.
    pub const ID: &'static str = "file.link-refused";

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("if it came with the sources, do not trust them; `rm {}` removes the link alone", self.path)
    }
}

/// Refuses a path that is itself a link.
///
/// # Errors
/// The link.
pub fn refuse_link(host: &dyn Host, path: &HostPath) -> Result<(), LinkRefused> {
    let target = match host.read_link(path) {
        Ok(target) => target,
        // A link whose target is not UTF-8.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => "?".to_owned(),
        Err(_) => return Ok(()),
    };
    Err(LinkRefused { path: path.to_string(), target })
}

/// Refuses a folder that is a link or has links to folders anywhere below it.
///
/// # Errors
/// The first link.
pub fn refuse_links_below(host: &dyn Host, folder: HostPath) -> Result<(), LinkRefused> {
    let mut waiting = vec![folder];
    while let Some(folder) = waiting.pop() {
        refuse_link(host, &folder)?;
        let inner = host.list(&folder).unwrap_or_default().into_iter().map(|name| folder.join(&name));
        waiting.extend(inner.filter(|path| host.is_dir(path)));
    }
    Ok(())
}
