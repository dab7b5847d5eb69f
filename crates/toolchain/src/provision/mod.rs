//! Installs toolkits from pinned wheels or archives, without root privileges.
//!
//! # Layout
//! Installations are in [`toolkit_folder`](gpubuild_host::folders::toolkit_folder), `<cache folder>/toolkits`, one folder
//! per release:
//! ```text
//! cuda-13.0/prefix/          the toolkit's root: bin/nvcc, include/, lib/, lib64/, nvvm/, version.json
//! cuda-13.0/wheels/NAME-VERSION-HASH/   each wheel or archive as unpacked, never modified
//! cuda-13.0/files.json       the hashes of the files in the prefix, if it consists of archives: they contain no hashes
//! cuda-13.0/installed.json   the record of the installation, written last
//! .cuda-13.0.partial/        an incomplete installation, which the next attempt resumes
//! .cuda-13.0.lock            held while the release is installed or removed
//! aarch64-unknown-linux-gnu/ the same for builds for another platform: compilers of this machine, libraries of the target
//! ```
//! Files in the prefix are hard links to the wheels' files (copies if the file system has no hard links), because compilers
//! search for their parts relative to their own resolved path. The prefix is relocatable: it does not contain its own path.

pub mod env;
pub mod error;
pub(crate) mod files;
pub mod install;
pub mod kit;
pub mod locks;
mod package_error;
pub mod pin;
mod prefix;
mod record;
pub mod redist;
pub mod state;
mod stub;
pub mod verify;

pub use error::ProvisionError;
pub use gpubuild_plan::offer::PREFIX;
pub(crate) use install::runs;
pub use install::{
    ArchiveAccess, ArchiveRequest, InstallChange, InstalledToolkit, Preview, install, preview,
};
pub use kit::disk_bytes;
pub use package_error::PackageError;
pub use state::{Prefix, UnpackedPackage, find, installations, remove};
pub use verify::verify;

use gpubuild_core::version::Version;
use gpubuild_host::HostPath;
use gpubuild_plan::wheels::{TargetWheels, WheelLock};

/// A request to install a toolkit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallRequest {
    /// Id of the toolkit: `cuda`.
    pub toolkit: String,
    /// An offered release: `13.0`.
    pub release: Version,
    /// Optional components: `cublas`.
    pub with: Vec<String>,
    /// Folders with wheels or archives, searched before the index and the vendor's server.
    pub find_links: Vec<HostPath>,
    /// A lock that replaces the embedded ones.
    pub lock: Option<WheelLock>,
    /// The platform to build for with this toolkit, if that is another one.
    pub target: Option<TargetWheels>,
}
