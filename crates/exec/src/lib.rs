//! How a plan becomes files: CMake, the executor, the build store, fetched tools, environments with run-time libraries, what logs tell.
//!
//! A part of [gpubuild](https://crates.io/crates/gpubuild) without a stable interface of its own.

pub mod cmake;
pub mod diagnose;
pub mod event;
pub mod exec;
pub mod log;
pub mod patch;
pub mod python;
pub mod store;
pub mod venv;
