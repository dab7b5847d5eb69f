//! `gpubuild toolkit`: toolkits installed from wheels that the tests create, and from NVIDIA's own if
//! `GPUBUILD_REQUIRE` names `cuda-wheels`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test reads and writes its own files and prints why it skips"
)]

mod building;
mod faults;
mod locking;
mod real;
mod sandbox;
mod usual;
mod wheels;
