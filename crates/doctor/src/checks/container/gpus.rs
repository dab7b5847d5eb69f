//! What a container was not given, and what it lost.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness, Reason};
use gpubuild_detect::toolkit::{DeviceNode, NodeState};

use crate::DiagnosisCase;
use crate::checks::nvidia::View;

/// NVIDIA's driver is not in the container.
pub(super) fn not_given(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let container = case.facts.container.as_ref()?;
        let verdict = case.matrix.verdict(Backend::Cuda);
        let told = verdict.run_reasons.iter().any(|reason| reason.id == "ctr.no-gpus-flag");
        let unseen = !told && verdict.hardware != Presence::Present && wants_nvidia(case);
        if !told && !unseen {
            return None;
        }
        let mut draft =
            FindingDraft::new(id!("ctr.no-gpus-flag")).backend(Backend::Cuda).affects(Affects::Run);
        draft = container.evidence.iter().cloned().fold(draft, FindingDraft::evidence);
        let nodes = &case.signs.container.nvidia_nodes;
        draft = match nodes.first() {
            Some(node) => draft.evidence(node.clone()),
            None => draft.evidence(Evidence::file("/dev/nvidiactl", "absent")),
        };
        if let Some(gpu) = verdict.devices.iter().find_map(|gpu| gpu.evidence.first()) {
            draft = draft.evidence(gpu.clone());
        }
        let image = &case.signs.container.image;
        draft = image.is_for_cuda.iter().cloned().fold(draft, FindingDraft::evidence);
        if unseen {
            draft = draft
                .summary("this CUDA container was started without a GPU: no driver and no device is in it");
        }
        draft = named(draft, not_given_case(case));
        Some(match not_given_severity(case, unseen) {
            Some(severity) => draft.severity(severity),
            None => draft,
        })
    };
    draft().into_iter().collect()
}

/// An image for CUDA, or one with a toolkit that somebody gave GPUs by name, whose machine may well have a card.
fn wants_nvidia(case: &DiagnosisCase<'_>) -> bool {
    let signs = &case.signs.container;
    let has_library =
        case.inventory.runtimes.get(&Backend::Cuda).is_some_and(|runtime| runtime.loader.is_some());
    // Where the bus is visible and has no such card there is none.
    signs.image.is_for_cuda.is_some() && !signs.image.wants_none() && !signs.sees_bus && !has_library
}

fn not_given_case(case: &DiagnosisCase<'_>) -> Option<&'static str> {
    let signs = &case.signs.container;
    if !signs.nvidia_nodes.is_empty() {
        return Some(if signs.image.has("compute") { "libraries" } else { "capability" });
    }
    if signs.image.wants_none() {
        return Some("void");
    }
    let jetson = case.matrix.verdict(Backend::Cuda).devices.iter().any(|gpu| gpu.integrated == Some(true));
    jetson.then_some("jetson")
}

/// How much it matters, where that is not decided by the hardware that is seen.
fn not_given_severity(case: &DiagnosisCase<'_>, unseen: bool) -> Option<Severity> {
    if asked(case, Backend::Cuda) {
        return Some(Severity::Error);
    }
    // What is built unattended runs elsewhere; and a container that was given another card has what it is for.
    if case.signs.container.ci.is_some() || another_card_works(case, Vendor::Nvidia) {
        return Some(Severity::Info);
    }
    // An image that only builds looks the same: nobody sees a card, and nobody asked for one. Windows has always one.
    let quiet = if case.facts.wsl.is_some() { Severity::Error } else { Severity::Info };
    unseen.then_some(quiet)
}

/// A device that the container had and that was taken from it.
pub(super) fn lost(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = View::new(case)?;
        view.reason(id!("ctr.lost-after-reload"))?;
        let closed: Vec<&DeviceNode> = view
            .runtime()?
            .nodes
            .iter()
            .filter(|node| matches!(node.state, NodeState::Denied | NodeState::Failed))
            .collect();
        let node = closed.first()?.path.to_string();
        let mut draft = view.draft(id!("ctr.lost-after-reload")).value("node", &node).summary(format!(
            "`{node}` is in this container and may not be opened: its permission for the device is gone"
        ));
        for node in closed {
            draft = draft.evidence(Evidence::file(node.path.as_str(), "cannot be opened"));
        }
        Some(draft)
    };
    draft().into_iter().collect()
}

/// Vulkan's half of NVIDIA's driver.
pub(super) fn graphics(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let verdict = case.matrix.verdict(Backend::Vulkan);
        verdict.run_reasons.iter().find(|reason| reason.id == "ctr.caps-graphics")?;
        let image = &case.signs.container.image;
        let variable = "NVIDIA_DRIVER_CAPABILITIES";
        let given = image.capabilities.clone().unwrap_or_default();
        let seen = if image.capabilities.is_some() { given.clone() } else { "not set".to_owned() };
        let mut draft = FindingDraft::new(id!("ctr.caps-graphics"))
            .backend(Backend::Vulkan)
            .value("given", if given.is_empty() { "compute,utility".to_owned() } else { given })
            .evidence(Evidence::env(variable, seen))
            .evidence(Evidence::file("/usr/share/vulkan/icd.d/nvidia_icd.json", "absent"));
        if image.has("graphics") {
            draft = draft.case("manifest");
        }
        // Most containers with CUDA have no use for Vulkan, and what they have CUDA for works.
        let cuda = case.matrix.verdict(Backend::Cuda).run == Readiness::Ready;
        if cuda && !asked(case, Backend::Vulkan) {
            draft = draft.severity(Severity::Warning);
        }
        Some(draft)
    };
    draft().into_iter().collect()
}

