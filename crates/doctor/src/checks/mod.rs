//! The checks: pure functions from a case to drafts, one module per family of `findings/`.

mod container;
mod cuda_build;
mod cuda_toolkit;
mod general;
mod graphics;
mod nvidia;
mod rocm;
mod unfinished;
mod variables;
mod verdicts;

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::FindingDraft;

use super::DiagnosisCase;
use nvidia::NvidiaView;

pub(super) use variables::variables;
pub(super) use verdicts::verdicts;

/// A check.
#[derive(Clone, Copy)]
pub struct DoctorCheck {
    /// The id of its finding.
    pub id: DiagnosticId,
    /// Returns the drafts for a case; empty if there is no problem.
    pub run: fn(&DiagnosisCase<'_>) -> Vec<FindingDraft>,
}

/// All checks besides the verdicts, family by family.
pub fn all() -> impl Iterator<Item = &'static DoctorCheck> {
    [
        general::CHECKS,
        cuda_toolkit::CHECKS,
        cuda_build::CHECKS,
        nvidia::CHECKS,
        container::CHECKS,
        rocm::CHECKS,
        graphics::CHECKS,
        unfinished::CHECKS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::finding::Findings;

    #[test]
    fn every_check_has_a_catalogue_entry() {
        let findings = Findings::embedded();
        for check in all() {
            assert!(findings.get(&check.id).is_some(), "`{}` is missing in findings/", check.id);
        }
    }
}
