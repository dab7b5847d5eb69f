//! Fuzzes `src/settings.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gpubuild_fuzz::settings::run(data);
});
