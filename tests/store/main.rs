//! The shared store: several machines, and every fault of a server.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests start programs and limit their time"
)]

mod faults;
mod listing;
mod real;
mod server;
mod sharing;
mod support;

#[path = "../common/requirements.rs"]
mod requirements;
