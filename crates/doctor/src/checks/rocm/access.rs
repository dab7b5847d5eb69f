//! Device nodes that this user cannot open. One cause is one finding, however many backends need the nodes.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{DeviceNode, NodeState};

use super::{is_asked, is_wanted, reason};
use crate::DiagnosisCase;
use crate::checks::graphics;

/// The ids of this problem by backend. The first that applies is reported, the others are folded under it.
const IDS: [(DiagnosticId, Backend); 4] = [
    (id!("rocm.kfd-permission"), Backend::Rocm),
    (id!("sycl.render-group"), Backend::Sycl),
    (id!("vk.render-permission"), Backend::Vulkan),
    (id!("ocl.render-permission"), Backend::Opencl),
];

/// Device nodes that cannot be opened: one fault if any affected backend is in use on this machine.
pub(super) fn permission(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let denied: Vec<(DiagnosticId, Backend)> =
        IDS.into_iter().filter(|(id, backend)| reason(case, *backend, *id).is_some()).collect();
    let Some((first, _)) = denied.first() else { return Vec::new() };
    let is_wanted = |backend: Backend| {
        is_asked(case, backend)
            || match backend {
                Backend::Rocm => is_wanted(case),
                Backend::Sycl => graphics::wants_sycl(case),
                Backend::Vulkan => graphics::wants_vulkan(case) || has_loader(case, backend),
                _ => graphics::wants_opencl(case),
            }
    };
    // For unused backends the severity depends on whether the GPU is otherwise unused.
    let kind = if denied.iter().any(|(_, backend)| is_wanted(*backend)) {
        FindingKind::Fault
    } else {
        FindingKind::Absence
    };
    denied
        .iter()
        .map(|(id, backend)| {
            let draft = denied_draft(case, *id, *backend).kind(kind);
            if id == first {
                denied.iter().fold(draft, |draft, (_, other)| draft.backend(*other))
            } else {
                draft
            }
        })
        .collect()
}

fn has_loader(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    case.inventory.runtimes.get(&backend).is_some_and(|runtime| runtime.loader.is_some())
}

/// The nodes of a backend that cannot be opened and that this id is for.
fn denied_nodes<'a>(case: &DiagnosisCase<'a>, backend: Backend, id: DiagnosticId) -> Vec<&'a DeviceNode> {
    let nodes = case.inventory.runtimes.get(&backend).map_or(&[][..], |runtime| &runtime.nodes);
    let is_denied =
        |node: &&DeviceNode| matches!(node.state, NodeState::Denied | NodeState::Failed) && node.denied == id;
    nodes.iter().filter(is_denied).collect()
}

fn denied_draft(case: &DiagnosisCase<'_>, id: DiagnosticId, backend: Backend) -> FindingDraft {
    let access = &case.signs.access;
    let nodes = denied_nodes(case, backend, id);
    let mut draft = FindingDraft::new(id).backend(backend).affects(Affects::Run);
    let mut groups: Vec<u32> = nodes.iter().filter_map(|node| node.gid).collect();
    groups.sort_indirect();
    groups.dedup();
    for node in &nodes {
        let owner = match node.gid.map(|gid| (gid, access.name_of(gid))) {
            Some((gid, Some(name))) => format!("permission denied; group {name} ({gid})"),
            Some((gid, None)) => format!("permission denied; group {gid}"),
            None => "permission denied".to_owned(),
        };
        draft = draft.evidence(Evidence::file(node.path.as_str(), owner));
    }
    let process_groups: Vec<String> = access.process_groups.iter().map(ToString::to_string).collect();
    if !process_groups.is_empty() {
        let groups = format!("Groups: {}", process_groups.join(" "));
        draft = draft.evidence(Evidence::file("/proc/self/status", groups));
    }
    let node = nodes.first().map(|node| node.path.to_string()).unwrap_or_default();
    let lacking: Vec<u32> =
        groups.iter().copied().filter(|gid| !access.process_groups.contains(gid)).collect();
    draft = draft.value("node", node);
    // If the group database cannot be read, use the groups that most distributions use.
    let usual = || access.groups.is_empty().then(|| "render,video".to_owned());
    let names = names(case, &lacking).or_else(usual);
    if let Some(names) = &names {
        draft = draft.value("groups", names);
    }
    if let Some(gid) = lacking.first() {
        draft = draft.value("gid", gid.to_string());
    }
    let all_joined = !lacking.is_empty() && lacking.iter().all(|gid| access.is_joined_since(*gid));
    if all_joined {
        draft.case("joined")
    } else if lacking.is_empty() && !groups.is_empty() {
        draft.case("refused")
    } else if lacking.contains(&0) {
        draft.case("root-only")
    } else if lacking.contains(&UNMAPPED) {
        draft.case("unmapped")
    } else if names.is_none() {
        draft.case("unnamed")
    } else {
        draft
    }
}

/// What the kernel shows for a group of the host that a user namespace does not contain: `overflowgid`, usually named `nogroup`.
const UNMAPPED: u32 = 65534;

/// The names of groups as an argument of `usermod`; `None` if a name is unknown or `groups` is empty.
fn names(case: &DiagnosisCase<'_>, groups: &[u32]) -> Option<String> {
    let names: Option<Vec<&str>> = groups.iter().map(|gid| case.signs.access.name_of(*gid)).collect();
    names.filter(|names| !names.is_empty()).map(|names| names.join(","))
}
