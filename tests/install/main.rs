//! `gpubuild install` from folders and servers.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod credentials;
mod failures;
mod faults;
mod folder;
mod foreign;
mod hostile;
mod kills;
mod net;
mod older;
mod packing;
mod registry;
mod release;
mod server;
mod support;
