//! Probe for OpenCL: platforms and devices through the ICD loader.

use std::ffi::c_void;

use serde_json::{Value, json};

use super::{function, open, text};

type OpenclHandle = *mut c_void;
type InfoOf = unsafe extern "system" fn(OpenclHandle, u32, usize, *mut c_void, *mut usize) -> i32;

const PLATFORM_NAME: u32 = 0x0902;
const DEVICE_TYPE: u32 = 0x1000;
const DEVICE_MEMORY: u32 = 0x101f;
const DEVICE_NAME: u32 = 0x102b;
const DEVICE_VERSION: u32 = 0x102f;
const ALL_DEVICE_TYPES: u64 = 0xffff_ffff;
const NO_DEVICE: i32 = -1;
const NO_PLATFORM: i32 = -1001;
const MAX_HANDLES: usize = 64;

/// Returns `{platforms: [{name, devices: [{name, type, version, memory_bytes}]}]}`.
pub(super) fn query() -> Result<Value, String> {
    let library = open(&[
        "libOpenCL.so.1",
        "libOpenCL.so",
        "OpenCL.dll",
        "/System/Library/Frameworks/OpenCL.framework/OpenCL",
    ])?;
    let platforms_of = function!(library, c"clGetPlatformIDs", fn(u32, *mut OpenclHandle, *mut u32) -> i32)?;
    let devices_of = function!(
        library,
        c"clGetDeviceIDs",
        fn(OpenclHandle, u64, u32, *mut OpenclHandle, *mut u32) -> i32
    )?;
    let platform_info = *function!(
        library,
        c"clGetPlatformInfo",
        fn(OpenclHandle, u32, usize, *mut c_void, *mut usize) -> i32
    )?;
    let device_info = *function!(
        library,
        c"clGetDeviceInfo",
        fn(OpenclHandle, u32, usize, *mut c_void, *mut usize) -> i32
    )?;
    let mut handles = [std::ptr::null_mut(); MAX_HANDLES];
    let mut count = 0;
    // SAFETY: the buffer has space for MAX_HANDLES handles; both out-parameters are locals.
    match unsafe { platforms_of(64, handles.as_mut_ptr(), &raw mut count) } {
        0 => {}
        NO_PLATFORM => {
            return Err("clGetPlatformIDs returned -1001: no OpenCL driver is installed".to_owned());
        }
        status => return Err(format!("clGetPlatformIDs returned {status}")),
    }
    let mut platforms = Vec::new();
    for platform in handles.iter().take(count as usize) {
        let mut devices = [std::ptr::null_mut(); MAX_HANDLES];
        let mut count = 0;
        // SAFETY: as above; the platform handle comes from the loader.
        match unsafe { devices_of(*platform, ALL_DEVICE_TYPES, 64, devices.as_mut_ptr(), &raw mut count) } {
            0 => {}
            NO_DEVICE => count = 0,
            status => return Err(format!("clGetDeviceIDs returned {status}")),
        }
        let devices: Vec<Value> =
            devices.iter().take(count as usize).map(|device| describe(device_info, *device)).collect();
        platforms
            .push(json!({ "name": string(platform_info, *platform, PLATFORM_NAME), "devices": devices }));
    }
    Ok(json!({ "platforms": platforms }))
}

fn describe(info: InfoOf, device: OpenclHandle) -> Value {
    let kind = match number(info, device, DEVICE_TYPE) {
        kind if kind & 4 != 0 => "gpu",
        kind if kind & 2 != 0 => "cpu",
        kind if kind & 8 != 0 => "accelerator",
        _ => "other",
    };
    json!({
        "name": string(info, device, DEVICE_NAME),
        "type": kind,
        "version": string(info, device, DEVICE_VERSION),
        "memory_bytes": number(info, device, DEVICE_MEMORY),
    })
}

fn string(info: InfoOf, handle: OpenclHandle, key: u32) -> String {
    let mut buffer = [0_u8; 1024];
    // SAFETY: the buffer's real length is passed, and the handle comes from the loader.
    let status =
        unsafe { info(handle, key, buffer.len() - 1, buffer.as_mut_ptr().cast(), std::ptr::null_mut()) };
    if status == 0 { text(&buffer) } else { String::new() }
}

fn number(info: InfoOf, handle: OpenclHandle, key: u32) -> u64 {
    let mut value = 0_u64;
    // SAFETY: both keys are 64-bit numbers; the handle comes from the loader.
    let status = unsafe { info(handle, key, 8, (&raw mut value).cast(), std::ptr::null_mut()) };
    if status == 0 { value } else { 0 }
}
