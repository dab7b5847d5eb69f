//! `gpubuild toolkit`: toolkits installed from wheels, archives and packages that the tests create, from NVIDIA's own wheels if
//! `GPUBUILD_REQUIRE` names `cuda-wheels`, and from Debian's own packages if it names `network`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads and writes its own files and prints why it skips"
)]

#[cfg(target_os = "linux")]
mod archives;
mod building;
mod faults;
#[cfg(target_os = "linux")]
#[path = "../common/faulty/mod.rs"]
#[expect(dead_code, reason = "the build store needs more faults")]
mod faulty;
#[cfg(target_os = "linux")]
mod fedora;
#[cfg(target_os = "linux")]
#[path = "../common/kills.rs"]
mod kill;
mod locking;
#[cfg(target_os = "linux")]
mod packages;
mod real;
#[cfg(target_os = "linux")]
mod reliability;
#[cfg(target_os = "linux")]
mod repository;
#[path = "../common/requirements.rs"]
mod requirements;
#[cfg(target_os = "linux")]
mod rocm_wheels;
mod sandbox;
#[cfg(target_os = "linux")]
#[path = "../install/server.rs"]
#[expect(dead_code, reason = "the installation needs more faults")]
mod server;
#[cfg(target_os = "linux")]
mod target_packages;
mod targets;
#[cfg(target_os = "linux")]
mod tools;
mod usual;
mod wheels;
#[cfg(target_os = "linux")]
mod without_python;
