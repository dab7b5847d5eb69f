//! Fuzzes `src/manifest.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gpubuild_fuzz::manifest::run(data);
});
