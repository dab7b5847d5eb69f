//! Build scripts under the real cargo: crates in temporary folders whose build.rs is the one of the documentation.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; they say so when they skip")]

mod adapting;
mod bindings;
mod crossing;
mod llama;
mod missing;
mod placing;
mod same;
mod sharing;
mod support;
mod watching;
