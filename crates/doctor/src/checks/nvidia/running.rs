//! A driver that is installed but does not work: NVSwitches without their manager, a missing module, suspend. Also Jetson.

use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::NodeState;

use super::view::NvidiaView;
use crate::DiagnosisCase;

/// NVSwitches without the running program that initialises them.
pub(super) fn fabric(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| fabric_draft(&view)).into_iter().collect()
}

fn fabric_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let fabric = &view.signs.system.fabric;
    let cuda_error = view.cuda_error().filter(|cuda_error| cuda_error.code == Some(802));
    let managed = fabric.running.is_some() || (fabric.installed.is_some() && fabric.enabled.is_some());
    // The manager runs on the host, where containers cannot see it.
    let by_files = !fabric.switches.is_empty() && !managed && !view.is_container() && view.is_loaded();
    if view.works() || !(cuda_error.is_some() || by_files) {
        return None;
    }
    let mut draft = view.draft(id!("nv.fabricmanager"));
    draft = view.with_branch(draft, "replaced");
    if let Some(version) = view.kernel_version() {
        draft = draft.value("version", version.to_string());
    }
    draft = fabric.switches.iter().take(2).cloned().fold(draft, FindingDraft::evidence);
    draft = cuda_error.into_iter().fold(draft, |draft, cuda_error| draft.evidence(cuda_error.evidence));
    match &fabric.installed {
        Some(installed) => {
            draft = draft.evidence(installed.clone());
            if let Some(running) = &fabric.running {
                draft = draft.evidence(running.clone());
            }
            Some(draft.case("stopped"))
        }
        None => Some(draft.evidence(Evidence::file("/usr/bin/nv-fabricmanager", "absent"))),
    }
}

/// The device through which CUDA manages memory is missing.
pub(super) fn uvm(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| uvm_draft(&view)).into_iter().collect()
}

const UVM: &str = "/dev/nvidia-uvm";

fn uvm_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let missing = view.node(UVM).is_some_and(|node| node.state == NodeState::Missing);
    let cuda_error =
        view.cuda_error().filter(|cuda_error| cuda_error.code == Some(999) && missing && view.is_loaded());
    if view.reason(id!("nv.uvm-missing")).is_none() && cuda_error.is_none() {
        return None;
    }
    let mut draft = view.draft(id!("nv.uvm-missing")).evidence(Evidence::file(UVM, "absent"));
    draft = draft.summary(format!("`{UVM}` is missing, so CUDA can't start"));
    let module = view.signs.system.uvm.clone();
    let loaded = module.is_some();
    draft = draft.evidence(module.unwrap_or_else(|| Evidence::file("/sys/module/nvidia_uvm", "absent")));
    draft = cuda_error.into_iter().fold(draft, |draft, cuda_error| draft.evidence(cuda_error.evidence));
    Some(if loaded { draft } else { draft.case("unloaded") })
}

/// The driver's memory management fails after the machine was suspended.
pub(super) fn sleep(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| sleep_draft(&view)).into_iter().collect()
}

fn sleep_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let cuda_error = view.cuda_error().filter(|cuda_error| cuda_error.code == Some(999))?;
    let opens = view.node(UVM).is_none_or(|node| node.state == NodeState::Opens);
    let suspends = &view.signs.system.suspends;
    let never = suspends.as_ref().is_some_and(|(count, _)| *count == 0);
    // Other causes of this error have other signs. If the number of suspends is unknown, the error code has to suffice.
    if !opens || never || view.case.facts.wsl.is_some() {
        return None;
    }
    let mut draft = view.draft(id!("nv.suspend")).evidence(cuda_error.evidence);
    if let Some((count, evidence)) = suspends {
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        draft = draft.value("times", times).evidence(evidence.clone());
    } else {
        draft = draft.case("likely");
    }
    if view.signs.system.keeps_memory == Some(false) {
        let parameter = "PreserveVideoMemoryAllocations is 0";
        draft = draft.evidence(Evidence::file("/proc/driver/nvidia/params", parameter));
    }
    Some(draft)
}

/// A note about Linux for Tegra, whose layout differs from other systems.
pub(super) fn jetson(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        let tegra = view.signs.system.tegra.clone()?;
        let gpu = view.gpus.iter().find(|gpu| gpu.integrated == Some(true))?;
        let number = gpu.arch.as_deref().map(|arch| arch.trim_start_matches("sm_").to_owned());
        let draft = FindingDraft::new(id!("nv.jetson")).value("model", &gpu.name).evidence(tegra);
        Some(number.into_iter().fold(draft, |draft, number| draft.value("number", number)))
    };
    draft().into_iter().collect()
}
