//! Probe for NVIDIA: the driver API, which needs no toolkit.

use std::ffi::{c_char, c_int};

use serde_json::{Value, json};

use super::{function, open, text};

const MAJOR: c_int = 75;
const MINOR: c_int = 76;

/// Returns `{driver_version, devices: [{name, cc, memory_bytes, pci, uuid}]}`. The driver encodes version 12.4 as 12040.
pub(super) fn query() -> Result<Value, String> {
    let library = open(&["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "nvcuda.dll"])?;
    let version_of = function!(library, c"cuDriverGetVersion", fn(*mut c_int) -> c_int)?;
    let mut driver_version = 0;
    // SAFETY: the out-parameter is a local; the driver allows this call before cuInit.
    check("cuDriverGetVersion", unsafe { version_of(&raw mut driver_version) })?;
    let init = function!(library, c"cuInit", fn(u32) -> c_int)?;
    // SAFETY: the call takes no pointers.
    check("cuInit", unsafe { init(0) })
        .map_err(|error| format!("{error} (driver version {driver_version})"))?;
    let count_of = function!(library, c"cuDeviceGetCount", fn(*mut c_int) -> c_int)?;
    let mut count = 0;
    // SAFETY: the out-parameter is a local.
    check("cuDeviceGetCount", unsafe { count_of(&raw mut count) })?;
    let devices = (0..count).map(|ordinal| device(&library, ordinal)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "driver_version": driver_version, "devices": devices }))
}

fn device(library: &libloading::Library, ordinal: c_int) -> Result<Value, String> {
    let get = function!(library, c"cuDeviceGet", fn(*mut c_int, c_int) -> c_int)?;
    let name_of = function!(library, c"cuDeviceGetName", fn(*mut c_char, c_int, c_int) -> c_int)?;
    let attribute_of = function!(library, c"cuDeviceGetAttribute", fn(*mut c_int, c_int, c_int) -> c_int)?;
    let memory_of = function!(library, c"cuDeviceTotalMem_v2", fn(*mut usize, c_int) -> c_int)?;
    let pci_of = function!(library, c"cuDeviceGetPCIBusId", fn(*mut c_char, c_int, c_int) -> c_int)?;
    let uuid_of = function!(library, c"cuDeviceGetUuid", fn(*mut u8, c_int) -> c_int)?;
    let (mut handle, mut major, mut minor, mut memory) = (0, 0, 0, 0_usize);
    let (mut name, mut pci, mut uuid) = ([0_u8; 256], [0_u8; 32], [0_u8; 16]);
    // SAFETY: every pointer is to a local that outlives the call, with its real length; a CUuuid is 16 bytes.
    unsafe {
        check("cuDeviceGet", get(&raw mut handle, ordinal))?;
        check("cuDeviceGetName", name_of(name.as_mut_ptr().cast(), 256, handle))?;
        check("cuDeviceGetAttribute", attribute_of(&raw mut major, MAJOR, handle))?;
        check("cuDeviceGetAttribute", attribute_of(&raw mut minor, MINOR, handle))?;
        check("cuDeviceTotalMem", memory_of(&raw mut memory, handle))?;
        check("cuDeviceGetPCIBusId", pci_of(pci.as_mut_ptr().cast(), 32, handle))?;
        check("cuDeviceGetUuid", uuid_of(uuid.as_mut_ptr(), handle))?;
    }
    Ok(json!({
        "name": text(&name),
        "cc": format!("{major}.{minor}"),
        "memory_bytes": memory,
        "pci": text(&pci).to_ascii_lowercase(),
        "uuid": uuid_text(uuid),
    }))
}

/// Formats a UUID as `nvidia-smi` does: `GPU-` and lowercase hexadecimal groups.
fn uuid_text(bytes: [u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    let meaning = match status {
        0 => return Ok(()),
        3 => "the driver is not initialised",
        34 => "this is the stub library that is meant for linking, not a driver",
        35 => "the driver is older than the library",
        46 => "all devices are busy or unavailable",
        100 => "no CUDA device is visible",
        101 => "no such device; see CUDA_VISIBLE_DEVICES",
        802 => "the system is not ready: the fabric manager is not running",
        803 => "the user-mode driver does not match the kernel's",
        804 => "forward compatibility was attempted on hardware that does not support it",
        999 => "unknown; often /dev/nvidia-uvm is missing",
        _ => "see the CUDA driver API's error codes",
    };
    Err(format!("{call} returned {status}: {meaning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_explained() {
        assert_eq!(check("cuInit", 0), Ok(()));
        assert!(check("cuInit", 34).unwrap_err().contains("stub"));
        assert!(uuid_text([0xab; 16]).starts_with("GPU-abababab-abab-"));
    }
}
