//! How a plan becomes files: CMake, the executor, the build store, fetched tools, environments with run-time libraries, what logs tell.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod cmake;
pub mod diagnose;
pub mod event;
pub mod exec;
pub mod log;
pub mod patch;
pub mod python;
pub mod store;
pub mod venv;
