//! A container host whose engine cannot pass its GPU to containers.

use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_host::Os;

use crate::DiagnosisCase;
use crate::checks::nvidia::NvidiaView;
use crate::signs::container::Engines;

/// Docker is installed without NVIDIA's container toolkit, or not configured for it.
pub(super) fn runtime(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        let machine = case.facts.platform.os == Os::Linux && case.facts.container.is_none();
        // Docker Desktop under WSL contains its own toolkit.
        if !machine || case.facts.wsl.is_some() || !view.is_loaded() {
            return None;
        }
        let engines = &case.signs.container.engines;
        let (name, severity) = problem(engines)?;
        let mut draft =
            FindingDraft::new(id!("ctr.runtime-missing")).affects(Affects::Run).case(name).severity(severity);
        let absent = |name: &str| Evidence::file(name, "absent");
        let toolkit = engines.toolkit.clone().unwrap_or_else(|| absent("/usr/bin/nvidia-ctk"));
        let configuration = engines.configuration.as_ref().map(|(_, evidence)| evidence.clone());
        let configuration = configuration.unwrap_or_else(|| absent("/etc/docker/daemon.json"));
        for evidence in [engines.docker.clone(), Some(toolkit), Some(configuration)].into_iter().flatten() {
            draft = draft.evidence(evidence);
        }
        Some(view.gpu_evidence().into_iter().fold(draft, FindingDraft::evidence))
    };
    draft().into_iter().collect()
}

/// The missing part, with its severity. Nothing shows that containers are used with GPUs, so most cases are not errors.
fn problem(engines: &Engines) -> Option<(&'static str, Severity)> {
    engines.docker.as_ref()?;
    let knows = engines.configuration.as_ref().is_some_and(|(knows, _)| *knows);
    match (&engines.toolkit, knows) {
        // The configured runtime program does not exist, so containers that use it do not start.
        (None, true) => Some(("dangling", Severity::Error)),
        (None, false) if engines.is_snap => Some(("snap", Severity::Warning)),
        (None, false) => Some(("absent", Severity::Warning)),
        (Some(_), true) => None,
        (Some(_), false) if engines.cdi.is_some() => None,
        // `--gpus` needs only the hook, no configuration.
        (Some(_), false) if engines.hook.is_some() => Some(("unconfigured", Severity::Info)),
        (Some(_), false) => Some(("unconfigured", Severity::Warning)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_depends_on_what_is_missing() {
        let there = || Some(Evidence::file("/x", "present"));
        let docker = Engines { docker: there(), ..Engines::default() };
        let name = |engines: &Engines| problem(engines).map(|(name, _)| name);
        assert_eq!(name(&Engines::default()), None, "a machine without Docker");
        assert_eq!(name(&docker), Some("absent"));
        assert_eq!(name(&Engines { is_snap: true, ..docker.clone() }), Some("snap"));
        let toolkit = Engines { toolkit: there(), ..docker.clone() };
        assert_eq!(name(&toolkit), Some("unconfigured"));
        let known = Some((true, Evidence::file("/etc/docker/daemon.json", "")));
        assert_eq!(name(&Engines { configuration: known.clone(), ..toolkit.clone() }), None);
        assert_eq!(name(&Engines { cdi: there(), ..toolkit }), None);
        assert_eq!(name(&Engines { configuration: known, ..docker }), Some("dangling"));
    }
}
