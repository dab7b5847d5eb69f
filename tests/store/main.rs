//! The shared store: several machines, and every fault of a server.

mod faults;
mod real;
mod server;
mod sharing;
mod support;

#[path = "../common/requirements.rs"]
mod requirements;
