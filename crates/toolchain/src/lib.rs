//! Toolkits that gpubuild installs, what is seen of a machine, and the plan of a project on it.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod look;
pub mod planning;
pub mod provision;
