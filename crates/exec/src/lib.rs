//! Executes build plans: drives CMake, Ninja and cargo, manages the build store, downloads tools, and diagnoses build logs.
//!
//! Part of gpubuild. The interface is not stable.

pub mod cmake;
pub mod compile_commands;
pub mod diagnose;
pub mod environment;
pub mod event;
pub mod exec;
pub mod export;
pub mod log;
pub mod patch;
pub mod presets;
pub mod python;
pub mod store;
