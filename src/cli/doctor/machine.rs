//! The doctor's main job: this machine, or a recorded one.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Findings, Severity, catalogue::FindingSubject};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::tell::Teller;
use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_doctor as doctor;
use gpubuild_doctor::snapshot::{self, DoctorSnapshot};
use gpubuild_doctor::validate::TrialOutcome;
use gpubuild_doctor::{DiagnosisCase, Filter};
use gpubuild_host::{Clock, Host, HostInfo, InspectHost};
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project::Project;

use super::{DoctorArguments, FailOn, compare, fix, validate};
use crate::cli::look::{self, MachineState};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report::doctor::DoctorReport;

/// Everything that was seen and said about a machine.
pub(in crate::cli) struct Examined {
    /// What was seen.
    pub(in crate::cli) sight: MachineState,
    /// What was found.
    pub(in crate::cli) document: DoctorReport,
}

/// Looks at a machine and tells.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    if arguments.fix && recorded.is_some() {
        return Err(Failure::usage(id!("doctor.fix-recorded"), "a recorded machine can't be fixed")
            .hint("run `gpubuild doctor --fix` on the machine itself"));
    }
    if arguments.validate && recorded.is_some() {
        return Err(Failure::usage(
            id!("doctor.validate-recorded"),
            "nothing can be run on a recorded machine",
        )
        .hint("run `gpubuild doctor --validate` on the machine itself"));
    }
    let wanted = wanted(arguments, context, host)?;
    let mut examined = examine(arguments, context, host, &wanted)?;
    if arguments.validate {
        let outcomes = validate::outcomes(context, &examined, wanted.backends.as_deref())?;
        examined.add_validation(outcomes);
    }
    let snapshot = snapshot(&examined, host);
    if let Some(file) = &arguments.diff {
        examined.document.changes = Some(compare::changes(context, file, &snapshot)?);
    }
    let document = &examined.document;
    arguments.output.deliver(document, context)?;
    if let Some(file) = &arguments.save {
        compare::save(context, file, &snapshot)?;
    }
    if arguments.fix {
        let consent = if arguments.yes { fix::Consent::Given } else { fix::Consent::Ask };
        return fix::run(context, &document.findings, consent);
    }
    Ok(exit(arguments.fail_on, document))
}

impl Examined {
    /// Adds the results of the test programs. A failure that a finding on the same backend already explains is folded under that finding.
    fn add_validation(&mut self, outcomes: Vec<TrialOutcome>) {
        let findings = Findings::embedded();
        let teller = Teller::new(&self.sight.facts, &self.sight.catalogue, &findings, false);
        let mut all = std::mem::take(&mut self.document.findings);
        for draft in outcomes.iter().filter_map(TrialOutcome::draft) {
            doctor::add(&mut all, teller.tell(&draft, Severity::Error));
        }
        self.document.set_findings(all);
        self.document.validation = Some(outcomes);
    }
}

fn snapshot(examined: &Examined, host: &dyn Clock) -> DoctorSnapshot {
    let sight = &examined.sight;
    let subject = snapshot::SnapshotSubject {
        facts: &sight.facts,
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        env: host.env(),
        findings: &examined.document.findings,
    };
    DoctorSnapshot::take(&subject, host.now())
}

/// The document about a host.
fn examine(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn InspectHost,
    wanted: &Wanted,
) -> Result<Examined, Failure> {
    let findings = Findings::embedded();
    let filter = filter(arguments, &findings)?;
    let depth = if arguments.offline { Depth::Files } else { Depth::Drivers };
    let mut examined = look_at(host, arguments.host.catalogue(context)?, wanted, &filter, depth)?;
    let checked = findings.iter().map(|(_, id, _)| id.to_owned()).filter(|id| filter.takes(id));
    examined.document.checked = checked.collect();
    examined.document.checked.sort();
    Ok(examined)
}

/// How far the looking goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Depth {
    /// Files, registry and environment.
    Files,
    /// Programs whose version no file tells, and the drivers themselves.
    Drivers,
}

/// What was seen of a machine before anything is said about it.
pub(super) struct ExaminedMachine {
    /// What `detect` sees.
    pub(super) sight: MachineState,
    probes: Probes,
    signs: doctor::MachineSigns,
}

