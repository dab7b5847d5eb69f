//! Rejects symbolic links in folders in which gpubuild writes and deletes files.

use super::{HostPath, ReadFiles};

/// A symbolic link in a place where gpubuild only accepts its own files and folders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is a link to `{target}`; gpubuild neither writes nor deletes through a link there")]
pub struct LinkRefused {
    /// The path of the link.
    pub path: String,
    /// The target of the link.
    pub target: String,
}

impl From<LinkRefused> for std::io::Error {
    fn from(refused: LinkRefused) -> Self {
        Self::new(std::io::ErrorKind::NotADirectory, refused)
    }
}

/// The targets of the links to folders that a walk has followed on its way to a folder. A walk that enters each target once on every
/// way ends, whatever its links lead to. Folders in which the kernel shows its own state are not entered.
#[derive(Debug, Clone, Default)]
pub struct LinkTrail(Vec<HostPath>);

impl LinkTrail {
    /// As how many files the links count that were followed since another trail. Their targets are resolved, which takes time.
    #[must_use]
    pub fn weight_since(&self, before: &Self) -> usize {
        /// As how many files one link counts.
        const WEIGHT: usize = 10;
        WEIGHT * (self.0.len() - before.0.len())
    }

    /// Returns the trail inside a folder. `None` if the folder is behind a link whose target is already on the way to it, or that leads
    /// to the kernel's state.
    #[must_use]
    pub fn enter(&self, host: &dyn ReadFiles, folder: &HostPath) -> Option<Self> {
        let is_link = host.read_link(folder).is_ok();
        if !is_link && self.0.is_empty() {
            return Some(self.clone());
        }
        let target = host.canonical(folder).ok()?;
        if shows_kernel_state(&target) {
            return None;
        }
        if !is_link {
            return Some(self.clone());
        }
        let known = self.0.contains(&target);
        (!known).then(|| Self(self.0.iter().cloned().chain([target]).collect()))
    }
}

/// Whether a folder is in a file system whose files are not data: they are endless, change, or take long to read.
fn shows_kernel_state(folder: &HostPath) -> bool {
    let path = folder.as_str();
    ["/proc", "/sys", "/dev"]
        .iter()
        .any(|top| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Checks that a path is not a symbolic link.
///
/// # Errors
/// The path is a link.
pub fn refuse_link(host: &dyn ReadFiles, path: &HostPath) -> Result<(), LinkRefused> {
    let target = match host.read_link(path) {
        Ok(target) => target,
        // The target of the link is not UTF-8.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => "?".to_owned(),
        Err(_) => return Ok(()),
    };
    Err(LinkRefused { path: path.to_string(), target })
}

/// Checks that a folder is not a symbolic link and contains no links to folders at any depth.
///
/// # Errors
/// The first link that was found.
pub fn refuse_links_below(host: &dyn ReadFiles, folder: HostPath) -> Result<(), LinkRefused> {
    let mut waiting = vec![folder];
    while let Some(folder) = waiting.pop() {
        refuse_link(host, &folder)?;
        let inner = host.list(&folder).unwrap_or_default().into_iter().map(|name| folder.join(&name));
        waiting.extend(inner.filter(|path| host.is_dir(path)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, HostInfo as _, Os, RecordedHost};

    #[test]
    fn links_to_the_state_of_the_kernel_are_not_entered() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/proc/1/status", "")
            .file("/processors/a.c", "")
            .file("/project/own/proc/a.c", "")
            .link("/project/proc", "/proc")
            .link("/project/all", "/")
            .build();
        let enter = |trail: &LinkTrail, path: &str| trail.enter(&host, &host.path(path));
        let start = LinkTrail::default();
        assert!(enter(&start, "/project/own/proc").is_some());
        assert!(enter(&start, "/project/proc").is_none());
        let all = enter(&start, "/project/all").unwrap();
        assert!(enter(&all, "/project/all/proc").is_none());
        assert!(enter(&all, "/project/all/processors").is_some());
    }
}
