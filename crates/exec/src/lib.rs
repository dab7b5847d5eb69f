//! How a plan becomes files: CMake, the executor, the build store, fetched tools, what logs tell.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod cmake;
pub mod diagnose;
pub mod environment;
pub mod event;
pub mod exec;
pub mod log;
pub mod patch;
pub mod python;
pub mod store;
