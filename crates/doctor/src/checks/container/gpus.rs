//! GPUs that a container was not given, and GPUs that it lost.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness, Reason};
use gpubuild_detect::toolkit::{DeviceNode, NodeState};

use crate::DiagnosisCase;
use crate::checks::graphics::wants_vulkan;
use crate::checks::nvidia::NvidiaView;

/// The container has no NVIDIA driver.
pub(super) fn not_given(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let container = case.facts.container.as_ref()?;
        let verdict = case.matrix.verdict(Backend::Cuda);
        let is_reported = verdict.run_reasons.iter().any(|reason| reason.id == "ctr.no-gpus-flag");
        let unseen = !is_reported && verdict.hardware != Presence::Present && wants_nvidia(case);
        if !is_reported && !unseen {
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
            draft = draft.summary(
                "this CUDA container was started without a GPU: it has no driver and no device node",
            );
        }
        if let Some(device) = assigned(case) {
            draft = draft.value("device", device);
        }
        draft = named(draft, not_given_case(case));
        Some(match not_given_severity(case, unseen) {
            Some(severity) => draft.severity(severity),
            None => draft,
        })
    };
    draft().into_iter().collect()
}

/// Whether the image is for CUDA or requests GPUs, and the host may have an NVIDIA GPU.
fn wants_nvidia(case: &DiagnosisCase<'_>) -> bool {
    let signs = &case.signs.container;
    let has_library =
        case.inventory.runtimes.get(&Backend::Cuda).is_some_and(|runtime| runtime.loader.is_some());
    // If the PCI bus is visible and shows no NVIDIA GPU, the host does not have one.
    signs.image.is_for_cuda.is_some() && !signs.image.requests_no_gpu() && !signs.has_pci_bus && !has_library
}

fn not_given_case(case: &DiagnosisCase<'_>) -> Option<&'static str> {
    let signs = &case.signs.container;
    if !signs.nvidia_nodes.is_empty() {
        return Some(if signs.image.has("compute") { "libraries" } else { "capability" });
    }
    if signs.image.requests_no_gpu() {
        return Some("void");
    }
    if assigned(case).is_some() {
        return Some("runtime-class");
    }
    let jetson = case.matrix.verdict(Backend::Cuda).devices.iter().any(|gpu| gpu.integrated == Some(true));
    jetson.then_some("jetson")
}

/// The GPU that a cluster's device plugin assigned to this pod, by its UUID.
fn assigned<'a>(case: &DiagnosisCase<'a>) -> Option<&'a str> {
    case.env.get("KUBERNETES_SERVICE_HOST")?;
    let devices = case.signs.container.image.devices.as_deref()?;
    devices.split(',').find(|device| device.starts_with("GPU-") || device.starts_with("MIG-"))
}

/// The severity, if it does not follow from the detected hardware.
fn not_given_severity(case: &DiagnosisCase<'_>, unseen: bool) -> Option<Severity> {
    if asked(case, Backend::Cuda) || assigned(case).is_some() {
        return Some(Severity::Error);
    }
    // CI jobs build for other machines, and a container with another working GPU serves its purpose.
    if case.signs.container.ci.is_some() || another_gpu_works(case, Vendor::Nvidia) {
        return Some(Severity::Info);
    }
    // An image that only builds looks the same: no visible GPU and no request. Under WSL there is always a GPU.
    let default = if case.facts.wsl.is_some() { Severity::Error } else { Severity::Info };
    unseen.then_some(default)
}

/// The container has lost its access to a device.
pub(super) fn lost(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        view.reason(id!("ctr.lost-after-reload"))?;
        let closed: Vec<&DeviceNode> = view
            .runtime()?
            .nodes
            .iter()
            .filter(|node| matches!(node.state, NodeState::Denied | NodeState::Failed))
            .collect();
        let node = closed.first()?.path.to_string();
        let mut draft = view.draft(id!("ctr.lost-after-reload")).value("node", &node).summary(format!(
            "`{node}` exists in this container but cannot be opened: the container has lost its permission for the device"
        ));
        for node in closed {
            draft = draft.evidence(Evidence::file(node.path.as_str(), "cannot be opened"));
        }
        Some(draft)
    };
    draft().into_iter().collect()
}

/// The container lacks the Vulkan part of NVIDIA's driver.
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
        // Most CUDA containers do not need Vulkan, and CUDA works.
        let cuda = case.matrix.verdict(Backend::Cuda).run == Readiness::Ready;
        if cuda && !wants_vulkan(case) {
            draft = draft.severity(Severity::Warning);
        }
        Some(draft)
    };
    draft().into_iter().collect()
}

/// The container lacks AMD's device nodes.
pub(super) fn amd(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let wanted = ["ROCM_PATH", "HIP_PATH", "ROCM_HOME", "HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES"];
    devices(case, id!("ctr.amd-devices"), Backend::Rocm, Vendor::Amd, &wanted)
}

/// The container lacks Intel's device nodes.
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
        // A ROCm image on a host about which nothing is known, not even that it has no AMD GPU.
        let unseen = backend == Backend::Rocm
            && reason.is_none()
            && verdict.hardware == Presence::Absent
            && case.facts.container.is_some()
            && case.facts.wsl.is_none()
            && has_toolkit
            && nothing
            && !case.signs.container.has_pci_bus
            && case.signs.container.nvidia_nodes.is_empty();
        if reason.is_none() && !unseen {
            return None;
        }
        let mut draft = FindingDraft::new(id).backend(backend).affects(Affects::Run);
        if let Some(node) = reason.and_then(|reason| reason.values.get("node")) {
            draft = draft.value("node", node);
        }
        if unseen {
            // As for NVIDIA's images, an image that only builds looks the same.
            let severity = if asked(case, backend) { Severity::Error } else { Severity::Info };
            draft = draft.severity(severity);
            draft = draft.summary("this ROCm container was started without a GPU: it has no `/dev/kfd`");
        }
        draft = case
            .facts
            .container
            .iter()
            .flat_map(|fact| fact.evidence.clone())
            .fold(draft, FindingDraft::evidence);
        for node in &runtime.nodes {
            let state = match node.state {
                NodeState::Opens => continue,
                NodeState::Missing => "absent".to_owned(),
                NodeState::Denied | NodeState::Failed => node.gid.map_or_else(
                    || "cannot be opened".to_owned(),
                    |gid| format!("cannot be opened, group {gid}"),
                ),
            };
            draft = draft.evidence(Evidence::file(node.path.as_str(), state));
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
        // A container sees every GPU of the host. Without signs that it should use this one, there is no problem.
        let elsewhere = case.signs.container.ci.is_some() || another_gpu_works(case, vendor) || !own;
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

/// Whether the backend of another vendor's GPU runs.
fn another_gpu_works(case: &DiagnosisCase<'_>, vendor: Vendor) -> bool {
    [(Backend::Cuda, Vendor::Nvidia), (Backend::Rocm, Vendor::Amd), (Backend::Sycl, Vendor::Intel)]
        .iter()
        .any(|(backend, maker)| {
            let verdict = case.matrix.verdict(*backend);
            *maker != vendor && verdict.run == Readiness::Ready && verdict.hardware == Presence::Present
        })
}
