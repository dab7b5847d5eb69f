//! Sets environment variables of this process, for libraries that can only be configured that way.
#![expect(
    unsafe_code,
    reason = "all threads share the C library's environment, and C code does not respect Rust's lock"
)]

/// Sets an environment variable of this process.
pub(super) fn set(name: &str, value: &str) {
    #[expect(clippy::disallowed_methods, reason = "host interface")]
    // SAFETY: Rust code that reads the environment uses the same lock as `set_var`. The lock does not exclude C code that reads
    // the environment in another thread. Only build scripts call this function, before bindgen runs: by then, gpubuild's threads
    // have ended or wait for a child's output, and none of them reads the environment through C code. The documentation of
    // `Bindings::write` requires the same of threads that a script starts itself.
    unsafe {
        std::env::set_var(name, value);
    }
}
