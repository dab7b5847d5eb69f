//! For build scripts: a crate that brings a native project along, the link lines of what `gpubuild build` made, and a plan's
//! settings for crates that run CMake or a compiler themselves. For task runners: [`Task`] does what `gpubuild build` does.
//!
//! ```no_run
//! // The whole `main` of the build.rs of a crate with a gpubuild.toml beside its Cargo.toml:
//! gpubuild::Build::new().link();
//! ```
//!
//! ```no_run
//! // The same for a program that `gpubuild build` links, in whose build.rs nothing is compiled:
//! gpubuild_link::link();
//! ```
//!
//! The crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. What is missing on a machine is told
//! when a program is linked: editors, `cargo check` and docs.rs need no toolkit.

mod adapters;
mod assemble;
pub mod bindings;
mod build;
pub mod cargo;
pub mod cross;
mod error;
mod finish;
pub mod missing;
mod prepare;
mod same;
pub mod script;
pub mod share;
mod talk;
mod task;

pub use adapters::{Language, apply_to_cc, apply_to_cmake};
pub use bindings::Bindings;
pub use build::{Build, Built};
pub use error::ScriptError;
pub use prepare::Planned;
pub use script::Script;
pub use task::Task;

pub use gpubuild_link::{check_symbols, link};

/// The variable that names a manifest.
pub const VARIABLE: &str = "GPUBUILD_MANIFEST";
