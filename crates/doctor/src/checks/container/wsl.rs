//! WSL: the GPU and its driver belong to Windows.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::NodeState;

use crate::DiagnosisCase;
use crate::checks::nvidia::NvidiaView;
use crate::signs::nvidia::{DriverLibrary, DriverOrigin};

/// A Linux driver is installed although the Windows driver is used.
pub(super) fn linux_driver(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        case.facts.wsl.as_ref()?;
        let windows = case.signs.container.wsl.cuda.clone()?;
        let libraries = &case.signs.nvidia.libraries;
        // Only libraries of a Linux driver have the driver's version; the Windows driver's library is `libcuda.so.1.1`.
        let foreign = |copy: &&DriverLibrary| copy.origin == DriverOrigin::Driver && copy.version.is_some();
        let copy = libraries.copies.iter().find(foreign)?;
        let first = libraries.driver.as_ref().is_some_and(|copy| foreign(&copy));
        let draft = FindingDraft::new(id!("wsl.linux-driver-inside"))
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .value("library", copy.path.as_str())
            .value("version", copy.version.as_ref().map(ToString::to_string).unwrap_or_default())
            .evidence(Evidence::file(copy.real.as_str(), "present"))
            .evidence(windows);
        if first {
            return Some(draft);
        }
        // Its other libraries and programs cause problems too, unless CUDA is known to work.
        let works = NvidiaView::new(case).is_some_and(|view| view.works());
        let draft = draft.case("second");
        Some(if works { draft.severity(Severity::Warning) } else { draft })
    };
    draft().into_iter().collect()
}

/// WSL 1, or a kernel that is too old for GPUs.
pub(super) fn no_device(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let wsl = case.facts.wsl.as_ref().filter(|_| case.facts.container.is_none())?;
        if case.signs.container.wsl.device.is_some() {
            return None;
        }
        let toolkits = ["cuda", "rocm", "oneapi"].iter().any(|id| !case.inventory.of(id).is_empty());
        let asked = case.asked.is_some_and(|asked| asked.iter().any(|backend| *backend != Backend::Cpu));
        // Builds for the processor alone are not affected, so without signs of GPU use this is a warning.
        let severity = if toolkits || asked { Severity::Error } else { Severity::Warning };
        let mut draft = FindingDraft::new(id!("wsl.no-dxg"))
            .severity(severity)
            .evidence(Evidence::file("/dev/dxg", "absent"));
        draft = wsl.evidence.iter().cloned().fold(draft, FindingDraft::evidence);
        let name = case.env.get("WSL_DISTRO_NAME").unwrap_or("Ubuntu");
        draft = draft.value("distribution", name);
        Some(if wsl.value == 1 { draft.case("one") } else { draft })
    };
    draft().into_iter().collect()
}

/// ROCm under WSL lacks AMD's bridge to the GPU, or the bridge is not enabled.
pub(super) fn amd(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        case.facts.wsl.as_ref()?;
        let wsl = &case.signs.container.wsl;
        let device = wsl.device.clone()?;
        let runtime = case.inventory.runtimes.get(&Backend::Rocm);
        let kfd = runtime.is_some_and(|runtime| {
            runtime
                .nodes
                .iter()
                .any(|node| node.path.as_str() == "/dev/kfd" && node.state != NodeState::Missing)
        });
        let works = case.probes.get(&Backend::Rocm).is_some_and(|probe| probe.answer.contains("gfx"));
        let copy = case.inventory.of("rocm").first();
        let library = runtime.and_then(|runtime| runtime.loader.as_ref());
        let asked = case.asked.is_some_and(|asked| asked.contains(&Backend::Rocm));
        let rocm =
            copy.map(|copy| copy.root.to_string()).or_else(|| library.map(|fact| fact.value.to_string()));
        if kfd || works || wsl.old_runtime.is_some() || (rocm.is_none() && !asked) {
            return None;
        }
        // Since 7.13 the runtime detects the device automatically.
        let version = copy.and_then(|copy| copy.version());
        let is_automatic = version.is_some_and(|version| (version.major(), version.minor()) >= (7, 13));
        let name = match (&wsl.bridge, wsl.switched_on.is_some() || is_automatic) {
            (None, _) => "bridge",
            (Some(_), false) => "switch",
            (Some(_), true) => return None,
        };
        let bridge = wsl.bridge.clone().unwrap_or_else(|| Evidence::file("librocdxg.so", "absent"));
        let mut draft =
            FindingDraft::new(id!("wsl.amd")).backend(Backend::Rocm).affects(Affects::Run).case(name);
        draft = draft.evidence(device).evidence(bridge).evidence(Evidence::file("/dev/kfd", "absent"));
        let set = case.env.get_raw("HSA_ENABLE_DXG_DETECTION").unwrap_or("not set");
        draft = draft.evidence(Evidence::env("HSA_ENABLE_DXG_DETECTION", set));
        draft = rocm.into_iter().fold(draft, |draft, place| draft.evidence(Evidence::file(place, "ROCm")));
        // WSL does not show which GPUs Windows has, except that an NVIDIA GPU has its driver library.
        let severity = if wsl.cuda.is_some() && !asked { Severity::Info } else { Severity::Error };
        Some(draft.severity(severity))
    };
    draft().into_iter().collect()
}
