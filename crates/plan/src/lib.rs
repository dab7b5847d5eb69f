//! What a machine has, what a project asks for, what a build would do, what it has made, and how that is linked.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod artifacts;
pub mod glue;
pub mod link;
pub mod look;
pub mod offer;
pub mod plan;
pub mod planning;
pub mod project;
pub mod wheels;
