//! Toolkits that gpubuild installs, what is seen of a machine, and the plan of a project on it.
//!
//! A part of [gpubuild](https://crates.io/crates/gpubuild) without a stable interface of its own.

pub mod look;
pub mod planning;
pub mod provision;
