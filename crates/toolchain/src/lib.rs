//! Installs toolkits from wheels and from the packages of distributions, and Python environments with the run-time libraries of programs.
//!
//! Part of gpubuild. The interface is not stable.

pub mod packages;
pub mod provision;
pub mod venv;
