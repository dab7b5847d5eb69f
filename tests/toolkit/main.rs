//! `gpubuild toolkit`: toolkits installed from wheels that the tests create, and from NVIDIA's own if
//! `GPUBUILD_REQUIRE` names `cuda-wheels`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads and writes its own files and prints why it skips"
)]

mod building;
mod faults;
#[cfg(target_os = "linux")]
#[path = "../common/kills.rs"]
mod kill;
mod locking;
mod real;
#[cfg(target_os = "linux")]
mod reliability;
#[path = "../common/requirements.rs"]
mod requirements;
mod sandbox;
mod usual;
mod wheels;
