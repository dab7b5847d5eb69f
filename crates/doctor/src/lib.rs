//! The doctor: names the cause, proves it, gives the fix.
//!
//! Checks are pure: they look at a [`DiagnosisCase`] and hand over [`FindingDraft`]s. [`Teller`] gives these their words and commands for
//! this machine, [`diagnose`] settles severities and folds what follows from something else under its cause.

mod advice;
pub mod arch_plan;
pub mod binary;
pub mod checks;
mod driver;
pub mod file;
mod fold;
mod interest;
pub mod packages;
pub mod resolvers;
pub mod self_check;
pub mod signs;
pub mod snapshot;
pub mod validate;

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{
    Consequence, Finding, FindingDraft, FindingKind, Findings, Severity, catalogue,
};
use gpubuild_detect::matrix::{Matrix, Probes};
use gpubuild_detect::tell::Teller;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{Environment, InspectHost};
use gpubuild_plan::project::ProjectFile;

pub use signs::MachineSigns;

/// Everything that a check may look at.
#[derive(Clone, Copy)]
pub struct DiagnosisCase<'a> {
    /// Facts of the machine.
    pub facts: &'a Facts,
    /// Toolkits, tools and runtimes on it.
    pub inventory: &'a Inventory,
    /// The descriptions that they were found by.
    pub catalogue: &'a Catalogue,
    /// The verdicts.
    pub matrix: &'a Matrix,
    /// What the drivers answered.
    pub probes: &'a Probes,
    /// What only the doctor looks for.
    pub signs: &'a MachineSigns,
    /// The environment.
    pub env: &'a Environment,
    /// The backends that somebody asked for; `None` if nobody asked for any.
    pub asked: Option<&'a [Backend]>,
    /// What the project in the current folder says, if there is one.
    pub project: Option<&'a ProjectFile>,
}

/// The rank of ids of a `--toolkits` folder, which have no entry.
const LAST: u32 = 90;

/// Which checks are run.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Ids or groups (`nv.*`); all if empty.
    pub only: Vec<String>,
    /// Ids or groups that are left out.
    pub skip: Vec<String>,
}

impl Filter {
    /// Whether a finding is wanted.
    #[must_use]
    pub fn takes(&self, id: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|pattern| catalogue::matches(pattern, id));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// Looks at a machine beyond what `detect` needs: files and the environment only.
#[must_use]
pub fn observe(
    host: &dyn InspectHost,
    facts: &Facts,
    inventory: &Inventory,
    catalogue: &Catalogue,
) -> MachineSigns {
    MachineSigns::gather(host, facts, inventory, catalogue)
}

/// Every finding on a case, the root cause first.
#[must_use]
pub fn diagnose(case: &DiagnosisCase<'_>, findings: &Findings, filter: &Filter) -> Vec<Finding> {
    let mut list = settle(case, findings, &drafts(case));
    list.retain(|finding| filter.takes(&finding.id));
    list
}

/// What the verdicts and the checks say about a machine.
fn drafts(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let mut drafts = checks::verdicts(case);
    for check in checks::all() {
        for draft in (check.run)(case) {
            merge(&mut drafts, draft);
        }
    }
    drafts
}

/// Gives drafts their words and severities, and folds what follows from something else under its cause.
fn settle(case: &DiagnosisCase<'_>, findings: &Findings, drafts: &[FindingDraft]) -> Vec<Finding> {
    let teller = Teller::new(case.facts, case.catalogue, findings, case.signs.is_root);
    let severities = interest::severities(case, findings, drafts);
    let told: Vec<fold::FoldedFinding> = drafts
        .iter()
        .zip(severities)
        .map(|(draft, severity)| {
            let known = findings.find(&draft.id);
            let rank = known.map_or(LAST, |(family, entry)| entry.rank.unwrap_or(family.rank));
            let entry = known.map(|(_, entry)| entry.clone()).unwrap_or_default();
            fold::FoldedFinding { rank, entry, finding: teller.tell(draft, severity) }
        })
        .collect();
    fold::fold(told)
}

/// The findings on a file that was examined, and those on the machine that they follow from.
#[must_use]
pub fn diagnose_binary(
    case: &DiagnosisCase<'_>,
    findings: &Findings,
    examined: &binary::Examined,
    filter: &Filter,
) -> Vec<Finding> {
    let own: Vec<FindingDraft> = examined
        .drafts
        .iter()
        .cloned()
        .map(|draft| {
            // A file is examined because somebody wants to run it: what it lacks matters whatever the hardware.
            let kind = findings.get(&draft.id).map_or(FindingKind::Fault, |entry| entry.kind);
            match kind {
                FindingKind::Fault | FindingKind::Absence => draft.severity(Severity::Error),
                FindingKind::Caution => draft.severity(Severity::Warning),
                FindingKind::Note => draft.severity(Severity::Info),
            }
        })
        .collect();
    let is_own = |id: &str| own.iter().any(|draft| draft.id == id);
    let machine = drafts(case).into_iter().filter(|draft| !is_own(&draft.id));
    let all: Vec<FindingDraft> = machine.chain(own.iter().cloned()).collect();
    let mut list = settle(case, findings, &all);
    list.retain(|finding| {
        let explains = finding.consequences.iter().any(|consequence| is_own(&consequence.id));
        (is_own(&finding.id) || explains) && filter.takes(&finding.id)
    });
    for finding in &mut list {
        // What else follows from the machine's state is no matter of this file.
        if !is_own(&finding.id) {
            finding.consequences.retain(|consequence| is_own(&consequence.id));
        }
    }
    list
}

/// Adds a finding that was made later: under an error that blocks the same backend in the same way if there is one,
/// otherwise in its place among the others.
pub fn add(findings: &mut Vec<Finding>, finding: Finding) {
    let explains = |cause: &&mut Finding| {
        cause.severity == Severity::Error
            && cause.backend == finding.backend
            && cause.affects.iter().any(|affects| finding.affects.contains(affects))
    };
    if let Some(cause) = findings.iter_mut().find(explains) {
        cause.consequences.push(Consequence {
            id: finding.id,
            backend: finding.backend,
            summary: finding.summary,
        });
        return;
    }
    let place = findings.iter().position(|other| other.severity > finding.severity).unwrap_or(findings.len());
    findings.insert(place, finding);
}

/// A check that knows more than a verdict replaces its words and adds to its evidence.
fn merge(drafts: &mut Vec<FindingDraft>, mut draft: FindingDraft) {
    let Some(known) = drafts.iter_mut().find(|known| known.id == draft.id) else {
        drafts.push(draft);
        return;
    };
    for evidence in std::mem::take(&mut known.evidence) {
        draft = draft.evidence(evidence);
    }
    for (name, value) in std::mem::take(&mut known.values) {
        draft.values.entry(name).or_insert(value);
    }
    for backend in known.backends.clone() {
        draft = draft.backend(backend);
    }
    for affects in known.affects.clone() {
        draft = draft.affects(affects);
    }
    draft.summary = draft.summary.or_else(|| known.summary.take());
    draft.fix = draft.fix.or_else(|| known.fix.take());
    draft.about = draft.about.or_else(|| known.about.take());
    draft.case = draft.case.or_else(|| known.case.take());
    draft.severity = draft.severity.or(known.severity);
    draft.kind = draft.kind.or(known.kind);
    for (name, steps) in std::mem::take(&mut known.steps) {
        draft.steps.entry(name).or_insert(steps);
    }
    *known = draft;
}

/// How many findings of a severity there are.
#[must_use]
pub fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}
