//! The doctor: diagnoses a machine, a build, a binary or a project, with evidence and a remedy for each problem.
//!
//! Checks are pure functions from a [`DiagnosisCase`] to [`FindingDraft`]s. [`FindingRenderer`] fills in the messages and commands for
//! this machine; [`diagnose`] assigns severities and lists consequences under their cause.

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
pub mod setup;
pub mod signs;
pub mod snapshot;
mod states;
pub mod validate;

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{
    Consequence, Finding, FindingDraft, FindingKind, Findings, Remedy, Severity, catalogue,
};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::matrix::{Matrix, Probes};
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{Environment, InspectHost};
use gpubuild_plan::project::ProjectFile;

pub use signs::MachineSigns;

/// The input of all checks.
#[derive(Clone, Copy)]
pub struct DiagnosisCase<'a> {
    /// Observed facts about the machine.
    pub facts: &'a Facts,
    /// Detected toolkits, tools and runtimes.
    pub inventory: &'a Inventory,
    /// The toolkit descriptions that detection used.
    pub catalogue: &'a Catalogue,
    /// The verdict of each backend.
    pub matrix: &'a Matrix,
    /// Answers of the driver probes.
    pub probes: &'a Probes,
    /// Observations that only the doctor makes.
    pub signs: &'a MachineSigns,
    /// The host's environment variables.
    pub env: &'a Environment,
    /// The requested backends; `None` without a request.
    pub asked: Option<&'a [Backend]>,
    /// The `gpubuild.toml` of the current folder, if there is one.
    pub project: Option<&'a ProjectFile>,
}

/// Rank of findings without a catalogue entry, such as those of a `--toolkits` folder.
const LAST: u32 = 90;

/// Selects findings by id.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Ids or groups (`nv.*`) to report; empty reports all.
    pub only: Vec<String>,
    /// Ids or groups to exclude.
    pub skip: Vec<String>,
}

impl Filter {
    /// Whether findings with this id are reported.
    #[must_use]
    pub fn takes(&self, id: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|pattern| catalogue::matches(pattern, id));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// Collects what the checks need beyond the facts of `detect`; reads files and the environment only.
#[must_use]
pub fn observe(
    host: &dyn InspectHost,
    facts: &Facts,
    inventory: &Inventory,
    catalogue: &Catalogue,
) -> MachineSigns {
    MachineSigns::gather(host, facts, inventory, catalogue)
}

/// The states of the backends after all checks.
#[must_use]
pub fn states(
    host: &dyn InspectHost,
    facts: &Facts,
    inventory: &Inventory,
    catalogue: &Catalogue,
    matrix: &Matrix,
    probes: &Probes,
) -> Matrix {
    let signs = MachineSigns::for_states(&signs::SignContext { host, facts, inventory, catalogue });
    let env = host.env();
    let (asked, project) = (None, None);
    let case =
        DiagnosisCase { facts, inventory, catalogue, matrix, probes, signs: &signs, env, asked, project };
    let findings = Findings::embedded();
    let drafts = drafts(&case);
    // Nothing else affects a state, and the texts of a finding take longer than its check.
    let mut errors = rendered(&case, &findings, &drafts, |severity| severity == Severity::Error);
    fold::sort(&mut errors);
    states::limit(matrix, &findings, &drafts, &errors)
}

/// The findings about a machine, and the states of its backends that follow from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The selected findings, root causes first.
    pub findings: Vec<Finding>,
    /// The verdicts of the case. A backend about which any check reports an error is limited or blocked.
    pub matrix: Matrix,
}

/// Runs all checks. The filter selects findings; it does not change the states.
#[must_use]
pub fn assess(case: &DiagnosisCase<'_>, findings: &Findings, filter: &Filter) -> Assessment {
    let drafts = drafts(case);
    let mut list = rendered(case, findings, &drafts, |_| true);
    fold::sort(&mut list);
    let matrix = states::limit(case.matrix, findings, &drafts, &list);
    let mut list = fold::fold(list);
    list.retain(|finding| filter.takes(&finding.id));
    Assessment { findings: list, matrix }
}

