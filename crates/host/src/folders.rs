//! Folders of gpubuild that all projects of a user share.

use super::{HostInfo, HostPath, Os};

/// The user's gpubuild cache: `GPUBUILD_CACHE` if set, otherwise a folder in the platform's cache folder.
#[must_use]
pub fn cache_folder(host: &dyn HostInfo) -> Option<HostPath> {
    let env = host.env();
    if let Some(folder) = env.get("GPUBUILD_CACHE") {
        return Some(host.path(folder));
    }
    let base = match host.platform().os {
        Os::Windows => env.get("LOCALAPPDATA").map(|folder| host.path(folder)),
        Os::Macos => env.get("HOME").map(|home| host.path(home).join("Library/Caches")),
        Os::Linux => env
            .get("XDG_CACHE_HOME")
            .map(|folder| host.path(folder))
            .filter(HostPath::is_absolute)
            .or_else(|| env.get("HOME").map(|home| host.path(home).join(".cache"))),
    };
    base.map(|base| base.join("gpubuild"))
}

/// The folder in which programs such as compilers create temporary files.
#[must_use]
pub fn temporary_folder(host: &dyn HostInfo) -> HostPath {
    let variables: &[&str] = match host.platform().os {
        Os::Windows => &["TMP", "TEMP"],
        Os::Macos | Os::Linux => &["TMPDIR"],
    };
    let named = variables.iter().find_map(|name| host.env().get(name).filter(|folder| !folder.is_empty()));
    host.path(named.unwrap_or("/tmp"))
}

/// The folder in which gpubuild installs toolkits, each in its own subfolder. `None` without a cache folder.
#[must_use]
pub fn toolkit_folder(host: &dyn HostInfo) -> Option<HostPath> {
    let folder = cache_folder(host)?.join("toolkits");
    if folder.is_absolute() {
        return Some(folder);
    }
    Some(host.current_dir().ok()?.join(folder.as_str()).normalized())
}

/// The folder of the toolkits for another platform: programs of this machine, and libraries of the target with this triple.
#[must_use]
pub fn target_toolkit_folder(host: &dyn HostInfo, triple: &str) -> Option<HostPath> {
    Some(toolkit_folder(host)?.join(triple))
}

/// The file that marks a toolkit in [`toolkit_folder`] as completely installed.
pub const INSTALLED: &str = "installed.json";
