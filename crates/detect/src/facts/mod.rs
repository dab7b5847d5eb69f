//! Observations of a host, each with its evidence. Absent is a value, not an error.
//!
//! Every module has thin `probe_*` functions, which read bytes through the host, and pure `parse_*` functions, which interpret them.
//! Nothing here starts a process.

mod cgroup;
mod container;
mod cpu;
mod gpu;
mod libc;
mod os;
pub mod overrides;
#[cfg(test)]
mod recording_tests;
pub mod systems;
pub mod variables;
pub mod visible;
pub mod windows_sdk;

use gpubuild_core::version::Version;
use gpubuild_host::{InspectHost, Os, Platform, ReadFiles};
use serde::{Deserialize, Serialize};

use crate::finding::Evidence;

/// Whether a list of operating systems contains `os`. An empty list contains all.
#[must_use]
pub fn is_on(list: &[Os], os: Os) -> bool {
    list.is_empty() || list.contains(&os)
}

/// The C library and its version.
#[must_use]
pub fn libc(host: &dyn InspectHost) -> Option<Libc> {
    libc::probe(host).map(|fact| fact.value)
}

/// Gathers facts from files, registry and environment. Starts no process and loads no driver library.
#[must_use]
pub fn gather(host: &dyn InspectHost) -> Facts {
    let limits = cgroup::probe(host);
    let kernel = os::probe_kernel(host);
    let wsl = container::probe_wsl(host, kernel.as_ref().map(|kernel| kernel.value.as_str()));
    let (gpus, drivers) = gpu::probe(host);
    let mut facts = Facts {
        platform: host.platform(),
        distro: os::probe_distro(host),
        kernel,
        libc: libc::probe(host),
        cpu: cpu::probe(host, &limits),
        memory: cpu::probe_memory(host, &limits),
        container: container::probe_container(host),
        wsl,
        gpus,
        drivers,
        overrides: overrides::gather(host.env()),
        variables: variables::probe(host),
        system: systems::probe(host),
        windows_sdk: windows_sdk::probe(host),
        is_root: host.identity().uid == Some(0),
    };
    overrides::apply(&mut facts);
    facts
}

/// Reads a text file without surrounding whitespace and NULs. `None` if it is missing or empty.
fn trimmed(host: &dyn ReadFiles, path: &str) -> Option<String> {
    let text = host.read_text(&host.path(path)).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact<T> {
    /// The observed value.
    pub value: T,
    /// A short name of the source: `sysfs`, `env:CUDA_PATH`, `registry`, `override`, `probe`.
    pub found_via: String,
    /// The observations that the value is based on.
    pub evidence: Vec<Evidence>,
}

/// All facts about a host that do not depend on toolkit descriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Operating system and architecture.
    pub platform: Platform,
    /// Distribution or OS release: `debian-12`, `windows-11`, `macos-15.1`.
    pub distro: Option<Fact<Distro>>,
    /// Kernel release, `6.1.0-30-amd64`.
    pub kernel: Option<Fact<String>>,
    /// The C library.
    pub libc: Option<Fact<Libc>>,
    /// The CPU.
    pub cpu: CpuFacts,
    /// Memory of the machine, or of the control group.
    pub memory: Memory,
    /// The kind of container: `docker`, `podman`, `kubernetes`, `lxc`, `singularity`, `other`.
    pub container: Option<Fact<String>>,
    /// The WSL version, 1 or 2.
    pub wsl: Option<Fact<u32>>,
    /// All GPUs, ordered by PCI address.
    pub gpus: Vec<Gpu>,
    /// Kernel drivers by vendor.
    pub drivers: Vec<DriverFacts>,
    /// Overrides from `GPUBUILD_SET` and from variables of other tools.
    pub overrides: Vec<EnvironmentOverride>,
    /// Variables whose value leads nowhere.
    pub variables: Vec<variables::WrongVariable>,
    /// The system, if it is an image or declared by a configuration.
    pub system: Option<&'static systems::ImageSystem>,
    /// The newest Windows SDK.
    pub windows_sdk: Option<Fact<windows_sdk::WindowsSdk>>,
    /// Whether the user is root and does not need `sudo`.
    pub is_root: bool,
}

/// A Linux distribution, or a release of another operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Distro {
    /// `ID` of os-release: `debian`, `ubuntu`, `fedora`, `arch`; `windows`, `macos`.
    pub id: String,
    /// `VERSION_ID`; empty for rolling releases.
    pub version: String,
    /// `ID_LIKE`: distributions that it derives from, the closest first.
    pub like: Vec<String>,
    /// `PRETTY_NAME`.
    pub name: String,
}

