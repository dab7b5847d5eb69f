//! Device nodes, and variables that hide GPUs.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::facts::visible::{CUDA_VISIBLE_DEVICES, why_none_visible};
use gpubuild_detect::finding::{Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{DeviceNode, NodeState};
use gpubuild_host::Os;

use super::view::NvidiaView;
use crate::DiagnosisCase;

/// The driver is loaded, but its device nodes are missing.
pub(super) fn nodes(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        let reason = view.reason(id!("nv.device-nodes-missing"))?;
        let node = reason.values.get("node").cloned().unwrap_or_default();
        let driver = view.kernel_driver()?;
        let loaded = format!("/sys/module/{}", driver.module);
        let draft = view.draft(id!("nv.device-nodes-missing")).evidence(Evidence::file(node, "absent"));
        Some(draft.evidence(Evidence::file(loaded, "present")))
    };
    draft().into_iter().collect()
}

/// A device node that this user cannot open.
pub(super) fn permission(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| permission_draft(&view)).into_iter().collect()
}

fn permission_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let denied: Vec<&DeviceNode> =
        view.runtime()?.nodes.iter().filter(|node| node.state == NodeState::Denied).collect();
    let node = *denied.first()?;
    // In a container, a node without restrictions is blocked by the container itself, which has its own finding.
    let restricted = !view.case.facts.is_root && node.gid.is_some_and(|gid| gid != 0);
    if view.is_container() && !restricted {
        return None;
    }
    if view.reason(id!("nv.device-permission")).is_none()
        && view.reason(id!("ctr.lost-after-reload")).is_none()
    {
        return None;
    }
    let access = &view.case.signs.access;
    let mut draft = view
        .draft(id!("nv.device-permission"))
        .value("node", node.path.as_str())
        .summary(format!("this user cannot open `{}`", node.path));
    for node in &denied {
        let owner = node.gid.map(|gid| format!(", group {gid}")).unwrap_or_default();
        draft = draft.evidence(Evidence::file(node.path.as_str(), format!("permission denied{owner}")));
    }
    let Some(gid) = node.gid.filter(|gid| *gid != 0) else { return Some(draft.case("root")) };
    draft = draft.value("gid", gid.to_string());
    let Some(group) = access.name_of(gid) else { return Some(draft.case("unnamed")) };
    draft = draft.value("group", group);
    Some(if access.is_joined_since(gid) {
        let line = format!("{group} contains {}", access.user.as_deref().unwrap_or_default());
        draft.evidence(Evidence::file("/etc/group", line)).case("relogin")
    } else {
        draft
    })
}

/// `CUDA_VISIBLE_DEVICES` hides all GPUs.
pub(super) fn hidden(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| hidden_draft(&view)).into_iter().collect()
}

fn hidden_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let value = view.case.env.get_raw(CUDA_VISIBLE_DEVICES)?;
    // An empty variable does not exist on Windows.
    if value.is_empty() && view.case.facts.platform.os == Os::Windows {
        return None;
    }
    // If the probe lists devices, the number of GPUs is not known here. A value that is not a GPU at all hides all of them from
    // every program; the probe may have run without it.
    let unlimited = KnownDevice { count: None, uuids: None };
    if view.works() && why_none(value, &unlimited).is_none() {
        return None;
    }
    let known = KnownDevice {
        count: count(view),
        uuids: view.gpus.iter().map(|gpu| gpu.uuid.clone()).collect::<Option<Vec<_>>>(),
    };
    let proven = matches!(view.code(), Some(101));
    let why =
        why_none(value, &known).or_else(|| proven.then(|| "names a GPU that does not exist".to_owned()))?;
    let mut draft = view
        .draft(id!("nv.device-hidden"))
        .value("variable", CUDA_VISIBLE_DEVICES)
        .value("value", value)
        .value("why", why)
        .evidence(Evidence::env(CUDA_VISIBLE_DEVICES, value));
    let is_requested = view.case.asked.is_some_and(|asked| asked.contains(&Backend::Cuda));
    if let Some(cuda_error) = view.cuda_error() {
        draft = draft.evidence(cuda_error.evidence);
    }
    Some(if is_requested || view.shows_nothing() { draft.severity(Severity::Error) } else { draft })
}

/// The GPUs that the value can name.
struct KnownDevice {
    count: Option<usize>,
    uuids: Option<Vec<String>>,
}

/// Number of GPUs that a program can use. Unknown under WSL, whose one device node can be several GPUs.
fn count(view: &NvidiaView<'_>) -> Option<usize> {
    if view.case.facts.wsl.is_some() {
        return None;
    }
    if view.is_container() {
        let is_gpu = |evidence: &&Evidence| {
            let number = evidence.place.strip_prefix("/dev/nvidia").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let nodes = view.case.signs.container.nvidia_nodes.iter().filter(is_gpu).count();
        return (nodes > 0).then_some(nodes);
    }
    Some(view.gpus.iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).count())
}

/// Why a value hides all GPUs of this machine; `None` if it does not.
fn why_none(value: &str, known: &KnownDevice) -> Option<String> {
    if let Some(why) = why_none_visible(value) {
        return Some(why);
    }
    let first = value.split(',').next().unwrap_or_default().trim();
    if let Ok(number) = first.parse::<u64>() {
        return match known.count {
            Some(count) if usize::try_from(number).is_ok_and(|number| number >= count) => {
                let gpus = if count == 1 { "is one GPU".to_owned() } else { format!("are {count} GPUs") };
                Some(format!("begins with number {number}, and there {gpus}, numbered from 0"))
            }
            _ => repeated(value),
        };
    }
    let upper = first.to_uppercase();
    if upper.starts_with("MIG-") {
        return None;
    }
    let uuids = known.uuids.as_ref()?;
    let matches = uuids.iter().any(|uuid| uuid.to_uppercase().starts_with(&upper));
    (!matches).then(|| format!("names `{first}`, and no GPU has this id"))
}

/// CUDA rejects a list that names a GPU twice.
fn repeated(value: &str) -> Option<String> {
    let entries: Vec<&str> = value.split(',').map(str::trim).collect();
    let twice = entries.iter().enumerate().find(|(index, entry)| entries[..*index].contains(entry))?.1;
    Some(format!("names GPU {twice} twice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_hide_all_gpus_are_recognised() {
        let known = KnownDevice {
            count: Some(2),
            uuids: Some(vec!["GPU-0a1b2c3d-0000".to_owned(), "GPU-ffff".to_owned()]),
        };
        for (value, hides) in [
            ("", true),
            (" ", true),
            ("-1", true),
            ("2", true),
            ("0", false),
            ("1,0", false),
            ("0,7", false),
            ("7,0", true),
            ("0,0", true),
            ("NoDevFiles", true),
            ("none", true),
            ("GPU-0a1b", false),
            ("gpu-0A1B2C3D", false),
            ("GPU-1234", true),
            ("MIG-GPU-1234/1/0", false),
            (" 1 ", false),
        ] {
            assert_eq!(why_none(value, &known).is_some(), hides, "`{value}`");
        }
        let unknown = KnownDevice { count: None, uuids: None };
        assert_eq!(why_none("5", &unknown), None);
        assert_eq!(why_none("GPU-1", &unknown), None);
        assert!(why_none("-1", &unknown).is_some());
    }
}