/// AMD's devices.
pub(super) fn amd(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let wanted = ["ROCM_PATH", "HIP_PATH", "ROCM_HOME", "HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES"];
    devices(case, id!("ctr.amd-devices"), Backend::Rocm, Vendor::Amd, &wanted)
}

/// Intel's devices.
pub(super) fn intel(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    devices(
        case,
        id!("ctr.intel-devices"),
        Backend::Sycl,
        Vendor::Intel,
        &["ONEAPI_ROOT", "ONEAPI_DEVICE_SELECTOR"],
    )
}

fn devices(
    case: &DiagnosisCase<'_>,
    id: DiagnosticId,
    backend: Backend,
    vendor: Vendor,
    wanted: &[&str],
) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let verdict = case.matrix.verdict(backend);
        let reason: Option<&Reason> = verdict.run_reasons.iter().find(|reason| reason.id == id);
        let runtime = case.inventory.runtimes.get(&backend)?;
        let nothing = runtime.nodes.iter().all(|node| node.state == NodeState::Missing);
        let has_toolkit = case.inventory.chosen(&case.catalogue.for_backend(backend)?.id).is_some();
        // An image for ROCm on a machine of which nothing is visible, not even that it has no such card.
        let unseen = backend == Backend::Rocm
            && reason.is_none()
            && verdict.hardware == Presence::Absent
            && case.facts.container.is_some()
            && case.facts.wsl.is_none()
            && has_toolkit
            && nothing
            && !case.signs.container.sees_bus
            && case.signs.container.nvidia_nodes.is_empty();
        if reason.is_none() && !unseen {
            return None;
        }
        let mut draft = FindingDraft::new(id).backend(backend).affects(Affects::Run);
        if let Some(node) = reason.and_then(|reason| reason.values.get("node")) {
            draft = draft.value("node", node);
        }
        if unseen {
            // As with NVIDIA's images: one that only builds looks the same.
            let severity = if asked(case, backend) { Severity::Error } else { Severity::Info };
            draft = draft.severity(severity);
            draft = draft.summary("this ROCm container was started without a GPU: `/dev/kfd` is not in it");
        }
        draft = case
            .facts
            .container
            .iter()
            .flat_map(|fact| fact.evidence.clone())
            .fold(draft, FindingDraft::evidence);
        for node in &runtime.nodes {
            let said = match node.state {
                NodeState::Opens => continue,
                NodeState::Missing => "absent".to_owned(),
                NodeState::Denied | NodeState::Failed => node.gid.map_or_else(
                    || "cannot be opened".to_owned(),
                    |gid| format!("cannot be opened, group {gid}"),
                ),
            };
            draft = draft.evidence(Evidence::file(node.path.as_str(), said));
        }
        let denied: Vec<&DeviceNode> =
            runtime.nodes.iter().filter(|node| node.state == NodeState::Denied).collect();
        if let Some(gid) = denied.iter().find_map(|node| node.gid) {
            draft = draft.value("gid", gid.to_string());
        }
        if !denied.is_empty() {
            draft = draft.case("denied");
        }
        let has_runtime = runtime.loader.is_some() || has_toolkit;
        let named = wanted.iter().any(|name| case.env.get(name).is_some());
        let own = verdict.devices.iter().any(|gpu| gpu.vendor == vendor && gpu.integrated != Some(true));
        let meant = asked(case, backend) || has_runtime || named;
        // A container sees every card of its machine. Without a sign that it is meant to have this one it is healthy.
        let elsewhere = case.signs.container.ci.is_some() || another_card_works(case, vendor) || !own;
        Some(if !unseen && !meant && elsewhere { draft.severity(Severity::Info) } else { draft })
    };
    draft().into_iter().collect()
}

fn named(draft: FindingDraft, case: Option<&str>) -> FindingDraft {
    match case {
        Some(case) => draft.case(case),
        None => draft,
    }
}

fn asked(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    case.asked.is_some_and(|asked| asked.contains(&backend))
}

/// Whether the backend of another maker's card runs.
fn another_card_works(case: &DiagnosisCase<'_>, vendor: Vendor) -> bool {
    [(Backend::Cuda, Vendor::Nvidia), (Backend::Rocm, Vendor::Amd), (Backend::Sycl, Vendor::Intel)]
        .iter()
        .any(|(backend, maker)| {
            let verdict = case.matrix.verdict(*backend);
            *maker != vendor && verdict.run == Readiness::Ready && verdict.hardware == Presence::Present
        })
}