/// Looks at a host.
pub(super) fn see(
    host: &dyn InspectHost,
    catalogue: Catalogue,
    depth: Depth,
) -> Result<ExaminedMachine, Failure> {
    look::check_overrides(host)?;
    let mut sight = look::look(host, catalogue);
    let mut probes = Probes::new();
    if depth == Depth::Drivers {
        toolkit::ask_programs(host, &sight.catalogue, &mut sight.inventory);
        probes = toolkit::ask_drivers(host, &Backend::ALL);
        sight.matrix =
            gpubuild_plan::offer::evaluate(&sight.facts, &sight.inventory, &sight.catalogue, &probes);
    }
    let signs = doctor::observe(host, &sight.facts, &sight.inventory, &sight.catalogue);
    Ok(ExaminedMachine { sight, probes, signs })
}

impl ExaminedMachine {
    /// For the checks.
    pub(super) fn case<'a>(
        &'a self,
        host: &'a dyn HostInfo,
        asked: Option<&'a [Backend]>,
    ) -> DiagnosisCase<'a> {
        DiagnosisCase {
            facts: &self.sight.facts,
            inventory: &self.sight.inventory,
            catalogue: &self.sight.catalogue,
            matrix: &self.sight.matrix,
            probes: &self.probes,
            signs: &self.signs,
            env: host.env(),
            asked,
            project: None,
        }
    }
}

/// Looks at a host and diagnoses it.
pub(in crate::cli) fn look_at(
    host: &dyn InspectHost,
    catalogue: Catalogue,
    wanted: &Wanted,
    filter: &Filter,
    depth: Depth,
) -> Result<Examined, Failure> {
    let seen = see(host, catalogue, depth)?;
    let findings = Findings::embedded();
    let asked = wanted.backends.as_deref();
    let case = DiagnosisCase {
        project: wanted.project.as_ref().map(|project| &project.file),
        ..seen.case(host, asked)
    };
    let found = doctor::diagnose(&case, &findings, filter);
    let arch_plan = doctor::arch_plan::of_case(&case);
    let shown = asked.unwrap_or(&Backend::ALL);
    let mut document = DoctorReport::of_machine(&seen.sight.facts, &seen.sight.matrix, shown, found);
    document.arch_plan = arch_plan;
    document.checked = findings
        .iter()
        .filter(|(family, id, _)| family.subject == FindingSubject::Machine && filter.takes(id))
        .map(|(_, id, _)| id.to_owned())
        .collect();
    document.checked.sort();
    Ok(Examined { sight: seen.sight, document })
}

/// What the user came for.
#[derive(Debug, Default)]
pub(in crate::cli) struct Wanted {
    /// The backends that were requested by flag, environment or project.
    pub(in crate::cli) backends: Option<Vec<Backend>>,
    /// The project in the current folder.
    project: Option<Project>,
}

/// The requested backends.
pub(super) fn asked(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
) -> Result<Option<Vec<Backend>>, Failure> {
    Ok(wanted(arguments, context, host)?.backends)
}

fn wanted(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
) -> Result<Wanted, Failure> {
    let project = match (&arguments.project, &arguments.host.host) {
        (Some(folder), _) => Some(look::project(context, Some(folder))?),
        // A recording is looked at for itself, wherever that happens.
        (None, Some(_)) => None,
        (None, None) => match look::project(context, None) {
            Ok(project) => Some(project),
            // Without a project nothing is asked for; with a broken one that has to be said.
            Err(failure) if failure.id == "project.not-found" => None,
            Err(failure) => return Err(failure),
        },
    };
    let request = look::request(arguments.backends.as_deref(), host, project.as_ref())?;
    let backends = match request.selection {
        BackendSelection::Auto => None,
        BackendSelection::Named(list) => Some(list),
    };
    Ok(Wanted { backends, project })
}

pub(super) fn filter(arguments: &DoctorArguments, findings: &Findings) -> Result<Filter, Failure> {
    for pattern in arguments.only.iter().chain(&arguments.skip) {
        let known =
            findings.iter().any(|(_, id, _)| gpubuild_detect::finding::catalogue::matches(pattern, id));
        if !known {
            return Err(Failure::usage(
                id!("doctor.check-unknown"),
                format!("no check is called `{pattern}`"),
            )
            .hint("`gpubuild doctor --list-checks` shows all of them"));
        }
    }
    Ok(Filter { only: arguments.only.clone(), skip: arguments.skip.clone() })
}

pub(in crate::cli) fn exit(fail_on: FailOn, document: &DoctorReport) -> Exit {
    let bad = match fail_on {
        FailOn::Error => document.summary.errors > 0,
        FailOn::Warning => document.summary.errors + document.summary.warnings > 0,
        FailOn::Never => false,
    };
    if bad { Exit::Negative } else { Exit::Done }
}
