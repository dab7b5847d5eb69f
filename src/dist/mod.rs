//! Variants of a build on their way to users: which of them is for which machine.
//!
//! ```text
//! manifest.json    platform -> variants, with what each needs
//! facts + matrix -> machine::Machine
//! pack             a build -> variants/, layers and the manifest of a release
//! resolve::resolve (pure) -> the variant for this machine, and why not the others
//! auth             what a user has given to other tools to show who asks
//! source, trust    -> a manifest that is believed, layers that are verified
//! unpack, install  -> a folder with a version that has proved that it works
//! ```

#[cfg(feature = "cli")]
pub mod auth;
pub mod cover;
#[cfg(feature = "cli")]
mod download;
#[cfg(feature = "cli")]
pub mod fetch;
#[cfg(feature = "cli")]
pub mod install;
#[cfg(feature = "cli")]
pub mod layers;
pub mod machine;
pub mod manifest;
#[cfg(feature = "cli")]
pub mod oci;
#[cfg(feature = "cli")]
pub mod pack;
pub mod properties;
pub mod resolve;
#[cfg(feature = "cli")]
pub mod source;
pub mod trust;
#[cfg(feature = "cli")]
pub mod unpack;
#[cfg(feature = "cli")]
pub mod url;
pub mod user;

#[cfg(test)]
mod oracle;

pub use machine::Machine;
pub use manifest::{Manifest, ManifestProblem, Variant};
pub use resolve::{Choice, Devices, Question, Rejected, resolve};
