//! Shared queries of the checks of this family.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{DriverFacts, Gpu, Vendor};
use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::matrix::{Readiness, Reason, Verdict};
use gpubuild_detect::toolkit::{Description, DeviceNode, Installation, ToolkitRuntime};
use gpubuild_host::{Os, ProbeStatus};
use serde_json::Value;

use super::codes::{self, CudaError};
use crate::DiagnosisCase;
use crate::signs::nvidia::NvidiaSigns;

/// Kernel modules of drivers that support CUDA.
const MODULES: [&str; 5] = ["nvidia", "nvidia-current", "nvgpu", "tegra", "dxgkrnl"];

/// A case with at least one NVIDIA GPU.
pub(in crate::checks) struct NvidiaView<'a> {
    pub(in crate::checks) case: &'a DiagnosisCase<'a>,
    pub(in crate::checks) signs: &'a NvidiaSigns,
    /// The NVIDIA GPUs, in the order of the verdict.
    pub(in crate::checks) gpus: Vec<&'a Gpu>,
}

impl<'a> NvidiaView<'a> {
    /// `None` without an NVIDIA GPU.
    pub(in crate::checks) fn new(case: &'a DiagnosisCase<'a>) -> Option<Self> {
        let devices = &case.matrix.verdict(Backend::Cuda).devices;
        let gpus: Vec<&Gpu> = devices.iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).collect();
        (!gpus.is_empty()).then_some(Self { case, signs: &case.signs.nvidia, gpus })
    }

    /// Like [`NvidiaView::new`], but only for Linux hosts that have their own driver: no container, no WSL.
    pub(super) fn of_linux_machine(case: &'a DiagnosisCase<'a>) -> Option<Self> {
        Self::new(case).filter(|view| {
            view.case.facts.platform.os == Os::Linux && !view.is_container() && view.case.facts.wsl.is_none()
        })
    }

    pub(in crate::checks) fn verdict(&self) -> &'a Verdict {
        self.case.matrix.verdict(Backend::Cuda)
    }

    pub(in crate::checks) fn is_container(&self) -> bool {
        self.case.facts.container.is_some()
    }

    /// The reason with this id among the run reasons of the verdict.
    pub(in crate::checks) fn reason(&self, id: DiagnosticId) -> Option<&'a Reason> {
        self.verdict().run_reasons.iter().find(|reason| reason.id == id)
    }

    /// The loaded kernel driver, if it supports CUDA.
    pub(super) fn kernel_driver(&self) -> Option<&'a DriverFacts> {
        self.case.facts.drivers.iter().find(|driver| MODULES.contains(&driver.module.as_str()))
    }

    pub(in crate::checks) fn is_loaded(&self) -> bool {
        self.kernel_driver().is_some()
    }

    /// The version of the loaded module; `None` if it is an override.
    pub(in crate::checks) fn kernel_version(&self) -> Option<&'a Version> {
        let fact = self.kernel_driver()?.version.as_ref()?;
        (fact.found_via != "override").then_some(&fact.value)
    }

    /// The version of the driver: of the loaded module, otherwise of the library or the sources on disk.
    pub(super) fn driver_version(&self) -> Option<Version> {
        let libraries = &self.signs.libraries;
        let on_disk = libraries.driver.as_ref().and_then(|copy| copy.version.clone());
        self.kernel_version().cloned().or(on_disk).or_else(|| {
            // The version in the path of a source: `/var/lib/dkms/nvidia/590.48.01`, `/usr/src/nvidia-590.48.01`.
            let versions = self.signs.kernels.sources.iter().filter_map(|source| {
                let name = source.file_name()?;
                let version: Version = name.strip_prefix("nvidia-").unwrap_or(name).parse().ok()?;
                (version.major() >= 100).then_some(version)
            });
            versions.max()
        })
    }

    /// The driver's branch, for names of packages: `550` for `550.54.14`.
    pub(in crate::checks) fn branch(&self) -> Option<String> {
        self.driver_version().map(|version| version.major().to_string())
    }

    /// The branch that the distribution's packages of the driver's branch install instead. `None` with a repository that has its own.
    pub(in crate::checks) fn replaced_by(&self) -> Option<u64> {
        let on_disk = self.signs.kernels.running.version.clone();
        let branch = self.driver_version().or(on_disk)?.major();
        let distro = &self.case.facts.distro.as_ref()?.value;
        let is_like = |id: &str| distro.id == id || distro.like.iter().any(|like| like == id);
        if self.signs.system.own_repository || self.is_container() || self.case.facts.wsl.is_some() {
            return None;
        }
        let rows = &self.description()?.compatibility.replaced;
        let row = rows.iter().find(|row| row.branches.contains(&branch) && is_like(&row.distribution))?;
        Some(row.by)
    }

    /// Adds the branch for names of packages. If the distribution has replaced it, libraries of that branch do not fit the module:
    /// adds the package of the complete driver, and selects the case `replaced`.
    pub(in crate::checks) fn with_branch(&self, draft: FindingDraft, replaced: &str) -> FindingDraft {
        let Some(branch) = self.branch() else { return draft };
        let draft = draft.value("branch", branch);
        let Some(next) = self.replaced_by() else { return draft };
        let flavour = self.kernel_driver().and_then(|driver| driver.flavour.as_deref());
        let is_open =
            flavour.map_or_else(|| self.signs.kernels.running.open == Some(true), |one| one == "open");
        let open = if is_open { "-open" } else { "" };
        draft
            .value("next", next.to_string())
            .value("package", format!("nvidia-driver-{next}{open}"))
            .case(replaced)
    }

    /// The driver's version and the first one that supports the GPUs, if it is older: of the loaded module, otherwise of that on disk.
    pub(super) fn too_old_for_gpus(&self) -> Option<(String, Version)> {
        let on_disk = self.signs.kernels.running.version.clone();
        let driver = self.kernel_version().cloned().or(on_disk).or_else(|| self.driver_version())?;
        let description = self.description()?;
        let firsts: Option<Vec<Version>> = self
            .archs()?
            .into_iter()
            .map(|arch| description.device_conflict(arch, Some(&driver), None)?.first.clone())
            .collect();
        Some((driver.to_string(), firsts?.into_iter().max()?))
    }

    /// The error of the CUDA probe, if it failed.
    pub(in crate::checks) fn cuda_error(&self) -> Option<CudaError> {
        codes::cuda_error(self.case.probes.get(&Backend::Cuda)?)
    }

    /// The CUDA error code of the failed probe.
    pub(in crate::checks) fn code(&self) -> Option<u32> {
        self.cuda_error()?.code
    }

    /// Whether the CUDA probe lists a device.
    pub(in crate::checks) fn works(&self) -> bool {
        self.answer().is_some_and(|answer| {
            answer.get("devices").and_then(Value::as_array).is_some_and(|devices| !devices.is_empty())
        })
    }

    /// Whether the CUDA probe lists no device.
    pub(super) fn shows_nothing(&self) -> bool {
        let none = self
            .answer()
            .is_some_and(|answer| answer.get("devices").and_then(Value::as_array).is_some_and(Vec::is_empty));
        none || matches!(self.code(), Some(100 | 101))
    }

    fn answer(&self) -> Option<Value> {
        let probe = self.case.probes.get(&Backend::Cuda)?;
        (probe.status == ProbeStatus::Ok).then(|| serde_json::from_str(&probe.answer).ok()).flatten()
    }

    /// The newest CUDA release that the driver supports: from the probe, otherwise from the table.
    pub(super) fn driver_cuda(&self) -> Option<(Version, Evidence)> {
        let reported = self.answer().and_then(|answer| answer.get("driver_version")?.as_u64());
        let reported = reported
            .or_else(|| self.cuda_error()?.driver_version)
            .filter(|number| (1000..100_000).contains(number));
        if let Some(number) = reported {
            let version = Version::of_cuda_number(number);
            let evidence = Evidence::new(EvidenceKind::Dlopen, "cuDriverGetVersion", number.to_string());
            return Some((version, evidence));
        }
        let driver = self.driver_version()?;
        let version = self.description()?.newest_for_driver(&driver)?.clone();
        let source = format!("driver {driver}");
        Some((version, Evidence::new(EvidenceKind::File, source, "from the table of driver branches")))
    }

    pub(super) fn description(&self) -> Option<&'a Description> {
        self.case.catalogue.for_backend(Backend::Cuda)
    }

    /// The toolkit that builds use.
    pub(super) fn toolkit(&self) -> Option<&'a Installation> {
        self.case.inventory.chosen(&self.description()?.id)
    }

    pub(in crate::checks) fn runtime(&self) -> Option<&'a ToolkitRuntime> {
        self.case.inventory.runtimes.get(&Backend::Cuda)
    }

    /// The expected device node with this path.
    pub(super) fn node(&self, path: &str) -> Option<&'a DeviceNode> {
        self.runtime()?.nodes.iter().find(|node| node.path.as_str() == path)
    }

    /// The architectures of all GPUs; `None` if one is unknown.
    pub(super) fn archs(&self) -> Option<Vec<&'a str>> {
        self.gpus.iter().map(|gpu| gpu.arch.as_deref()).collect()
    }

    /// Evidence of the first GPU.
    pub(in crate::checks) fn gpu_evidence(&self) -> Option<Evidence> {
        self.gpus.first()?.evidence.first().cloned()
    }

    /// A draft with the first GPU as its first evidence.
    pub(in crate::checks) fn draft(&self, id: DiagnosticId) -> FindingDraft {
        let draft = FindingDraft::new(id).backend(Backend::Cuda);
        self.gpu_evidence().into_iter().fold(draft, FindingDraft::evidence)
    }

    /// Whether another vendor's GPU works, and CUDA is neither requested nor installed. Problems of the NVIDIA GPU matter less then.
    pub(super) fn is_secondary(&self) -> bool {
        let is_requested = self.case.asked.is_some_and(|asked| asked.contains(&Backend::Cuda));
        let other = |backend: Backend, vendor: Vendor| {
            let verdict = self.case.matrix.verdict(backend);
            verdict.run == Readiness::Ready
                && verdict.devices.iter().any(|gpu| gpu.vendor == vendor && gpu.integrated != Some(true))
        };
        let works = other(Backend::Rocm, Vendor::Amd) || other(Backend::Sycl, Vendor::Intel);
        !is_requested && works && self.toolkit().is_none()
    }
}
