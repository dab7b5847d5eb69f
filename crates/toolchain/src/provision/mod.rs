//! Toolkits installed by us, without root, from pinned wheels.
//!
//! # Where
//! [`toolkit_folder`](gpubuild_host::folders::toolkit_folder) is `<cache folder>/toolkits`. An installation is `<folder>/<toolkit>-<release>/`:
//! ```text
//! cuda-13.0/prefix/          the toolkit's root for everybody who uses it: bin/nvcc, include/, lib/, lib64/, nvvm/, version.json
//! cuda-13.0/wheels/NAME-VERSION-SUM/   each wheel as uv or pip unpacked it; nothing in there is ever changed
//! cuda-13.0/installed.json   what is in it, written last
//! .cuda-13.0.partial/        an installation that is not done; the next one goes on from it
//! .cuda-13.0.lock            held while one is made or removed
//! ```
//! Files of the prefix are hard links to the wheels' files (copies where there are none), since compilers find their parts
//! from where their own real file lies. The prefix may be moved as a whole: nothing in it names its own path.

pub mod env;
pub mod error;
pub mod install;
pub mod kit;
pub mod locks;
pub mod pin;
mod prefix;
pub mod state;
mod stub;
pub mod verify;

pub use error::ProvisionError;
pub use gpubuild_plan::offer::PREFIX;
pub use install::{InstallChange, InstalledToolkit, Preview, install, preview};
pub use kit::disk_bytes;
pub use state::{Prefix, find, installations, remove};
pub use verify::verify;

use gpubuild_core::version::Version;
use gpubuild_host::HostPath;
use gpubuild_plan::wheels::WheelLock;

/// What to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallRequest {
    /// Id of the toolkit, `cuda`.
    pub toolkit: String,
    /// A release that is offered, `13.0`.
    pub release: Version,
    /// Optional components, `cublas`.
    pub with: Vec<String>,
    /// Folders that hold wheels.
    pub find_links: Vec<HostPath>,
    /// A lock of the user's own, in place of the embedded ones.
    pub lock: Option<WheelLock>,
}
