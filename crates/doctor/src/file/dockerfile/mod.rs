//! Dockerfiles: parser, model of stages, and checks.

pub mod check;
pub mod model;
pub mod parse;
mod stage;
