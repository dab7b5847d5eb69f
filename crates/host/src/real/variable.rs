//! The environment of this process, for libraries in it that are configured in no other way.
#![expect(
    unsafe_code,
    reason = "all threads share the C library's environment, and C code does not respect Rust's lock"
)]

/// Sets a variable of this process.
pub(super) fn set(name: &str, value: &str) {
    #[expect(clippy::disallowed_methods, reason = "host interface")]
    // SAFETY: Rust's readers and this writer hold one lock. It does not exclude C code that reads the environment in another
    // thread at the same time. Only build scripts call this, before bindgen: gpubuild's threads have ended by then or wait for
    // a child's output, and none of them calls C code for the environment. The documentation of `Bindings::write` requires
    // the same of threads that a script has started itself.
    unsafe {
        std::env::set_var(name, value);
    }
}
