//! Probe for Vulkan: physical devices through the loader.

use ash::vk;
use serde_json::{Value, json};

/// Returns `{api_version, devices: [{name, type, vendor_id, device_id, driver_id, driver_name, driver_info, api_version,
/// memory_bytes}]}`.
pub(super) fn query() -> Result<Value, String> {
    // SAFETY: the loader's initialisers run in this child process.
    let entry = unsafe { ash::Entry::load() }
        .map_err(|error| format!("failed to open the Vulkan loader: {error}"))?;
    // SAFETY: the entry is loaded.
    let api = unsafe { entry.try_enumerate_instance_version() }
        .map_err(|error| format!("vkEnumerateInstanceVersion returned {error}"))?
        .unwrap_or(vk::API_VERSION_1_0);
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1.min(api));
    let create = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures outlive the call.
    let instance = unsafe { entry.create_instance(&create, None) }.map_err(|error| match error {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            "vkCreateInstance returned -9: no Vulkan driver (ICD) is installed, or none could be opened"
                .to_owned()
        }
        other => format!("vkCreateInstance returned {other}"),
    })?;
    // SAFETY: the instance is valid. It is not destroyed, because the process ends immediately.
    let physical = unsafe { instance.enumerate_physical_devices() }
        .map_err(|error| format!("vkEnumeratePhysicalDevices returned {error}"))?;
    let devices: Vec<Value> = physical.into_iter().map(|device| describe(&instance, device)).collect();
    Ok(json!({ "api_version": version(api), "devices": devices }))
}

fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> Value {
    // SAFETY: the device belongs to this instance.
    let (basic, memory) = unsafe {
        (
            instance.get_physical_device_properties(device),
            instance.get_physical_device_memory_properties(device),
        )
    };
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    // Driver properties are part of Vulkan 1.2; for older devices they stay zero.
    if basic.api_version >= vk::API_VERSION_1_2 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the chain outlives the call, and the device belongs to this instance.
        unsafe { instance.get_physical_device_properties2(device, &mut all) };
    }
    let local: u64 = memory
        .memory_heaps_as_slice()
        .iter()
        .filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .map(|heap| heap.size)
        .sum();
    let text = |name: Result<&std::ffi::CStr, _>| {
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    json!({
        "name": text(basic.device_name_as_c_str()),
        "type": match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => "discrete-gpu",
            vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated-gpu",
            vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual-gpu",
            vk::PhysicalDeviceType::CPU => "cpu",
            _ => "other",
        },
        "vendor_id": basic.vendor_id,
        "device_id": basic.device_id,
        "driver_id": driver.driver_id.as_raw(),
        "driver_name": text(driver.driver_name_as_c_str()),
        "driver_info": text(driver.driver_info_as_c_str()),
        "api_version": version(basic.api_version),
        "memory_bytes": local,
    })
}

fn version(packed: u32) -> String {
    let (major, minor, patch) =
        (vk::api_version_major(packed), vk::api_version_minor(packed), vk::api_version_patch(packed));
    format!("{major}.{minor}.{patch}")
}
