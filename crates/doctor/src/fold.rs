//! Lists consequences under their cause, and root causes first.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::finding::{Consequence, Finding, FindingEntry, Severity, catalogue};

/// A rendered finding with its catalogue entry.
pub(super) struct FoldedFinding {
    pub(super) rank: u32,
    pub(super) entry: FindingEntry,
    pub(super) finding: Finding,
}

/// Highest rank of kernel drivers, containers and permissions, which all backends of a GPU share.
const DRIVERS: u32 = 20;

impl FoldedFinding {
    fn is_driver_error(&self) -> bool {
        self.rank <= DRIVERS && self.finding.severity == Severity::Error
    }
}

/// Sorts findings: errors first, and causes before symptoms.
pub(super) fn sort(folded: &mut [FoldedFinding]) {
    folded.sort_indirect_by(|left, right| key(left).cmp(&key(right)));
}

/// Root causes of sorted findings, each with its consequences.
pub(super) fn fold(folded: Vec<FoldedFinding>) -> Vec<Finding> {
    let causes: Vec<Option<usize>> = (0..folded.len()).map(|index| cause_of(&folded, index)).collect();
    let mut consequences: Vec<Vec<Consequence>> = folded.iter().map(|_| Vec::new()).collect();
    for (index, one) in folded.iter().enumerate() {
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
    folded
        .into_iter()
        .zip(lists)
        .filter(|(_, (_, cause))| cause.is_none())
        .map(|(one, (consequences, _))| Finding { consequences, ..one.finding })
        .collect()
}

fn key(folded: &FoldedFinding) -> (Severity, bool, u32, Option<Backend>, &str) {
    (folded.finding.severity, folded.entry.symptom, folded.rank, folded.finding.backend, &folded.finding.id)
}

/// Index of the first cause of a finding among the others.
fn cause_of(folded: &[FoldedFinding], index: usize) -> Option<usize> {
    let one = &folded[index];
    let named = folded.iter().enumerate().position(|(other, cause)| {
        other != index
            && one.entry.follows.iter().any(|pattern| catalogue::matches(pattern, &cause.finding.id))
            // A fault of one vendor's packages or driver does not explain problems with GPUs of another.
            && can_share_gpu(cause.finding.backend, one.finding.backend)
            // A finding does not explain a more severe one.
            && cause.finding.severity <= one.finding.severity
            // Skip a pair where each follows from the other.
            && !cause.entry.follows.iter().any(|pattern| catalogue::matches(pattern, &one.finding.id))
    });
    named.or_else(|| one.entry.symptom.then(|| folded.iter().position(|cause| explains(cause, one)))?)
}

/// Whether a finding that is not a symptom explains a symptom: it affects the same question (build, run, hardware) of the same
/// backend, or is an error of a driver that all backends share.
fn explains(cause: &FoldedFinding, symptom: &FoldedFinding) -> bool {
    !cause.entry.symptom
        && cause.finding.severity <= symptom.finding.severity
        && cause.finding.severity < Severity::Info
        && (cause.finding.backend == symptom.finding.backend
            || (cause.is_driver_error() && can_share_gpu(cause.finding.backend, symptom.finding.backend)))
        && cause.finding.affects.iter().any(|affects| symptom.finding.affects.contains(affects))
}

/// Whether one GPU can serve both backends. Those of one vendor each cannot: a fault of NVIDIA's driver does not explain ROCm's.
fn can_share_gpu(left: Option<Backend>, right: Option<Backend>) -> bool {
    let of_vendor = |backend: Option<Backend>| {
        backend.filter(|one| matches!(one, Backend::Cuda | Backend::Rocm | Backend::Sycl | Backend::Metal))
    };
    match (of_vendor(left), of_vendor(right)) {
        (Some(left), Some(right)) => left == right,
        _ => true,
    }
}

/// Follows the chain of causes to its end; `None` for a finding without a cause.
fn root(causes: &[Option<usize>], index: usize) -> Option<usize> {
    let mut at = causes[index]?;
    // A chain has at most as many links as the list has entries, so a cycle in the data terminates.
    for _ in 0..causes.len() {
        match causes[at] {
            Some(next) => at = next,
            None => return Some(at),
        }
    }
    None
}
