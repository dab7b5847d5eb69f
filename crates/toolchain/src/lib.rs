//! What gpubuild installs: toolkits, and Python environments with the libraries that programs load.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod provision;
pub mod venv;
