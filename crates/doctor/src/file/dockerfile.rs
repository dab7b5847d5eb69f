//! Dockerfiles.

pub mod check;
pub mod model;
pub mod parse;
mod stage;
