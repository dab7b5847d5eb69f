//! Build scripts under cargo: crates in temporary folders with the documented build.rs.
#![expect(clippy::unwrap_used, reason = "tests")]

mod adapting;
mod bindings;
mod crossing;
mod llama;
mod missing;
mod placing;
#[path = "../common/requirements.rs"]
mod requirements;
mod same;
mod sharing;
mod support;
mod watching;
