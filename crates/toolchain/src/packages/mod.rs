//! Installs toolkits from the packages of the distribution, without root: the package manager resolves, downloads and checks the
//! packages, and gpubuild unpacks them into a prefix.
//!
//! # Layout
//! Installations are in the same folder as those from wheels (see [`provision`](crate::provision)):
//! ```text
//! vulkan-1.3.239.0/prefix/        the packages' `/usr`
//! vulkan-1.3.239.0/files.json     the hash of every file in the prefix
//! vulkan-1.3.239.0/installed.json the record of the installation, written last
//! .vulkan-1.3.239.0.partial/      an incomplete installation; downloaded packages in it are used again
//! .packages.lock                  held while any toolkit is installed from packages
//! .apt-lists/                     package lists, if the system has none or old ones
//! ```
//! Toolkits for another platform are in the folder of the target, with a lock and package lists of their own.

mod apt;
mod dnf;
mod install;
mod preview;
mod relocate;
mod request;
mod source;
mod target;
mod tree;

pub use install::install;
pub use preview::{PackagePreview, preview};
pub use request::PackageRequest;
