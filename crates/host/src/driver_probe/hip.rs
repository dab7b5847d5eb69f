//! Probe for AMD: the HIP runtime. Its structures differ between versions. The probe therefore only uses calls with scalar
//! results, and scans the device properties for the architecture name instead of reading it at an offset.

use std::ffi::{c_char, c_int};

use serde_json::{Value, json};

use super::{function, open, text};

const LIBRARIES: [&str; 6] = [
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
    "amdhip64_7.dll",
    "amdhip64_6.dll",
];

/// Larger than the property structure of any version (1472 bytes in HIP 6).
const PROPERTIES: usize = 8192;

/// Returns `{runtime_version, devices: [{name, arch, memory_bytes, pci}]}`, with the version as encoded by the runtime.
pub(super) fn query() -> Result<Value, String> {
    let library =
        open(&LIBRARIES).or_else(|error| open(&["/opt/rocm/lib/libamdhip64.so"]).map_err(|_| error))?;
    let version_of = function!(library, c"hipRuntimeGetVersion", fn(*mut c_int) -> c_int)?;
    let count_of = function!(library, c"hipGetDeviceCount", fn(*mut c_int) -> c_int)?;
    let (mut runtime_version, mut count) = (0, 0);
    // SAFETY: the out-parameters are locals.
    unsafe {
        check("hipGetDeviceCount", count_of(&raw mut count))?;
        check("hipRuntimeGetVersion", version_of(&raw mut runtime_version))?;
    }
    let devices = (0..count).map(|ordinal| device(&library, ordinal)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "runtime_version": runtime_version, "devices": devices }))
}

fn device(library: &libloading::Library, ordinal: c_int) -> Result<Value, String> {
    let name_of = function!(library, c"hipDeviceGetName", fn(*mut c_char, c_int, c_int) -> c_int)?;
    let memory_of = function!(library, c"hipDeviceTotalMem", fn(*mut usize, c_int) -> c_int)?;
    let pci_of = function!(library, c"hipDeviceGetPCIBusId", fn(*mut c_char, c_int, c_int) -> c_int)?;
    let properties_of = function!(library, c"hipGetDevicePropertiesR0600", fn(*mut u8, c_int) -> c_int)
        .or_else(|_| function!(library, c"hipGetDeviceProperties", fn(*mut u8, c_int) -> c_int))?;
    let (mut name, mut pci, mut memory) = ([0_u8; 256], [0_u8; 32], 0_usize);
    let mut properties = vec![0_u64; PROPERTIES / 8];
    // SAFETY: every pointer is to memory that outlives the call, with its real length; the properties are aligned to 8 and
    // several times larger than the structure of any version.
    let bytes = unsafe {
        check("hipDeviceGetName", name_of(name.as_mut_ptr().cast(), 256, ordinal))?;
        check("hipDeviceTotalMem", memory_of(&raw mut memory, ordinal))?;
        check("hipDeviceGetPCIBusId", pci_of(pci.as_mut_ptr().cast(), 32, ordinal))?;
        check("hipGetDeviceProperties", properties_of(properties.as_mut_ptr().cast(), ordinal))?;
        std::slice::from_raw_parts(properties.as_ptr().cast::<u8>(), PROPERTIES)
    };
    Ok(json!({
        "name": text(&name),
        "arch": arch_in(bytes),
        "memory_bytes": memory,
        "pci": text(&pci).to_ascii_lowercase(),
    }))
}

/// The first `gfx…` in the properties, without feature flags such as `:xnack-`.
fn arch_in(properties: &[u8]) -> Option<String> {
    let start =
        properties.windows(4).position(|window| window.starts_with(b"gfx") && window[3].is_ascii_digit())?;
    let name = properties[start..].iter().take_while(|byte| byte.is_ascii_alphanumeric());
    Some(name.map(|byte| char::from(*byte)).collect())
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    let meaning = match status {
        0 => return Ok(()),
        3 => "the runtime is not initialised",
        35 => "the kernel driver is older than the runtime",
        100 => "no AMD device is visible",
        101 => "no such device; see HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES",
        209 => "no kernel image for this device",
        _ => "see HIP's error codes",
    };
    Err(format!("{call} returned {status}: {meaning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_found_at_any_offset() {
        let mut properties = vec![0_u8; 512];
        properties[100..112].copy_from_slice(b"AMD gfx card");
        properties[300..319].copy_from_slice(b"gfx90a:sramecc+:xna");
        assert_eq!(arch_in(&properties).as_deref(), Some("gfx90a"));
        assert_eq!(arch_in(&[0; 16]), None);
    }
}
