//! Probe for Apple: Metal devices.

use objc2_metal::{MTLCopyAllDevices, MTLDevice, MTLGPUFamily};
use serde_json::{Value, json};

const FAMILIES: [(&str, MTLGPUFamily); 7] = [
    ("apple7", MTLGPUFamily::Apple7),
    ("apple8", MTLGPUFamily::Apple8),
    ("apple9", MTLGPUFamily::Apple9),
    ("common2", MTLGPUFamily::Common2),
    ("common3", MTLGPUFamily::Common3),
    ("mac2", MTLGPUFamily::Mac2),
    ("metal3", MTLGPUFamily::Metal3),
];

/// Returns `{devices: [{name, families, unified_memory, memory_bytes}]}`, with Metal's recommended maximum as memory size.
#[expect(clippy::unnecessary_wraps, reason = "every probe has this signature")]
pub(super) fn query() -> Result<Value, String> {
    let devices: Vec<Value> = MTLCopyAllDevices()
        .iter()
        .map(|device| {
            let families: Vec<&str> = FAMILIES
                .iter()
                .filter(|(_, family)| device.supportsFamily(*family))
                .map(|(name, _)| *name)
                .collect();
            json!({
                "name": device.name().to_string(),
                "families": families,
                "unified_memory": device.hasUnifiedMemory(),
                "memory_bytes": device.recommendedMaxWorkingSetSize(),
            })
        })
        .collect();
    Ok(json!({ "devices": devices }))
}
