//! Builds of real CMake projects with the tools of this machine, from hand-written plans.
#![expect(clippy::unwrap_used, reason = "tests")]

mod damaged;
mod existing;
mod failing;
mod farms;
#[cfg(target_os = "linux")]
#[path = "../common/faulty/mod.rs"]
mod faulty;
mod inputs;
mod launchers;
mod linking;
mod memory;
mod modules;
mod page;
mod patching;
mod rebuilding;
#[cfg(target_os = "linux")]
mod reliability;
#[path = "../common/requirements.rs"]
mod requirements;
mod storing;
mod support;
mod timings;
mod together;