/// All findings, root causes first.
#[must_use]
pub fn diagnose(case: &DiagnosisCase<'_>, findings: &Findings, filter: &Filter) -> Vec<Finding> {
    assess(case, findings, filter).findings
}

/// Drafts from the verdicts and all checks.
fn drafts(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let mut drafts = checks::verdicts(case);
    for check in checks::all() {
        for draft in (check.run)(case) {
            merge(&mut drafts, draft);
        }
    }
    for draft in checks::variables(case, &drafts) {
        merge(&mut drafts, draft);
    }
    drafts
}

/// Renders drafts, assigns severities, and lists consequences under their cause.
fn settle(case: &DiagnosisCase<'_>, findings: &Findings, drafts: &[FindingDraft]) -> Vec<Finding> {
    let mut list = rendered(case, findings, drafts, |_| true);
    fold::sort(&mut list);
    fold::fold(list)
}

/// The rendered drafts with the selected severities.
fn rendered(
    case: &DiagnosisCase<'_>,
    findings: &Findings,
    drafts: &[FindingDraft],
    is_selected: fn(Severity) -> bool,
) -> Vec<fold::FoldedFinding> {
    let renderer = FindingRenderer::new(case.facts, case.catalogue, findings, case.facts.is_root);
    let severities = interest::severities(case, findings, drafts);
    drafts
        .iter()
        .zip(severities)
        .filter(|(_, severity)| is_selected(*severity))
        .map(|(draft, severity)| {
            let known = findings.find(&draft.id);
            let rank = known.map_or(LAST, |(family, entry)| entry.rank.unwrap_or(family.rank));
            let entry = known.map(|(_, entry)| entry.clone()).unwrap_or_default();
            let mut finding = renderer.render(draft, severity);
            fit_to_packages(&mut finding.remedy, &case.signs.packages);
            if draft.case.is_none() {
                prefer_without_root(case, &mut finding);
            }
            finding.remedy.safe = setup::is_safe(&finding.remedy, case.facts.platform.os);
            fold::FoldedFinding { rank, entry, finding }
        })
        .collect()
}

/// Leaves out the packages that are installed, and those that this release of the distribution does not have.
fn fit_to_packages(remedy: &mut Remedy, packages: &signs::packages::PackageSigns) {
    let (commands, missing) = signs::packages::without_needless(&remedy.commands, packages);
    if commands == remedy.commands {
        return;
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        remedy.text = format!("{}; {} has no package {}", remedy.text, packages.release, names.join(", "));
    }
    if !commands.iter().any(|command| command.contains("sudo ")) {
        remedy.needs.retain(|need| need != "sudo");
    }
    remedy.commands = commands;
}

/// Replaces the commands of a finding by the one that unpacks the distribution's packages without root, if it resolves the finding
/// on this machine. The commands that need root become part of the text.
fn prefer_without_root(case: &DiagnosisCase<'_>, finding: &mut Finding) {
    let Some(command) = gpubuild_plan::packages::command(case.facts, &finding.id) else { return };
    let remedy = &mut finding.remedy;
    if remedy.commands.is_empty() {
        return;
    }
    let other: Vec<String> = remedy.commands.iter().map(|command| format!("`{command}`")).collect();
    remedy.text = format!(
        "{}: without root with `{command}`, or for all users with {}",
        remedy.text,
        other.join(" and ")
    );
    remedy.commands = vec![command];
    remedy.needs.retain(|need| need != "sudo");
}

/// Findings about an examined file, and the machine findings that cause them.
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
            // The user wants to run this file, so its findings count whatever the hardware.
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
        // Other consequences of the machine's state do not concern this file.
        if !is_own(&finding.id) {
            finding.consequences.retain(|consequence| is_own(&consequence.id));
        }
    }
    list
}

/// Inserts a finding in severity order, or as a consequence of an error that blocks the same backend in the same way.
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

/// Merges a draft into an existing one with the same id. The texts of the new draft take precedence; evidence and values are
/// combined.
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

/// Number of findings with a severity.
#[must_use]
pub fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}
