//! `gpubuild install`: releases from folders and servers, into folders of this machine.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod folder;
mod hostile;
mod release;
mod support;
