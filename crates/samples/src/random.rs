//! Numbers for generated tests, the same in each run.

/// The number of cases of a generated test. `GPUBUILD_CASES` replaces the usual one.
#[must_use]
pub fn cases(usual: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "the number of cases of a test")]
    let requested = std::env::var("GPUBUILD_CASES").ok().and_then(|text| text.parse().ok());
    requested.unwrap_or(usual)
}

/// Returns a function that returns a number below its argument (xorshift64 with a fixed seed).
pub fn random() -> impl FnMut(usize) -> usize {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    }
}
