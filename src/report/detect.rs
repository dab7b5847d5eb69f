//! The document of `gpubuild detect`: the machine and its verdicts.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::matrix::{Matrix, Presence, Readiness, Reason, Verdict};
use gpubuild_detect::toolkit::description::ToolkitKind;
use gpubuild_detect::toolkit::{Catalogue, Installation, Inventory};
use serde::Serialize;

use super::Schema;

/// The document of `detect --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DetectReport {
    pub(super) schema: Schema,
    /// The machine.
    pub(super) host: HostReport,
    /// The verdict for each backend.
    pub(super) backends: Vec<BackendEntry>,
    /// Tools that builds use, such as CMake, Ninja and host compilers.
    pub(super) tools: Vec<ToolkitReport>,
    /// The recommended backends.
    pub(super) recommended: Recommended,
    /// Observations that `GPUBUILD_SET` or a variable of another tool replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<OverrideReport>,
}

/// A machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostReport {
    /// Operating system: `linux`, `windows`, `macos`.
    pub(super) os: &'static str,
    /// Architecture: `x86_64`, `aarch64`.
    pub(super) arch: &'static str,
    /// Distribution or release of the operating system: `debian-12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) distro: Option<String>,
    /// Release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<String>,
    /// C library: `glibc-2.36`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) libc: Option<String>,
    /// Whether gpubuild runs in a container.
    pub(super) container: bool,
    /// Kind of the container: `docker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container_kind: Option<String>,
    /// Whether it is the Windows Subsystem for Linux.
    pub(super) wsl: bool,
    /// The processor.
    pub(super) cpu: CpuReport,
    /// Total memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
}

/// A processor.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CpuReport {
    /// Model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Number of threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<u32>,
    /// Processor level: `x86-64-v3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<String>,
    /// Instruction sets: `avx2`, `fma`.
    pub(super) features: Vec<String>,
}

/// A backend and its verdict.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendEntry {
    /// Id of the backend.
    pub(super) id: Backend,
    /// Whether the machine has hardware for it.
    pub(super) hardware: HardwareColumn,
    /// Whether it can be built.
    pub(super) build: BuildColumn,
    /// Whether programs with it can run.
    pub(super) run: RunColumn,
}

/// Hardware of a backend.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HardwareColumn {
    /// Whether it is present.
    pub(super) state: Presence,
    /// The devices.
    pub(super) devices: Vec<DeviceReport>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

/// Whether a backend can be built.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BuildColumn {
    /// The verdict.
    pub(super) state: Readiness,
    /// The installed copies of its toolkits.
    pub(super) toolkits: Vec<ToolkitReport>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

/// Whether programs with a backend can run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RunColumn {
    /// The verdict.
    pub(super) state: Readiness,
    /// Version of the driver, as the vendor writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

/// Reasons of a verdict that is not positive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReasonReport {
    /// The reasons, one line each, ending with the finding's id.
    pub(super) reasons: Vec<String>,
    /// The ids of their findings, in the same order.
    pub(super) findings: Vec<DiagnosticId>,
    /// How to resolve them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hints: Vec<String>,
}

/// A device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeviceReport {
    /// Name of the device.
    pub(super) name: String,
    /// Vendor: `nvidia`, `amd`, `intel`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) vendor: Vendor,
    /// PCI address: `0000:c1:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pci: Option<String>,
    /// Architecture: `sm_90`, `gfx942`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arch: Option<String>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
    /// Whether it shares memory with the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) integrated: Option<bool>,
    /// Kernel module that drives it: `amdgpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel_driver: Option<String>,
    /// UUID that the vendor's driver reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uuid: Option<String>,
    /// Where it was found: `sysfs`, a driver's library.
    pub(super) found_via: Vec<String>,
}

/// An installed copy of a toolkit or tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolkitReport {
    /// Id of the toolkit.
    pub(super) toolkit: String,
    /// Version, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// Its root folder.
    pub(super) root: String,
    /// Its program, for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// Where it was found: `env:CUDA_PATH`.
    pub(super) found_via: Vec<String>,
    /// Whether builds use this copy.
    pub(super) chosen: bool,
    /// Why builds use this copy, or why not.
    pub(super) reason: String,
    /// Required parts that it lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

/// The recommended backends.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Recommended {
    /// The backend to run programs with.
    pub(super) run: Backend,
    /// The backends to build: `cpu` and every other that can be built.
    pub(super) build: Vec<Backend>,
}

/// A value that replaces an observation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OverrideReport {
    /// Name of the observation.
    pub(super) key: String,
    /// The value that replaces it.
    pub(super) value: String,
    /// The variable that sets it.
    pub(super) origin: String,
}

