//! Sources that gpubuild.toml names and `gpubuild fetch` downloads.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod archives;
mod building;
mod git;
mod pruning;
mod registries;
#[path = "../common/requirements.rs"]
mod requirements;
#[path = "../install/server.rs"]
#[expect(dead_code, reason = "the installation needs more faults")]
mod server;
mod slow;
mod support;
mod vendoring;
