//! The states of the backends after all checks, which `detect` and the doctor both report.

use gpubuild_detect::finding::{Affects, FindingDraft, Findings, Severity};
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};

use crate::fold::FoldedFinding;
use crate::interest;

/// Adds the errors of the checks to the verdicts: a backend about which there is an error is not ready. `order` contains the drafts'
/// findings, the root cause first.
pub(super) fn limit(
    matrix: &Matrix,
    findings: &Findings,
    drafts: &[FindingDraft],
    order: &[FoldedFinding],
) -> Matrix {
    let mut matrix = matrix.clone();
    for error in order.iter().filter(|one| one.finding.severity == Severity::Error) {
        let Some(draft) = drafts.iter().find(|draft| draft.id == error.finding.id) else { continue };
        for backend in interest::backends(findings, draft) {
            let Some(verdict) = matrix.verdicts.iter_mut().find(|verdict| verdict.backend == backend) else {
                continue;
            };
            for affects in &error.finding.affects {
                match affects {
                    Affects::Hardware => {}
                    Affects::Build => add(&mut verdict.build, &mut verdict.build_reasons, error),
                    Affects::Run => add(&mut verdict.run, &mut verdict.run_reasons, error),
                }
            }
        }
    }
    matrix
}

/// Adds an error to a state that is not blocked. The verdict's own reasons come from the parts that gpubuild itself uses. An error
/// beside them blocks other build systems, programs or devices, or explains what the verdict could not determine.
fn add(state: &mut Readiness, reasons: &mut Vec<Reason>, error: &FoldedFinding) {
    *state = match *state {
        Readiness::Ready | Readiness::Limited => Readiness::Limited,
        Readiness::Unknown => Readiness::Blocked,
        Readiness::Blocked => return,
    };
    let finding = &error.finding;
    if reasons.iter().any(|known| known.id == finding.id) {
        return;
    }
    let reason = Reason::new(finding.id, &finding.summary);
    let hint = &finding.remedy.text;
    reasons.push(if hint.is_empty() { reason } else { reason.hint(hint) });
}
