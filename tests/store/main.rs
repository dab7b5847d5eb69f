//! The shared store: several machines, and every fault of a server.
#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod real;
mod server;
mod sharing;
mod support;

#[path = "../common/requirements.rs"]
mod requirements;