impl Distro {
    /// Id and version, such as `debian-12`, or only the id, such as `arch`, if it has no version.
    #[must_use]
    pub fn label(&self) -> String {
        if self.version.is_empty() { self.id.clone() } else { format!("{}-{}", self.id, self.version) }
    }
}

/// A C library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Libc {
    /// `glibc`, `musl`, `bionic`, `msvcrt`, `libsystem`.
    pub family: String,
    /// Its version, if known.
    pub version: Option<Version>,
}

impl Libc {
    /// Family and version: `glibc-2.36`.
    #[must_use]
    pub fn label(&self) -> String {
        self.version.as_ref().map_or_else(|| self.family.clone(), |v| format!("{}-{v}", self.family))
    }
}

/// The CPU as this process can use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuFacts {
    /// The model name as reported by the system.
    pub name: Option<String>,
    /// Logical processors that this process may use.
    pub threads: Option<u32>,
    /// x86-64 level: `x86-64-v1` to `x86-64-v4`; on ARM `armv8-a`.
    pub level: Option<String>,
    /// Features that compute kernels use, sorted: `avx2`, `avx512_vnni`, `f16c`, `sve`.
    pub features: Vec<String>,
    /// The observations that these values are based on.
    pub evidence: Vec<Evidence>,
}

/// Memory in bytes, limited by the control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Installed memory, or the control group's limit if that is smaller.
    pub total_bytes: Option<u64>,
    /// Currently available memory, within that limit.
    pub available_bytes: Option<u64>,
}

/// The vendor of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Apple.
    Apple,
    /// Qualcomm.
    Qualcomm,
    /// A virtual display without compute support: QEMU, VMware, Hyper-V.
    Virtual,
    /// A software device, which runs on the CPU: llvmpipe, `PoCL`.
    Software,
    /// Any other vendor.
    Other,
}

impl Vendor {
    /// The display name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Intel => "Intel",
            Self::Apple => "Apple",
            Self::Qualcomm => "Qualcomm",
            Self::Virtual => "virtual",
            Self::Software => "software",
            Self::Other => "other",
        }
    }
}

/// A GPU, or a software device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// The vendor.
    pub vendor: Vendor,
    /// Its name, or `NVIDIA GPU 10de:2335` if only the ids are known.
    pub name: String,
    /// PCI address: `0000:c1:00.0`.
    pub pci: Option<String>,
    /// PCI vendor and device id.
    pub ids: Option<(u16, u16)>,
    /// The kernel driver that it is bound to: `nvidia`, `nouveau`, `amdgpu`, `i915`, `xe`, `vfio-pci`.
    pub kernel_driver: Option<String>,
    /// The architecture: `sm_90`, `gfx942`.
    pub arch: Option<String>,
    /// Device memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether it shares memory with the CPU, if known.
    pub integrated: Option<bool>,
    /// UUID as the driver formats it.
    pub uuid: Option<String>,
    /// The sources: `sysfs`, `kfd`, `registry`, `probe:cuda`, `override`.
    pub found_via: Vec<String>,
    /// The observations that these values are based on.
    pub evidence: Vec<Evidence>,
}

impl Gpu {
    /// The first release of Linux that drives it without a parameter, if that is known.
    #[must_use]
    pub fn first_kernel(&self) -> Option<Version> {
        gpu::names::series(self.vendor, self.ids?)?.kernel.as_ref()?.parse().ok()
    }

    /// Whether the vendor's compute driver no longer supports it.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.ids.and_then(|ids| gpu::names::series(self.vendor, ids)).is_some_and(|series| series.legacy)
    }

    /// Creates a GPU of which only the vendor is known.
    #[must_use]
    pub fn unknown(vendor: Vendor) -> Self {
        Self {
            vendor,
            name: String::new(),
            pci: None,
            ids: None,
            kernel_driver: None,
            arch: None,
            memory_bytes: None,
            integrated: None,
            uuid: None,
            found_via: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

/// A loaded or installed kernel driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverFacts {
    /// The vendor.
    pub vendor: Vendor,
    /// The module's name: `nvidia`, `amdgpu`, `i915`, `xe`.
    pub module: String,
    /// The version as the vendor writes it, if the driver reports one.
    pub version: Option<Fact<Version>>,
    /// `open` or `proprietary`, if known. Only for NVIDIA.
    pub flavour: Option<String>,
}

/// A value from a variable that replaces an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvironmentOverride {
    /// The key: `cuda.driver`, `cuda.cc`, `rocm.gfx`.
    pub key: String,
    /// The value; `10.3.0` in `HSA_OVERRIDE_GFX_VERSION` becomes `gfx1030`.
    pub value: String,
    /// The name of the variable.
    pub origin: String,
}
