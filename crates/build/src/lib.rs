//! Builds native GPU projects from the build scripts of crates.
//!
//! ```no_run
//! // The whole `main` of the build.rs of a crate with a gpubuild.toml beside its Cargo.toml:
//! gpubuild_build::Build::new().link();
//! ```
//!
//! ```no_run
//! // The same for a program that `gpubuild build` links, in whose build.rs nothing is compiled:
//! gpubuild_build::link();
//! ```
//!
//! The second is all of the crate `gpubuild-link`, which is much smaller. [`Build::plan`] is for crates that run CMake or a compiler
//! themselves, and [`Task`] does what `gpubuild build` does from a task runner.
//!
//! The crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. What is missing on a machine is told
//! when a program is linked: editors, `cargo check` and docs.rs need no toolkit.

mod adapters;
mod assemble;
mod bindings;
mod build;
mod cargo;
mod cross;
mod error;
mod finish;
mod missing;
mod prepare;
mod same;
mod script;
mod share;
mod talk;
mod task;

pub use adapters::Language;
pub use bindings::Bindings;
pub use build::{Build, Built};
pub use error::ScriptError;
pub use gpubuild_core::Backend;
pub use gpubuild_link::{check_symbols, link};
pub use missing::{Cause, Missing};
pub use prepare::Planned;
pub use script::Script;
pub use task::Task;

/// The variable that names a manifest.
const VARIABLE: &str = "GPUBUILD_MANIFEST";
