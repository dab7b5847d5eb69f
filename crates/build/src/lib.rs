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
//! If a script needs only the second, depend on `gpubuild-link` instead, which is much smaller. [`Build::plan`] serves crates that
//! run CMake or a compiler themselves. [`Task`] does what `gpubuild build` does, from a task runner.
//!
//! The crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. A missing toolkit is an error only when a
//! program is linked: editors, `cargo check` and docs.rs need none.

mod adapters;
mod assemble;
mod bindings;
mod build;
mod built;
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

#[cfg(feature = "cc")]
pub use adapters::Language;
pub use bindings::Bindings;
pub use build::Build;
pub use built::Built;
pub use error::ScriptError;
pub use gpubuild_core::Backend;
pub use gpubuild_link::{check_symbols, link};
pub use missing::{Cause, Missing};
pub use prepare::Planned;
pub use task::Task;

/// The variable that names a manifest.
const VARIABLE: &str = "GPUBUILD_MANIFEST";
