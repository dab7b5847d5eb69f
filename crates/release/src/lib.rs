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

pub mod auth;
pub mod ci;
pub mod cover;
mod download;
pub mod fetch;
pub mod install;
pub mod layers;
pub mod machine;
pub mod manifest;
pub mod oci;
pub mod pack;
pub mod properties;
pub mod resolve;
pub mod source;
mod source_error;
pub mod trust;
pub mod unpack;
pub mod url;
pub mod user;

#[cfg(test)]
mod oracle;

pub use machine::Machine;
pub use manifest::{Manifest, ManifestProblem, Variant};
pub use resolve::{Choice, Devices, Question, Rejected, resolve};
