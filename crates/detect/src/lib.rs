//! Detects hardware, toolkits and drivers, and determines what a machine can build and run.
//!
//! Part of gpubuild. The interface is not stable.

pub mod diagnostic;
pub mod evidence;
pub mod facts;
pub mod finding;
pub mod finding_text;
pub mod json;
pub mod matrix;
pub mod summary;
pub mod toolkit;
