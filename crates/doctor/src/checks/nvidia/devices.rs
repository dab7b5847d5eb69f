//! Device nodes, and variables that hide what is there.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{DeviceNode, NodeState};
use gpubuild_host::Os;

use super::view::View;
use crate::DiagnosisCase;

/// The driver is loaded and has no device nodes.
pub(super) fn nodes(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = View::new(case)?;
        let reason = view.reason(id!("nv.device-nodes-missing"))?;
        let node = reason.values.get("node").cloned().unwrap_or_default();
        let driver = view.kernel_driver()?;
        let loaded = format!("/sys/module/{}", driver.module);
        let draft = view.draft(id!("nv.device-nodes-missing")).evidence(Evidence::file(node, "absent"));
        Some(draft.evidence(Evidence::file(loaded, "present")))
    };
    draft().into_iter().collect()
}

/// A node that belongs to a group in which the user is not.
pub(super) fn permission(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    View::new(case).and_then(|view| permission_draft(&view)).into_iter().collect()
}

fn permission_draft(view: &View<'_>) -> Option<FindingDraft> {
    let denied: Vec<&DeviceNode> =
        view.runtime()?.nodes.iter().filter(|node| node.state == NodeState::Denied).collect();
    let node = *denied.first()?;
    // In a container a node that nobody restricts is closed by the container itself; that has its own finding.
    let restricted = !view.case.signs.is_root && node.gid.is_some_and(|gid| gid != 0);
    if view.is_container() && !restricted {
        return None;
    }
    if view.reason(id!("nv.device-permission")).is_none()
        && view.reason(id!("ctr.lost-after-reload")).is_none()
    {
        return None;
    }
    let system = &view.signs.system;
    let mut draft = view
        .draft(id!("nv.device-permission"))
        .value("node", node.path.as_str())
        .summary(format!("`{}` may not be opened by this user", node.path));
    for node in &denied {
        let owner = node.gid.map(|gid| format!(", group {gid}")).unwrap_or_default();
        draft = draft.evidence(Evidence::file(node.path.as_str(), format!("permission denied{owner}")));
    }
    let Some(gid) = node.gid.filter(|gid| *gid != 0) else { return Some(draft.case("root")) };
    draft = draft.value("gid", gid.to_string());
    let Some(group) = system.group(gid) else { return Some(draft.case("unnamed")) };
    draft = draft.value("group", &group.name);
    let listed = system.user.as_ref().is_some_and(|user| group.members.contains(user));
    Some(if listed {
        let line = format!("{} has {}", group.name, system.user.clone().unwrap_or_default());
        draft.evidence(Evidence::file("/etc/group", line)).case("relogin")
    } else {
        draft
    })
}

/// A variable that leaves CUDA no card.
pub(super) fn hidden(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    View::new(case).and_then(|view| hidden_draft(&view)).into_iter().collect()
}

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

fn hidden_draft(view: &View<'_>) -> Option<FindingDraft> {
    let value = view.case.env.get_raw(VISIBLE)?;
    // Windows has no variables without a value.
    if value.is_empty() && view.case.facts.platform.os == Os::Windows {
        return None;
    }
    // Cards that were shown have been counted by who knows more; but a value that is no card at all hides all of them
    // from every program, whoever was asked without it.
    let unlimited = KnownDevice { count: None, uuids: None };
    if view.works() && why_none(value, &unlimited).is_none() {
        return None;
    }
    let known = KnownDevice {
        count: count(view),
        uuids: view.cards.iter().map(|card| card.uuid.clone()).collect::<Option<Vec<_>>>(),
    };
    let proven = matches!(view.code(), Some(101));
    let why =
        why_none(value, &known).or_else(|| proven.then(|| "names a card that is not there".to_owned()))?;
    let mut draft = view
        .draft(id!("nv.device-hidden"))
        .value("variable", VISIBLE)
        .value("value", value)
        .value("why", why)
        .evidence(Evidence::env(VISIBLE, value));
    let asked = view.case.asked.is_some_and(|asked| asked.contains(&Backend::Cuda));
    if let Some(said) = view.said() {
        draft = draft.evidence(said.evidence);
    }
    Some(if asked || view.shows_nothing() { draft.severity(Severity::Error) } else { draft })
}

/// The cards that numbers and names can mean.
struct KnownDevice {
    count: Option<usize>,
    uuids: Option<Vec<String>>,
}

/// How many cards a program here can number. Unknown under WSL, whose one device may be several cards.
fn count(view: &View<'_>) -> Option<usize> {
    if view.case.facts.wsl.is_some() {
        return None;
    }
    if view.is_container() {
        let is_card = |evidence: &&Evidence| {
            let number = evidence.place.strip_prefix("/dev/nvidia").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let nodes = view.case.signs.container.nvidia_nodes.iter().filter(is_card).count();
        return (nodes > 0).then_some(nodes);
    }
    Some(view.cards.iter().filter(|card| card.vendor == Vendor::Nvidia).count())
}

/// Why a value leaves no card; `None` if it leaves one. Cards count up to the first word that means none.
fn why_none(value: &str, known: &KnownDevice) -> Option<String> {
    let first = value.split(',').next().unwrap_or_default().trim();
    if value.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if let Ok(number) = first.parse::<i64>() {
        return match known.count {
            _ if number < 0 => Some(format!("is `{first}`")),
            Some(count) if usize::try_from(number).is_ok_and(|number| number >= count) => {
                let cards = if count == 1 { "one card".to_owned() } else { format!("{count} cards") };
                Some(format!("begins with number {number}, and there is {cards}, numbered from 0"))
            }
            _ => repeated(value),
        };
    }
    let upper = first.to_uppercase();
    if upper.starts_with("MIG-") {
        return None;
    }
    if upper.starts_with("GPU-") {
        let uuids = known.uuids.as_ref()?;
        let matches = uuids.iter().any(|uuid| uuid.to_uppercase().starts_with(&upper));
        return (!matches).then(|| format!("names `{first}`, and no card has this id"));
    }
    Some(format!("is `{first}`, which is no card"))
}

/// A card that is named twice makes CUDA refuse the whole list.
fn repeated(value: &str) -> Option<String> {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let twice = words.iter().enumerate().find(|(index, word)| words[..*index].contains(word))?.1;
    Some(format!("names card {twice} twice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_leave_no_card() {
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
