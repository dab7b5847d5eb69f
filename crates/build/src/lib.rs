//! Builds native GPU projects from the build scripts of crates.
//!
//! ```no_run
//! // The complete `main` of a build.rs, for a crate with a gpubuild.toml beside its Cargo.toml:
//! gpubuild_build::Build::new().link();
//! ```
//!
//! ```no_run
//! // For a program that links the libraries of `gpubuild build`; its build.rs compiles nothing:
//! gpubuild_build::link();
//! ```
//!
//! If a script needs only the second, depend on `gpubuild-link` instead, which is much smaller. [`Build::plan`] is for crates that
//! run CMake or a compiler themselves. [`Task`] does the same as `gpubuild build`, in a task runner.
//!
//! The crate gets `cfg(gpubuild_backend = "cuda")` for each backend that was built. A missing toolkit is an error only when a
//! program is linked, so editors, `cargo check` and docs.rs need no toolkit.

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
mod output;
mod prepare;
mod same;
mod script;
mod share;
mod summary;
mod task;

#[cfg(feature = "cc")]
pub use adapters::Language;
pub use bindings::Bindings;
pub use build::Build;
pub use built::Built;
pub use error::ScriptError;
pub use gpubuild_core::Backend;
pub use gpubuild_detect::summary::{BackendState, BackendSummary, SummaryLine};
pub use gpubuild_link::{check_symbols, link};
pub use missing::{MissingCause, MissingRequirement};
pub use prepare::Planned;
pub use summary::backend_summary;
pub use task::Task;

/// The environment variable with the path of a manifest.
const VARIABLE: &str = "GPUBUILD_MANIFEST";
