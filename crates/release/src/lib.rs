//! Packs variants of a build into releases, and installs the variant that fits a machine.
//!
//! ```text
//! manifest.json    platform -> variants, with what each needs
//! facts + matrix -> machine::Machine
//! pack             a build -> variants/, layers and the manifest of a release
//! resolve::resolve (pure) -> the variant for this machine, and why others were not chosen
//! auth             credentials from other tools
//! source, trust    -> a trusted manifest, verified layers
//! unpack, install  -> a folder with a version whose program started
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

pub use machine::ReleaseMachine;
pub use manifest::{ManifestProblem, ReleaseManifest, ReleaseVariant};
pub use resolve::{Devices, Rejected, ResolveQuestion, VariantChoice, resolve};
