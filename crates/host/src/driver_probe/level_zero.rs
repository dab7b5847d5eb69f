//! Probe for Intel: Level Zero, which SYCL programs use.

use std::ffi::c_void;

use serde_json::{Value, json};

use super::{function, open, text};

type LevelZeroHandle = *mut c_void;

/// `ze_device_properties_t` of the Level Zero headers (version 1.x).
#[repr(C)]
struct Properties {
    structure: u32,
    next: *mut c_void,
    kind: u32,
    vendor_id: u32,
    device_id: u32,
    flags: u32,
    subdevice: u32,
    clock: u32,
    max_allocation: u64,
    numbers: [u32; 7],
    timer_resolution: u64,
    timestamp_bits: [u32; 2],
    uuid: [u8; 16],
    name: [u8; 256],
    /// Reserved for fields that later versions of Level Zero may add.
    spare: [u64; 64],
}

const DEVICE_PROPERTIES: u32 = 3;
const MAX_HANDLES: usize = 64;

/// Returns `{devices: [{backend, type, name, vendor_id, device_id}]}`.
pub(super) fn query() -> Result<Value, String> {
    let library = open(&["libze_loader.so.1", "ze_loader.dll"])?;
    let init = function!(library, c"zeInit", fn(u32) -> u32)?;
    let drivers_of = function!(library, c"zeDriverGet", fn(*mut u32, *mut LevelZeroHandle) -> u32)?;
    let devices_of =
        function!(library, c"zeDeviceGet", fn(LevelZeroHandle, *mut u32, *mut LevelZeroHandle) -> u32)?;
    let properties_of =
        function!(library, c"zeDeviceGetProperties", fn(LevelZeroHandle, *mut Properties) -> u32)?;
    // SAFETY: the call takes no pointers.
    check("zeInit", unsafe { init(0) })?;
    let mut drivers = [std::ptr::null_mut(); MAX_HANDLES];
    let mut count = 64;
    // SAFETY: the buffer has space for `count` handles.
    check("zeDriverGet", unsafe { drivers_of(&raw mut count, drivers.as_mut_ptr()) })?;
    let mut found = Vec::new();
    for driver in drivers.iter().take(count as usize) {
        let mut devices = [std::ptr::null_mut(); MAX_HANDLES];
        let mut count = 64;
        // SAFETY: as above; the driver handle comes from the loader.
        check("zeDeviceGet", unsafe { devices_of(*driver, &raw mut count, devices.as_mut_ptr()) })?;
        for device in devices.iter().take(count as usize) {
            // SAFETY: all fields are numbers, arrays of numbers or a pointer, for which zero is a valid value.
            let mut properties: Properties = unsafe { std::mem::zeroed() };
            properties.structure = DEVICE_PROPERTIES;
            // SAFETY: the structure has the header's layout and outlives the call.
            check("zeDeviceGetProperties", unsafe { properties_of(*device, &raw mut properties) })?;
            let kind = match properties.kind {
                1 => "gpu",
                2 => "cpu",
                3 => "fpga",
                4 => "mca",
                5 => "vpu",
                _ => "other",
            };
            found.push(json!({
                "backend": "level_zero",
                "type": kind,
                "name": text(&properties.name),
                "vendor_id": properties.vendor_id,
                "device_id": properties.device_id,
            }));
        }
    }
    Ok(json!({ "devices": found }))
}

fn check(call: &str, status: u32) -> Result<(), String> {
    match status {
        0 => Ok(()),
        0x7800_0001 => Err(format!("{call} returned 0x78000001: no Level Zero driver is installed")),
        status => Err(format!("{call} returned {status:#x}")),
    }
}
