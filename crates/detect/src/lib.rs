//! What a machine has, what can be built for it, and what can run on it.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod facts;
pub mod finding;
pub mod matrix;
pub mod tell;
pub mod toolkit;
