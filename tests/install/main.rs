//! `gpubuild install` from folders and servers.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod certificates;
mod credentials;
mod failures;
mod faults;
#[path = "../common/faulty/mod.rs"]
mod faulty;
mod folder;
mod foreign;
mod hostile;
#[path = "../common/kills.rs"]
mod kill;
mod kills;
mod net;
mod older;
mod packing;
mod registry;
mod release;
mod reliability;
#[path = "../common/requirements.rs"]
mod requirements;
mod script;
mod self_update;
mod server;
mod support;
mod syncing;
