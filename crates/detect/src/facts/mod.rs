//! What is observed of a host, each thing with its evidence. Absent is a value, not an error.
//!
//! Every module is a pair: a thin `probe_*` that fetches bytes through the [`Host`], and pure
//! `parse_*` functions that decide. Nothing here starts a process; `probe` documents what the child probes answer.

mod cgroup;
mod container;
mod cpu;
mod gpu;
mod libc;
mod os;
pub mod overrides;
#[cfg(test)]
mod recording_tests;

use gpubuild_core::version::Version;
use gpubuild_host::{Host, Platform};
use serde::{Deserialize, Serialize};

use crate::finding::Evidence;

/// Looks at a host: files, registry and environment. Starts no process and opens no driver.
#[must_use]
pub fn gather(host: &dyn Host) -> Facts {
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
    };
    overrides::apply(&mut facts);
    facts
}

/// A text file without the white space and NULs around its content; `None` if it is absent or empty.
fn trimmed(host: &dyn Host, path: &str) -> Option<String> {
    let text = host.read_text(&host.path(path)).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// A value with where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact<T> {
    /// What was found.
    pub value: T,
    /// How, in one word for people: `sysfs`, `env:CUDA_PATH`, `registry`, `override`, `probe`.
    pub found_via: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
}

/// All facts about a host that need no toolkit description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Operating system and architecture.
    pub platform: Platform,
    /// Distribution or OS release: `debian-12`, `windows-11`, `macos-15.1`.
    pub distro: Option<Fact<Distro>>,
    /// Kernel release, `6.1.0-30-amd64`.
    pub kernel: Option<Fact<String>>,
    /// C library.
    pub libc: Option<Fact<Libc>>,
    /// Processor.
    pub cpu: Cpu,
    /// Memory in bytes.
    pub memory: Memory,
    /// Container marker: `docker`, `podman`, `kubernetes`, `lxc`, `singularity`, `other`.
    pub container: Option<Fact<String>>,
    /// WSL version, 1 or 2.
    pub wsl: Option<Fact<u32>>,
    /// Every GPU, in the order of their PCI addresses; real cards and what a probe added.
    pub gpus: Vec<Gpu>,
    /// Kernel drivers by vendor.
    pub drivers: Vec<Driver>,
    /// Overrides of `GPUBUILD_SET` and the ecosystem's variables that were taken into account.
    pub overrides: Vec<Override>,
}

/// A distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Distro {
    /// `ID` of os-release: `debian`, `ubuntu`, `fedora`, `arch`; `windows`, `macos`.
    pub id: String,
    /// `VERSION_ID`, empty for rolling ones.
    pub version: String,
    /// `ID_LIKE`, nearest first.
    pub like: Vec<String>,
    /// `PRETTY_NAME`.
    pub name: String,
}

impl Distro {
    /// `debian-12`, or `arch` without a version.
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
    /// Its version, where known.
    pub version: Option<Version>,
}

impl Libc {
    /// `glibc-2.36`.
    #[must_use]
    pub fn label(&self) -> String {
        self.version.as_ref().map_or_else(|| self.family.clone(), |v| format!("{}-{v}", self.family))
    }
}

/// A processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Model name as the system writes it.
    pub name: Option<String>,
    /// Logical processors that this process may use.
    pub threads: Option<u32>,
    /// x86-64 level: `x86-64-v1` to `x86-64-v4`; on ARM `armv8-a`.
    pub level: Option<String>,
    /// Features that kernels care about, sorted: `avx2`, `avx512_vnni`, `f16c`, `sve`.
    pub features: Vec<String>,
    /// Where these came from.
    pub evidence: Vec<Evidence>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Installed, or the control group's limit if that is smaller.
    pub total_bytes: Option<u64>,
    /// Available now, within that limit.
    pub available_bytes: Option<u64>,
}

/// Makers of GPUs that have a backend, and the rest.
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
    /// A virtual display without compute: QEMU, VMware, Hyper-V.
    Virtual,
    /// A device that runs on the processor: llvmpipe, `PoCL`.
    Software,
    /// Anybody else.
    Other,
}

impl Vendor {
    /// The name for people.
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

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Who made it.
    pub vendor: Vendor,
    /// Its name; `NVIDIA GPU 10de:2335` where only the ids are known.
    pub name: String,
    /// PCI address `0000:c1:00.0`.
    pub pci: Option<String>,
    /// PCI vendor and device id.
    pub ids: Option<(u16, u16)>,
    /// Kernel driver bound to it: `nvidia`, `nouveau`, `amdgpu`, `i915`, `xe`, `vfio-pci`.
    pub kernel_driver: Option<String>,
    /// `sm_90` or `gfx942`.
    pub arch: Option<String>,
    /// Device memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Shares memory with the processor, where known.
    pub integrated: Option<bool>,
    /// UUID as its driver writes it.
    pub uuid: Option<String>,
    /// How it was found: `sysfs`, `kfd`, `registry`, `probe:cuda`, `override`.
    pub found_via: Vec<String>,
    /// What this rests on.
    pub evidence: Vec<Evidence>,
}

impl Gpu {
    /// A GPU of which only the maker is known.
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

/// A kernel driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Driver {
    /// Whose.
    pub vendor: Vendor,
    /// Module name: `nvidia`, `amdgpu`, `i915`, `xe`.
    pub module: String,
    /// Its version as the vendor writes it, where it tells one.
    pub version: Option<Fact<Version>>,
    /// `open` or `proprietary`, where known (NVIDIA).
    pub flavour: Option<String>,
}

/// A value that the user set in place of an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Override {
    /// `cuda.driver`, `cuda.cc`, `rocm.gfx`.
    pub key: String,
    /// The value.
    pub value: String,
    /// The variable it came from.
    pub origin: String,
}
