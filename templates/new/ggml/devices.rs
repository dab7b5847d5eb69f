//! The compute devices of ggml, and the choice of one.

use std::fmt;

use crate::{sys, text};

/// The backends that gpubuild built into this program.
pub fn backends() -> Vec<&'static str> {
    let all = [
        ("cpu", cfg!(gpubuild_backend = "cpu")),
        ("cuda", cfg!(gpubuild_backend = "cuda")),
        ("rocm", cfg!(gpubuild_backend = "rocm")),
        ("metal", cfg!(gpubuild_backend = "metal")),
        ("vulkan", cfg!(gpubuild_backend = "vulkan")),
        ("sycl", cfg!(gpubuild_backend = "sycl")),
        ("opencl", cfg!(gpubuild_backend = "opencl")),
    ];
    all.into_iter()
        .filter_map(|(id, built)| built.then_some(id))
        .collect()
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A GPU with its own memory.
    Gpu,
    /// A GPU that shares the memory of the CPU.
    IntegratedGpu,
    /// The CPU.
    Cpu,
    /// A library or unit that helps the CPU, such as BLAS.
    Accelerator,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpu => "GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::Cpu => "CPU",
            Self::Accelerator => "accelerator",
        })
    }
}

/// A compute device.
#[derive(Debug, Clone)]
pub struct Device {
    /// Short name, such as `CPU`, `CUDA0` or `Vulkan0`.
    pub name: String,
    /// Human-readable description.
    pub description: String,
    /// The backend, as gpubuild names it: `vulkan`.
    pub backend: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Free memory in bytes, as its driver reports it.
    pub free_bytes: usize,
    /// The device as the library names it.
    pub(crate) handle: sys::ggml_backend_dev_t,
}

impl Device {
    /// Whether it is a GPU of either kind.
    pub fn is_gpu(&self) -> bool {
        matches!(self.kind, DeviceKind::Gpu | DeviceKind::IntegratedGpu)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.free_bytes >> 20;
        write!(
            f,
            "{}: {}, {}, {mib} MiB free",
            self.name, self.kind, self.description
        )
    }
}

/// All devices of the built backends.
pub fn devices() -> Vec<Device> {
    // SAFETY: the first call registers the devices; indices below the count are valid, and the texts are static.
    unsafe {
        (0..sys::ggml_backend_dev_count())
            .map(|index| {
                let handle = sys::ggml_backend_dev_get(index);
                let (mut free_bytes, mut total) = (0, 0);
                sys::ggml_backend_dev_memory(handle, &mut free_bytes, &mut total);
                let registry = sys::ggml_backend_dev_backend_reg(handle);
                let backend = text(sys::ggml_backend_reg_name(registry)).to_ascii_lowercase();
                let kind = match sys::ggml_backend_dev_type(handle) {
                    sys::ggml_backend_dev_type_GGML_BACKEND_DEVICE_TYPE_GPU => DeviceKind::Gpu,
                    sys::ggml_backend_dev_type_GGML_BACKEND_DEVICE_TYPE_IGPU => {
                        DeviceKind::IntegratedGpu
                    }
                    sys::ggml_backend_dev_type_GGML_BACKEND_DEVICE_TYPE_CPU => DeviceKind::Cpu,
                    _ => DeviceKind::Accelerator,
                };
                Device {
                    name: text(sys::ggml_backend_dev_name(handle)),
                    description: text(sys::ggml_backend_dev_description(handle)),
                    backend: if backend == "mtl" {
                        "metal".to_owned()
                    } else {
                        backend
                    },
                    kind,
                    free_bytes,
                    handle,
                }
            })
            .collect()
    }
}

/// Chooses the device for `auto`, the name of a device or a backend, and says why.
///
/// # Errors
/// No device has this name.
pub fn choose(devices: &[Device], wanted: &str) -> Result<(Device, String), String> {
    if wanted == "auto" {
        let usable = devices
            .iter()
            .filter(|device| device.kind != DeviceKind::Accelerator);
        let best = usable
            .min_by_key(|device| device.kind)
            .ok_or("there is no device")?;
        let reason = match best.kind {
            DeviceKind::Cpu => format!("no GPU was found; built in: {}", backends().join(", ")),
            kind => format!("the first {kind}"),
        };
        return Ok((best.clone(), reason));
    }
    let lower = wanted.to_ascii_lowercase();
    // A backend stands for its first device.
    let named =
        |device: &&Device| device.name.eq_ignore_ascii_case(wanted) || device.backend == lower;
    if let Some(device) = devices.iter().find(named) {
        return Ok((device.clone(), format!("`{wanted}` was requested")));
    }
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let why = if backends().contains(&lower.as_str()) {
        "its backend is built in, but the driver reports no device".to_owned()
    } else {
        format!("built in: {}", backends().join(", "))
    };
    Err(format!(
        "no device `{wanted}`: {why}; devices: {}",
        names.join(", ")
    ))
}
