//! Variants of a build on their way to users: which of them is for which machine.
//!
//! ```text
//! manifest.json    platform -> variants, with what each needs
//! facts + matrix -> machine::Machine
//! resolve::resolve (pure) -> the variant for this machine, and why not the others
//! ```

pub mod cover;
pub mod machine;
pub mod manifest;
pub mod properties;
pub mod resolve;
pub mod trust;

#[cfg(test)]
mod oracle;

pub use machine::Machine;
pub use manifest::{Manifest, ManifestProblem, Variant};
pub use resolve::{Choice, Devices, Question, Rejected, resolve};
