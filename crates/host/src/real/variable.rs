//! The environment of this very process: for libraries loaded into it that listen to nothing else.
#![expect(
    unsafe_code,
    reason = "the C library's environment is one for all threads and has no lock that C respects"
)]

/// Sets a variable of this process.
pub(super) fn set(name: &str, value: &str) {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    // SAFETY: Rust's own readers and this writer hold one lock. What it does not hold off is C code that reads the
    // environment in another thread at this moment. Only build scripts get here, on their way to bindgen: gpubuild's
    // threads have ended by then or wait for a child's output, and none of them calls into C for the environment. The
    // documentation of `Bindings::write` asks the same of threads that a script has started itself.
    unsafe {
        std::env::set_var(name, value);
    }
}
