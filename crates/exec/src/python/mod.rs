//! Installs [pinned wheels](gpubuild_plan::wheels) with uv or pip, or without Python.
//!
//! [`mod@install`] installs them in a folder or an environment. [`mod@fetch`] downloads missing tools (CMake, Ninja) to
//! gpubuild's cache. Settings of uv and pip apply. Python environments of the user are changed only if they are the target.

pub mod error;
pub mod fetch;
pub mod install;
pub mod installer_output;

pub use error::{PipInstallError, WheelFetchError};
pub use fetch::fetch;
pub use install::{InstallTarget, install};
pub use installer_output::PipCause;

use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_host::{Environment, HostPath};
use gpubuild_plan::wheels::lock::PinnedWheel;

/// How wheels are obtained.
#[derive(Clone, Copy)]
pub struct WheelAccess<'a> {
    /// The installed uv or Python.
    pub tools: &'a InstalledTools,
    /// Whether an index may be used.
    pub network: Network,
    /// The URL of an index, if not the one that uv or pip uses.
    pub index: Option<&'a str>,
    /// Installs wheels in folders where neither uv nor pip is installed.
    pub direct: Option<&'a dyn UnpackWheel>,
}

/// Finds or downloads a wheel, and unpacks it without Python.
pub trait UnpackWheel: Sync {
    /// Puts the files of a wheel where `pip install --target` puts them. `find_links` are folders that may contain it. The hash of
    /// the file is one of the pinned ones.
    ///
    /// # Errors
    /// The download or the wheel is not usable.
    fn unpack(
        &self,
        wheel: &PinnedWheel,
        find_links: &[HostPath],
        folder: &HostPath,
    ) -> Result<(), PipInstallError>;
}

/// Whether downloads are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Downloads are allowed.
    Allowed,
    /// Downloads are forbidden by `--offline`, `GPUBUILD_OFFLINE` or `CARGO_NET_OFFLINE`.
    Offline,
}

impl Network {
    /// Reads `GPUBUILD_OFFLINE` and `CARGO_NET_OFFLINE`.
    #[must_use]
    pub fn from_env(env: &Environment) -> Self {
        let is_set =
            |name: &str| env.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"));
        if is_set("GPUBUILD_OFFLINE") || is_set("CARGO_NET_OFFLINE") { Self::Offline } else { Self::Allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::Os;

    #[test]
    fn both_variables_select_offline_mode() {
        let network =
            |name: &str, value: &str| Network::from_env(&Environment::new(Os::Linux, [(name, value)]));
        assert_eq!(network("GPUBUILD_OFFLINE", "1"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "true"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "false"), Network::Allowed);
        assert_eq!(network("OTHER", "1"), Network::Allowed);
    }
}
