//! Fuzzes `src/host.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gpubuild_fuzz::host::run(data);
});
