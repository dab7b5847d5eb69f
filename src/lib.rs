//! `gpubuild` answers three questions for every GPU backend, with reasons: is the hardware there, can I build for it
//! here, can it run here? Then it does the building.
//!
//! The data flow; each stage is a pure value that prints as text and as JSON:
//!
//! ```text
//! argv + gpubuild.toml        toolkits/*.toml
//!         |                        |
//!  Host --+--> facts  ----+--> toolkit::Inventory
//!                         |
//!                matrix::evaluate        (pure)   -> gpubuild detect
//!                         |
//!                plan::make              (pure)   -> gpubuild plan, build --dry-run
//!                         |
//!                exec over Host                   -> gpubuild build
//!                         |
//!                artifacts::Manifest
//!                         |
//!                link::directives        (pure)   -> gpubuild link, build_rs
//! ```

pub mod report;

pub mod audit;
pub mod cli;
pub mod new;

pub use gpubuild_core::{Backend, Version, arch, backend, clean, isa, shell, version};
pub use gpubuild_detect::{facts, finding, matrix, tell, toolkit};
pub use gpubuild_doctor as doctor;
pub use gpubuild_exec::{cmake, diagnose, event, exec, log, patch, python, store, venv};
pub use gpubuild_host as host;
pub use gpubuild_object as object;
pub use gpubuild_plan::{artifacts, glue, link, plan, project};
pub use gpubuild_release as release;
pub use gpubuild_toolchain::{look, planning, provision};
