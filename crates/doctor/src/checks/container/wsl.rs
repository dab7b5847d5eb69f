//! WSL: the GPU belongs to Windows, and so does its driver.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::NodeState;

use crate::DiagnosisCase;
use crate::checks::nvidia::View;
use crate::signs::nvidia::{DriverLibrary, DriverOrigin};

/// A driver for Linux where the driver of Windows serves.
pub(super) fn linux_driver(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        case.facts.wsl.as_ref()?;
        let windows = case.signs.container.wsl.cuda.clone()?;
        let libraries = &case.signs.nvidia.libraries;
        // The driver of Windows numbers its libraries `1.1`; only one for Linux has a driver's version.
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
        // Its other libraries and programs disturb all the same, unless CUDA was seen to work.
        let works = View::new(case).is_some_and(|view| view.works());
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
        // Somebody who builds for the processor alone has lost nothing; that is not known here.
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

/// ROCm under WSL, which reaches the card over AMD's bridge.
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
        // From 7.13 on the runtime looks for the device by itself.
        let version = copy.and_then(|copy| copy.version());
        let by_itself = version.is_some_and(|version| (version.major(), version.minor()) >= (7, 13));
        let name = match (&wsl.bridge, wsl.switched_on.is_some() || by_itself) {
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
        // Which cards Windows has cannot be seen from here; one of NVIDIA shows in its library.
        let severity = if wsl.cuda.is_some() && !asked { Severity::Info } else { Severity::Error };
        Some(draft.severity(severity))
    };
    draft().into_iter().collect()
}
