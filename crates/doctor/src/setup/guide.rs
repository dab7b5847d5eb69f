//! Selects the next step and judges the last one.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Finding, Severity};
use serde::Serialize;

use super::step::SetupStep;

/// What was done about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// All commands ran, or the user did it.
    Done,
    /// A command failed; later ones were not run.
    Failed(String),
    /// The user skipped it.
    Skipped,
    /// Only the user can do it.
    Manual,
    /// It needs root, which was not allowed.
    NeedsRoot,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StepOutcome {
    /// The doctor no longer reports the finding.
    Fixed,
    /// The doctor still reports it.
    Remains,
    /// The doctor reports it until the system is restarted or the user logs in again.
    Waiting,
    /// A command failed.
    Failed,
    /// The user skipped it.
    Skipped,
    /// Only the user can do it.
    Manual,
    /// It needs root, which was not allowed.
    NeedsRoot,
}

/// A step that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepResult {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// The affected backend, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// The result.
    pub outcome: StepOutcome,
    /// Why a command failed, or what has to happen first: `reboot`, `relogin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The steps of a machine: each finding gets one.
#[derive(Debug, Default)]
pub struct SetupGuide {
    results: Vec<StepResult>,
}

impl SetupGuide {
    /// The finding to fix next: the first error or warning without a step. Findings of a backend that waits for a restart come
    /// later, because its state is not known before.
    #[must_use]
    pub fn next<'f>(&self, findings: &'f [Finding]) -> Option<&'f Finding> {
        let is_over = |finding: &Finding| {
            self.results.iter().any(|result| {
                let same_backend = result.backend == finding.backend;
                same_backend && (result.id == finding.id || result.outcome == StepOutcome::Waiting)
            })
        };
        findings.iter().find(|finding| finding.severity < Severity::Info && !is_over(finding))
    }

    /// Records what was done about a step. `findings` are those of the machine after it.
    pub fn settle(&mut self, step: &SetupStep, attempt: Attempt, findings: &[Finding]) -> &StepResult {
        let is_fixed = !findings.iter().any(|finding| step.fixes(finding));
        let (outcome, message) = match attempt {
            Attempt::Failed(why) => (StepOutcome::Failed, Some(why)),
            Attempt::Done | Attempt::Manual if is_fixed => (StepOutcome::Fixed, None),
            Attempt::Done => match step.waits_for() {
                Some(event) => (StepOutcome::Waiting, Some(event.to_owned())),
                None => (StepOutcome::Remains, None),
            },
            Attempt::Skipped => (StepOutcome::Skipped, None),
            Attempt::Manual => (StepOutcome::Manual, None),
            Attempt::NeedsRoot => (StepOutcome::NeedsRoot, None),
        };
        self.results.push(StepResult { id: step.id, backend: step.backend, outcome, message });
        &self.results[self.results.len() - 1]
    }

    /// The steps that are over, in order.
    #[must_use]
    pub fn results(&self) -> &[StepResult] {
        &self.results
    }
}

#[cfg(test)]
mod tests {
    use gpubuild_core::Os;
    use gpubuild_detect::finding::{Findings, Remedy};
    use gpubuild_detect::id;

    use super::super::step::{ManualReason, StepMode};
    use super::*;

    fn finding(id: DiagnosticId, severity: Severity, commands: &[&str], needs: &[&str]) -> Finding {
        Finding {
            id,
            severity,
            backend: Some(Backend::Cuda),
            affects: Vec::new(),
            summary: "problem".to_owned(),
            evidence: Vec::new(),
            remedy: Remedy {
                text: "fix it".to_owned(),
                commands: commands.iter().map(|&command| command.to_owned()).collect(),
                needs: needs.iter().map(|&need| need.to_owned()).collect(),
                ..Remedy::default()
            },
            links: Vec::new(),
            consequences: Vec::new(),
        }
    }

    fn step(finding: &Finding) -> SetupStep {
        SetupStep::of(finding, &Findings::embedded(), Os::Linux)
    }

    #[test]
    fn every_finding_gets_one_step_and_notes_get_none() {
        let list = [
            finding(id!("nv.driver.too-old"), Severity::Error, &["true"], &[]),
            finding(id!("nv.cudart-mixed"), Severity::Warning, &["unset LD_LIBRARY_PATH"], &[]),
            finding(id!("cuda.stub-missing"), Severity::Info, &["true"], &[]),
        ];
        let mut guide = SetupGuide::default();
        let mut order = Vec::new();
        while let Some(next) = guide.next(&list) {
            order.push(next.id);
            let step = step(next);
            guide.settle(&step, Attempt::Done, &list);
        }
        assert_eq!(order, ["nv.driver.too-old", "nv.cudart-mixed"]);
        assert!(guide.results().iter().all(|result| result.outcome == StepOutcome::Remains));
    }

    #[test]
    fn the_doctor_decides_whether_a_step_worked() {
        let one = finding(id!("nv.driver.too-old"), Severity::Error, &["true"], &[]);
        let settle = |attempt: Attempt, after: &[Finding]| {
            SetupGuide::default().settle(&step(&one), attempt, after).outcome
        };
        assert_eq!(settle(Attempt::Done, &[]), StepOutcome::Fixed);
        assert_eq!(settle(Attempt::Manual, &[]), StepOutcome::Fixed, "the user did it meanwhile");
        assert_eq!(settle(Attempt::Manual, std::slice::from_ref(&one)), StepOutcome::Manual);
        assert_eq!(settle(Attempt::Failed("status 1".to_owned()), &[]), StepOutcome::Failed);
        let other = Finding { backend: Some(Backend::Vulkan), ..one.clone() };
        assert_eq!(settle(Attempt::Done, &[other]), StepOutcome::Fixed, "another backend's finding");
    }

    #[test]
    fn findings_behind_a_restart_wait() {
        let driver = finding(id!("nv.driver.too-old"), Severity::Error, &["true"], &["reboot"]);
        let later = finding(id!("nv.cudart-mixed"), Severity::Warning, &["true"], &[]);
        let other = Finding { backend: Some(Backend::Vulkan), ..later.clone() };
        let list = [driver.clone(), later, other.clone()];
        let mut guide = SetupGuide::default();
        let result = guide.settle(&step(&driver), Attempt::Done, &list);
        assert_eq!((result.outcome, result.message.as_deref()), (StepOutcome::Waiting, Some("reboot")));
        assert_eq!(guide.next(&list), Some(&other));
    }

    #[test]
    fn a_remedy_is_run_completely_or_not_at_all() {
        let mode = |commands: &[&str], needs: &[&str]| {
            step(&finding(id!("nv.driver.too-old"), Severity::Error, commands, needs)).mode
        };
        assert_eq!(mode(&["true"], &[]), StepMode::User);
        assert_eq!(mode(&["true", "sudo true"], &["sudo"]), StepMode::Root);
        assert_eq!(
            mode(&["true", "docker run IMAGE  # on the host"], &[]),
            StepMode::Manual(ManualReason::Outside)
        );
        assert_eq!(mode(&["true", "pip install PACKAGE"], &[]), StepMode::Manual(ManualReason::Example));
        assert_eq!(mode(&["true"], &["admin"]), StepMode::Manual(ManualReason::Administrator));
        assert_eq!(mode(&[], &[]), StepMode::Manual(ManualReason::NoCommand));
        assert_eq!(
            mode(&["tr\u{200b}ue"], &[]),
            StepMode::Manual(ManualReason::NoCommand),
            "hidden characters"
        );
    }
}
