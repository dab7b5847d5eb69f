//! What the checks of this family ask of a case again and again.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{DriverFacts, Gpu, Vendor};
use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::matrix::{Readiness, Reason, Verdict};
use gpubuild_detect::toolkit::{Description, DeviceNode, Installation, ToolkitRuntime};
use gpubuild_host::{Os, ProbeStatus};
use serde_json::Value;

use super::codes::{self, Said};
use crate::DiagnosisCase;
use crate::signs::nvidia::NvidiaSigns;

/// Modules of a driver that has CUDA.
const MODULES: [&str; 5] = ["nvidia", "nvidia-current", "nvgpu", "tegra", "dxgkrnl"];

/// A machine with a card of NVIDIA.
pub(in crate::checks) struct View<'a> {
    pub(in crate::checks) case: &'a DiagnosisCase<'a>,
    pub(in crate::checks) signs: &'a NvidiaSigns,
    /// The cards, as they stand in the verdict.
    pub(in crate::checks) cards: Vec<&'a Gpu>,
}

impl<'a> View<'a> {
    /// `None` where there is no such card.
    pub(in crate::checks) fn new(case: &'a DiagnosisCase<'a>) -> Option<Self> {
        let devices = &case.matrix.verdict(Backend::Cuda).devices;
        let cards: Vec<&Gpu> = devices.iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).collect();
        (!cards.is_empty()).then_some(Self { case, signs: &case.signs.nvidia, cards })
    }

    /// The same where drivers are installed: no container, no WSL.
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

    /// A reason of the verdict on running.
    pub(in crate::checks) fn reason(&self, id: DiagnosticId) -> Option<&'a Reason> {
        self.verdict().run_reasons.iter().find(|reason| reason.id == id)
    }

    /// The kernel driver, if one that has CUDA is loaded.
    pub(super) fn kernel_driver(&self) -> Option<&'a DriverFacts> {
        self.case.facts.drivers.iter().find(|driver| MODULES.contains(&driver.module.as_str()))
    }

    pub(in crate::checks) fn is_loaded(&self) -> bool {
        self.kernel_driver().is_some()
    }

    /// The version of the loaded module.
    pub(super) fn kernel_version(&self) -> Option<&'a Version> {
        let fact = self.kernel_driver()?.version.as_ref()?;
        (fact.found_via != "override").then_some(&fact.value)
    }

    /// The version of the driver, loaded or only on disk.
    pub(super) fn driver_version(&self) -> Option<Version> {
        let libraries = &self.signs.libraries;
        let on_disk = libraries.driver.as_ref().and_then(|copy| copy.version.clone());
        self.kernel_version().cloned().or(on_disk).or_else(|| {
            // The folder of a source: `/var/lib/dkms/nvidia/590.48.01`, `/usr/src/nvidia-590.48.01`.
            let versions = self.signs.kernels.sources.iter().filter_map(|source| {
                let name = source.file_name()?;
                let version: Version = name.strip_prefix("nvidia-").unwrap_or(name).parse().ok()?;
                (version.major() >= 100).then_some(version)
            });
            versions.max()
        })
    }

    /// `550` of `550.54.14`, for the names of packages.
    pub(super) fn branch(&self) -> Option<String> {
        self.driver_version().map(|version| version.major().to_string())
    }

    /// What CUDA said, if it was asked and said no.
    pub(in crate::checks) fn said(&self) -> Option<Said> {
        codes::said(self.case.probes.get(&Backend::Cuda)?)
    }

    /// The code of CUDA's error.
    pub(in crate::checks) fn code(&self) -> Option<u32> {
        self.said()?.code
    }

    /// Whether CUDA was asked and showed a card.
    pub(in crate::checks) fn works(&self) -> bool {
        self.answer().is_some_and(|answer| {
            answer.get("devices").and_then(Value::as_array).is_some_and(|devices| !devices.is_empty())
        })
    }

    /// Whether CUDA was asked and showed none.
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

    /// The newest CUDA that the driver knows: its own word, else by the table.
    pub(super) fn driver_cuda(&self) -> Option<(Version, Evidence)> {
        let told = self.answer().and_then(|answer| answer.get("driver_version")?.as_u64());
        let told =
            told.or_else(|| self.said()?.driver_version).filter(|number| (1000..100_000).contains(number));
        if let Some(number) = told {
            let version: Version = format!("{}.{}", number / 1000, number % 1000 / 10).parse().ok()?;
            let evidence = Evidence::new(EvidenceKind::Dlopen, "cuDriverGetVersion", number.to_string());
            return Some((version, evidence));
        }
        let driver = self.driver_version()?;
        let version = self.description()?.newest_for_driver(&driver)?.clone();
        let source = format!("driver {driver}");
        Some((version, Evidence::new(EvidenceKind::File, source, "by the table of driver branches")))
    }

    pub(super) fn description(&self) -> Option<&'a Description> {
        self.case.catalogue.for_backend(Backend::Cuda)
    }

    /// The toolkit that a build takes.
    pub(super) fn toolkit(&self) -> Option<&'a Installation> {
        self.case.inventory.chosen(&self.description()?.id)
    }

    pub(in crate::checks) fn runtime(&self) -> Option<&'a ToolkitRuntime> {
        self.case.inventory.runtimes.get(&Backend::Cuda)
    }

    /// A device node that is expected, by its path.
    pub(super) fn node(&self, path: &str) -> Option<&'a DeviceNode> {
        self.runtime()?.nodes.iter().find(|node| node.path.as_str() == path)
    }

    /// The architectures of all cards; `None` if one is not known.
    pub(super) fn archs(&self) -> Option<Vec<&'a str>> {
        self.cards.iter().map(|gpu| gpu.arch.as_deref()).collect()
    }

    /// What shows the first card.
    pub(in crate::checks) fn card_evidence(&self) -> Option<Evidence> {
        self.cards.first()?.evidence.first().cloned()
    }

    /// A draft with the first card as its first evidence.
    pub(in crate::checks) fn draft(&self, id: DiagnosticId) -> FindingDraft {
        let draft = FindingDraft::new(id).backend(Backend::Cuda);
        self.card_evidence().into_iter().fold(draft, FindingDraft::evidence)
    }

    /// Whether the user has a card of another maker that works: then NVIDIA's is not what the machine is about.
    pub(super) fn is_secondary(&self) -> bool {
        let asked = self.case.asked.is_some_and(|asked| asked.contains(&Backend::Cuda));
        let other = |backend: Backend, vendor: Vendor| {
            let verdict = self.case.matrix.verdict(backend);
            verdict.run == Readiness::Ready
                && verdict.devices.iter().any(|gpu| gpu.vendor == vendor && gpu.integrated != Some(true))
        };
        let works = other(Backend::Rocm, Vendor::Amd) || other(Backend::Sycl, Vendor::Intel);
        !asked && works && self.toolkit().is_none()
    }
}
