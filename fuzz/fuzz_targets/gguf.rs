//! Fuzzes all processing of a file before a session is opened.

#![no_main]

#[allow(dead_code)]
#[path = "../../examples/infer/tests/suite/loading.rs"]
mod loading;

use infer::gk::{Backend, Device, OpenOptions};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static DEVICE: Option<Device> =
        Backend::named("ref").ok().and_then(|backend| backend.open_first(OpenOptions::default()).ok());
}

fuzz_target!(|data: &[u8]| {
    DEVICE.with(|device| {
        let _ = loading::load(data.to_vec(), device.as_ref());
    });
});
