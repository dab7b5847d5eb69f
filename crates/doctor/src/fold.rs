//! Causes, not symptoms: what follows from another finding is told under it, and the root cause comes first.

use gpubuild_detect::finding::{Consequence, Finding, FindingEntry, Severity, catalogue};

/// A finding with what the catalogue says about its place among causes.
pub(super) struct FoldedFinding {
    pub(super) rank: u32,
    pub(super) entry: FindingEntry,
    pub(super) finding: Finding,
}

/// Up to this rank stand kernel drivers, containers and permissions, which every backend of a card shares.
const DRIVERS: u32 = 20;

impl FoldedFinding {
    fn is_of_driver(&self) -> bool {
        self.rank <= DRIVERS && self.finding.severity == Severity::Error
    }
}

/// The causes, errors first, each with its consequences.
pub(super) fn fold(mut told: Vec<FoldedFinding>) -> Vec<Finding> {
    told.sort_by(|left, right| key(left).cmp(&key(right)));
    let causes: Vec<Option<usize>> = (0..told.len()).map(|index| cause_of(&told, index)).collect();
    let mut consequences: Vec<Vec<Consequence>> = told.iter().map(|_| Vec::new()).collect();
    for (index, one) in told.iter().enumerate() {
        if let Some(root) = root(&causes, index) {
            let finding = &one.finding;
            consequences[root].push(Consequence {
                id: finding.id,
                backend: finding.backend,
                summary: finding.summary.clone(),
            });
        }
    }
    let lists = consequences.into_iter().zip(&causes);
    told.into_iter()
        .zip(lists)
        .filter(|(_, (_, cause))| cause.is_none())
        .map(|(one, (consequences, _))| Finding { consequences, ..one.finding })
        .collect()
}

fn key(told: &FoldedFinding) -> (Severity, bool, u32, Option<gpubuild_core::backend::Backend>, &str) {
    (told.finding.severity, told.entry.symptom, told.rank, told.finding.backend, &told.finding.id)
}

/// The nearest cause of a finding among the others.
fn cause_of(told: &[FoldedFinding], index: usize) -> Option<usize> {
    let one = &told[index];
    let named = told.iter().enumerate().position(|(other, cause)| {
        other != index
            && one.entry.follows.iter().any(|pattern| catalogue::matches(pattern, &cause.finding.id))
            // What does not matter here explains nothing that does.
            && cause.finding.severity <= one.finding.severity
            // A cause never follows from its own consequence.
            && !cause.entry.follows.iter().any(|pattern| catalogue::matches(pattern, &one.finding.id))
    });
    named.or_else(|| one.entry.symptom.then(|| told.iter().position(|cause| explains(cause, one)))?)
}

/// A symptom is explained by any real finding that blocks the same backend in the same way, or a driver that all share.
fn explains(cause: &FoldedFinding, symptom: &FoldedFinding) -> bool {
    !cause.entry.symptom
        && cause.finding.severity <= symptom.finding.severity
        && cause.finding.severity < Severity::Info
        && (cause.finding.backend == symptom.finding.backend || cause.is_of_driver())
        && cause.finding.affects.iter().any(|affects| symptom.finding.affects.contains(affects))
}

/// The end of the chain of causes, `None` for one without.
fn root(causes: &[Option<usize>], index: usize) -> Option<usize> {
    let mut at = causes[index]?;
    // A chain is never longer than the list; a circle in the data ends here instead of never.
    for _ in 0..causes.len() {
        match causes[at] {
            Some(next) => at = next,
            None => return Some(at),
        }
    }
    None
}
