//! gpubuild's folders, which all projects of a user share.

use super::{HostInfo, HostPath, Os};

/// The cache folder of the user: `GPUBUILD_CACHE`, or else a folder in the platform's cache folder.
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

/// The folder of the toolkits that gpubuild installed, each in its subfolder; `None` without a cache
/// folder.
#[must_use]
pub fn toolkit_folder(host: &dyn HostInfo) -> Option<HostPath> {
    let folder = cache_folder(host)?.join("toolkits");
    if folder.is_absolute() {
        return Some(folder);
    }
    Some(host.current_dir().ok()?.join(folder.as_str()).normalized())
}

/// The file that marks such a toolkit as completely installed.
pub const INSTALLED: &str = "installed.json";
