//! `gpubuild toolkit`: toolkits installed from wheels that the tests make, and, where `GPUBUILD_REQUIRE` names
//! `cuda-wheels`, NVIDIA's own.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test reads and writes its own files and says what it skips"
)]

mod building;
mod faults;
mod locking;
mod real;
mod sandbox;
mod usual;
mod wheels;
