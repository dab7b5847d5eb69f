//! What the fuzz targets do with an input. `tests/fuzz.rs` compiles these files too, to run the kept corpus with stable Rust.
//!
//! Each function processes an input as the command does, asserts what must hold for every input, and returns whether the input was
//! accepted.

pub mod archive;
pub mod file;
pub mod host;
pub mod log;
mod machine;
pub mod manifest;
pub mod object;
mod output;
pub mod project;
pub mod reply;
pub mod settings;
