//! Installs toolkits from wheels, and Python environments with the run-time libraries of programs.
//!
//! Part of gpubuild. The interface is not stable.

pub mod provision;
pub mod venv;
