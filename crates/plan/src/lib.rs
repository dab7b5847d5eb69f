//! What a project asks for, what a build would do, what it has made, and how that is linked.
//!
//! A part of [gpubuild](https://crates.io/crates/gpubuild) without a stable interface of its own.

pub mod artifacts;
pub mod glue;
pub mod link;
pub mod plan;
pub mod project;
