//! Packs variants of a build into releases, and installs the variant that fits a machine.
//!
//! ```text
//! manifest         manifest.json: the variants by platform, with their requirements
//! machine          facts and verdicts -> the properties that variants require
//! pack             a build -> layers, entries and the manifest of a release
//! provenance       how a variant was built: written by pack, checked by install
//! wheel            a build -> a Python wheel
//! resolve          (pure) -> the variant for a machine, and why the others were rejected
//! auth             credentials from other tools
//! history          serials of releases that were trusted before
//! source, trust    -> a trusted manifest and verified layers
//! unpack, install  -> a folder with a version that has passed its smoke test
//! ```

pub mod auth;
pub mod ci;
pub mod cover;
mod download;
pub mod fetch;
pub mod git;
pub mod hashed;
pub mod history;
pub mod install;
pub mod layers;
pub mod machine;
pub mod manifest;
pub mod oci;
pub mod pack;
mod preference;
pub mod properties;
pub mod provenance;
pub mod resolve;
pub mod source;
mod source_error;
pub mod trust;
pub mod unpack;
pub mod url;
pub mod user;
pub mod wheel;

#[cfg(test)]
mod oracle;

pub use machine::ReleaseMachine;
pub use manifest::{ManifestProblem, ReleaseManifest, ReleaseVariant};
pub use resolve::{Devices, Rejected, ResolveRequest, VariantChoice, resolve};
