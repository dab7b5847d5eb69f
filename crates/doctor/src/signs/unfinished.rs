//! Packages whose installation was interrupted or failed, and held ones: from dpkg's list.

use gpubuild_core::backend::Backend;
use gpubuild_host::dpkg::{STATUS, unusual};
use gpubuild_host::{Os, ReadFiles};

use super::{SignContext, packages};

/// Largest part of the list that is read, in bytes. Lists of desktops have 3 to 8 MB.
const LIMIT: usize = 32 << 20;
/// Folder with changes that dpkg had not yet written to its list when it was interrupted, in files with numbers as names.
const PENDING: &str = "/var/lib/dpkg/updates";

/// Packages that are not completely installed, or on hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnfinishedSigns {
    /// Packages that are not completely installed.
    pub unfinished: Vec<UnfinishedPackage>,
    /// Packages on hold.
    pub held: Vec<UnfinishedPackage>,
    /// Whether dpkg was interrupted and refuses to install anything.
    pub interrupted: bool,
}

/// A package with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `unpacked`, `half-configured`, `installed`.
    pub state: String,
    /// Whether the package has to be installed again.
    pub reinstall: bool,
    /// The backend that it belongs to.
    pub backend: Option<Backend>,
}

impl UnfinishedPackage {
    /// Whether the package belongs to NVIDIA's driver.
    #[must_use]
    pub fn is_nvidia_driver(&self) -> bool {
        self.backend == Some(Backend::Cuda) && self.name.contains("nvidia")
    }
}

pub(super) fn gather(context: &SignContext<'_>) -> UnfinishedSigns {
    let host = context.host;
    if context.facts.platform.os != Os::Linux {
        return UnfinishedSigns::default();
    }
    let Ok(bytes) = host.read_start(&host.path(STATUS), LIMIT) else { return UnfinishedSigns::default() };
    let text = String::from_utf8_lossy(&bytes);
    let mut signs = UnfinishedSigns { interrupted: is_interrupted(host), ..UnfinishedSigns::default() };
    for package in unusual(&text) {
        let one = UnfinishedPackage {
            name: package.name.to_owned(),
            version: package.version.to_owned(),
            state: package.state.to_owned(),
            reinstall: package.reinstall,
            backend: packages::backend_of(package.name),
        };
        // A removal that was interrupted leaves nothing to install.
        match package.state {
            "installed" | "config-files" | "not-installed" if !package.reinstall => {
                if package.held {
                    signs.held.push(one);
                }
            }
            _ => signs.unfinished.push(one),
        }
    }
    signs
}

fn is_interrupted(host: &dyn ReadFiles) -> bool {
    let names = host.list(&host.path(PENDING)).unwrap_or_default();
    names.iter().any(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}
