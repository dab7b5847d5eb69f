//! What a machine has, what can be built for it, and what can run on it.
//!
//! A part of [gpubuild](https://crates.io/crates/gpubuild) without a stable interface of its own.

pub mod facts;
pub mod finding;
pub mod matrix;
pub mod tell;
pub mod toolkit;
