//! Fuzzes `src/project.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gpubuild_fuzz::project::run(data);
});