impl DetectReport {
    /// The document of a machine, limited to these backends.
    #[must_use]
    pub fn new(
        facts: &Facts,
        inventory: &Inventory,
        catalogue: &Catalogue,
        matrix: &Matrix,
        backends: &[Backend],
    ) -> Self {
        let wanted = |verdict: &&Verdict| backends.contains(&verdict.backend);
        let is_tool = |id: &str| catalogue.get(id).is_some_and(|one| one.kind == ToolkitKind::Tool);
        let tools = inventory.installations.iter().filter(|(id, _)| is_tool(id));
        Self {
            schema: Schema { name: "detect", version: 1 },
            host: HostReport::new(facts),
            backends: backend_entries(matrix.verdicts.iter().filter(wanted)),
            tools: tools.flat_map(|(_, copies)| copies).map(ToolkitReport::new).collect(),
            recommended: Recommended::new(matrix),
            overrides: facts
                .overrides
                .iter()
                .map(|one| OverrideReport {
                    key: one.key.clone(),
                    value: one.value.clone(),
                    origin: one.origin.clone(),
                })
                .collect(),
        }
    }
}

/// The entries of the backends, the same in every document.
pub fn backend_entries<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Vec<BackendEntry> {
    verdicts.map(BackendEntry::new).collect()
}

impl HostReport {
    /// The description of a machine, the same in every document.
    #[must_use]
    pub fn new(facts: &Facts) -> Self {
        Self {
            os: facts.platform.os.id(),
            arch: facts.platform.arch.id(),
            distro: facts.distro.as_ref().map(|fact| fact.value.label()),
            kernel: facts.kernel.as_ref().map(|fact| fact.value.clone()),
            libc: facts.libc.as_ref().map(|fact| fact.value.label()),
            container: facts.container.is_some(),
            container_kind: facts.container.as_ref().map(|fact| fact.value.clone()),
            wsl: facts.wsl.is_some(),
            cpu: CpuReport {
                name: facts.cpu.name.clone(),
                threads: facts.cpu.threads,
                level: facts.cpu.level.clone(),
                features: facts.cpu.features.clone(),
            },
            memory_bytes: facts.memory.total_bytes,
        }
    }
}

impl Recommended {
    /// The recommendation of the matrix.
    #[must_use]
    pub fn new(matrix: &Matrix) -> Self {
        Self { run: matrix.recommended_run, build: matrix.recommended_build.clone() }
    }
}

impl BackendEntry {
    fn new(verdict: &Verdict) -> Self {
        Self {
            id: verdict.backend,
            hardware: HardwareColumn {
                state: verdict.hardware,
                devices: verdict.devices.iter().map(DeviceReport::new).collect(),
                why: ReasonReport::new(&verdict.hardware_reasons),
            },
            build: BuildColumn {
                state: verdict.build,
                toolkits: verdict.toolkits.iter().map(ToolkitReport::new).collect(),
                why: ReasonReport::new(&verdict.build_reasons),
            },
            run: RunColumn {
                state: verdict.run,
                driver: verdict.driver.as_ref().map(ToString::to_string),
                why: ReasonReport::new(&verdict.run_reasons),
            },
        }
    }
}

impl ReasonReport {
    fn new(reasons: &[Reason]) -> Self {
        Self {
            reasons: reasons.iter().map(|reason| format!("{} [{}]", reason.text, reason.id)).collect(),
            findings: reasons.iter().map(|reason| reason.id).collect(),
            hints: reasons.iter().filter_map(|reason| reason.hint.clone()).collect(),
        }
    }
}

impl DeviceReport {
    fn new(gpu: &Gpu) -> Self {
        Self {
            name: gpu.name.clone(),
            vendor: gpu.vendor,
            pci: gpu.pci.clone(),
            arch: gpu.arch.clone(),
            memory_bytes: gpu.memory_bytes,
            integrated: gpu.integrated,
            kernel_driver: gpu.kernel_driver.clone(),
            uuid: gpu.uuid.clone(),
            found_via: gpu.found_via.clone(),
        }
    }
}

impl ToolkitReport {
    fn new(copy: &Installation) -> Self {
        Self {
            toolkit: copy.toolkit.clone(),
            version: copy.version().map(ToString::to_string),
            root: copy.root.to_string(),
            program: copy.part("program").map(ToString::to_string),
            found_via: copy.found_via.clone(),
            chosen: copy.chosen,
            reason: copy.reason.clone(),
            missing: copy.missing_parts().into_iter().map(str::to_owned).collect(),
        }
    }
}
