//! Diagnoses this machine or a recorded one.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::finding::{Findings, Severity, catalogue::FindingSubject};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_doctor as doctor;
use gpubuild_doctor::snapshot::{self, DoctorSnapshot};
use gpubuild_doctor::validate::TrialOutcome;
use gpubuild_doctor::{Assessment, DiagnosisCase, Filter};
use gpubuild_host::{Clock, Host, HostInfo, InspectHost};
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project::Project;

use super::{DoctorArguments, FailOn, compare, fix, validate};
use crate::cli::machine::{self, MachineState};
use crate::cli::project::{backend_request, open_project};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report::doctor::DoctorReport;

/// The state of a machine and the report about it.
pub(in crate::cli) struct Diagnosis {
    pub(in crate::cli) machine: MachineState,
    pub(in crate::cli) document: DoctorReport,
}

/// Diagnoses the machine, prints the report, and runs the actions that the options select.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    if arguments.fix && recorded.is_some() {
        return Err(Failure::usage(id!("doctor.fix-recorded"), "a recorded machine cannot be fixed")
            .hint("run `gpubuild doctor --fix` on the machine itself"));
    }
    if arguments.validate && recorded.is_some() {
        return Err(Failure::usage(
            id!("doctor.validate-recorded"),
            "a recorded machine cannot run test programs",
        )
        .hint("run `gpubuild doctor --validate` on the machine itself"));
    }
    let request = request(arguments, context, host)?;
    let mut diagnosis = diagnose_with_filter(arguments, context, host, &request)?;
    if arguments.validate {
        let outcomes = validate::outcomes(context, &diagnosis, request.backends.as_deref())?;
        diagnosis.add_validation(outcomes);
    }
    let snapshot = snapshot(&diagnosis, host);
    if let Some(file) = &arguments.diff {
        diagnosis.document.changes = Some(compare::changes(context, file, &snapshot)?);
    }
    let document = &diagnosis.document;
    // Before the report: if it fails, the error is the only document on standard output.
    if let Some(file) = &arguments.save {
        compare::save(context, file, &snapshot)?;
    }
    arguments.output.deliver(document, context)?;
    if arguments.fix {
        let consent = if arguments.yes { fix::Consent::Given } else { fix::Consent::Ask };
        return fix::run(context, &document.findings, consent);
    }
    Ok(exit(arguments.fail_on, document))
}

impl Diagnosis {
    /// Adds the results of the test programs. A failure that a finding about the same backend explains becomes a consequence of that
    /// finding.
    fn add_validation(&mut self, outcomes: Vec<TrialOutcome>) {
        let findings = Findings::embedded();
        let renderer = FindingRenderer::new(&self.machine.facts, &self.machine.catalogue, &findings, false);
        let mut all = std::mem::take(&mut self.document.findings);
        for draft in outcomes.iter().filter_map(TrialOutcome::draft) {
            doctor::add(&mut all, renderer.render(&draft, Severity::Error));
        }
        self.document.set_findings(all);
        self.document.validation = Some(outcomes);
    }
}

fn snapshot(diagnosis: &Diagnosis, host: &dyn Clock) -> DoctorSnapshot {
    let machine = &diagnosis.machine;
    let subject = snapshot::SnapshotSubject {
        facts: &machine.facts,
        inventory: &machine.inventory,
        catalogue: &machine.catalogue,
        matrix: &machine.matrix,
        env: host.env(),
        findings: &diagnosis.document.findings,
    };
    DoctorSnapshot::take(&subject, host.now())
}

/// Diagnoses a host with the checks and the depth that the options select.
fn diagnose_with_filter(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn InspectHost,
    request: &DoctorRequest,
) -> Result<Diagnosis, Failure> {
    let findings = Findings::embedded();
    let filter = filter(arguments, &findings)?;
    let depth = if arguments.offline { Depth::Files } else { Depth::Drivers };
    let mut diagnosis = diagnose(host, arguments.host.catalogue(context)?, request, &filter, depth)?;
    context.check_interrupt()?;
    let checked = findings.ids().filter(|id| filter.takes(id)).map(str::to_owned);
    diagnosis.document.checked = checked.collect();
    diagnosis.document.checked.sort_indirect();
    Ok(diagnosis)
}

/// Which sources the inspection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Depth {
    /// Files, registry and environment.
    Files,
    /// Also programs whose version no file contains, and the drivers.
    Drivers,
}

/// The observations that a diagnosis is based on.
pub(super) struct InspectedMachine {
    pub(super) machine: MachineState,
    probes: Probes,
    signs: doctor::MachineSigns,
}

/// Inspects a host.
pub(super) fn inspect(
    host: &dyn InspectHost,
    catalogue: Catalogue,
    depth: Depth,
) -> Result<InspectedMachine, Failure> {
    machine::check_overrides(host)?;
    let mut machine = machine::inspect(host, catalogue);
    let mut probes = Probes::new();
    if depth == Depth::Drivers {
        probes = machine::probe(host, &mut machine, &Backend::ALL);
    }
    let signs = doctor::observe(host, &machine.facts, &machine.inventory, &machine.catalogue);
    Ok(InspectedMachine { machine, probes, signs })
}

impl InspectedMachine {
    /// The input of the checks.
    pub(super) fn case<'a>(
        &'a self,
        host: &'a dyn HostInfo,
        requested: Option<&'a [Backend]>,
    ) -> DiagnosisCase<'a> {
        DiagnosisCase {
            facts: &self.machine.facts,
            inventory: &self.machine.inventory,
            catalogue: &self.machine.catalogue,
            matrix: &self.machine.matrix,
            probes: &self.probes,
            signs: &self.signs,
            env: host.env(),
            asked: requested,
            project: None,
        }
    }
}

/// Inspects and diagnoses a host.
pub(in crate::cli) fn diagnose(
    host: &dyn InspectHost,
    catalogue: Catalogue,
    request: &DoctorRequest,
    filter: &Filter,
    depth: Depth,
) -> Result<Diagnosis, Failure> {
    let inspected = inspect(host, catalogue, depth)?;
    let findings = Findings::embedded();
    let requested = request.backends.as_deref();
    let case = DiagnosisCase {
        project: request.project.as_ref().map(|project| &project.file),
        ..inspected.case(host, requested)
    };
    let Assessment { findings: found, matrix } = doctor::assess(&case, &findings, filter);
    let arch_plan = doctor::arch_plan::of_case(&case);
    let shown = requested.unwrap_or(&Backend::ALL);
    let mut document = DoctorReport::of_machine(&inspected.machine.facts, &matrix, shown, found);
    document.arch_plan = arch_plan;
    document.checked = findings
        .iter()
        .filter(|(family, id, _)| family.subject == FindingSubject::Machine && filter.takes(id))
        .map(|(_, id, _)| id.to_owned())
        .collect();
    document.checked.sort_indirect();
    Ok(Diagnosis { machine: MachineState { matrix, ..inspected.machine }, document })
}

/// What to diagnose.
#[derive(Debug, Default)]
pub(in crate::cli) struct DoctorRequest {
    /// The backends that the flag, the environment or the project names; `None` for those whose hardware is present.
    pub(in crate::cli) backends: Option<Vec<Backend>>,
    /// The project whose settings are checked.
    project: Option<Project>,
}

/// The backends that the flag, the environment or the project names.
pub(super) fn requested_backends(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
) -> Result<Option<Vec<Backend>>, Failure> {
    Ok(request(arguments, context, host)?.backends)
}

fn request(
    arguments: &DoctorArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
) -> Result<DoctorRequest, Failure> {
    let options =
        (arguments.backends.as_deref(), arguments.project.as_deref(), arguments.host.host.is_some());
    DoctorRequest::new(options, context, host)
}

impl DoctorRequest {
    /// The request of the options `--backends` and `--project`, and of the project in the current folder unless the host is recorded.
    pub(in crate::cli) fn new(
        (backends, project, is_recorded): (Option<&str>, Option<&str>, bool),
        context: &CommandContext<'_>,
        host: &dyn HostInfo,
    ) -> Result<Self, Failure> {
        let project = match project {
            Some(folder) => Some(open_project(context, Some(folder))?),
            // A recorded machine is unrelated to the project in the current folder.
            None if is_recorded => None,
            None => match open_project(context, None) {
                Ok(project) => Some(project),
                // A project is optional, but an invalid one is an error.
                Err(failure) if failure.id == "project.not-found" => None,
                Err(failure) => return Err(failure),
            },
        };
        let request = backend_request(backends, host, project.as_ref())?;
        let backends = match request.selection {
            BackendSelection::Auto => None,
            BackendSelection::Named(list) => Some(list),
        };
        Ok(Self { backends, project })
    }
}

pub(super) fn filter(arguments: &DoctorArguments, findings: &Findings) -> Result<Filter, Failure> {
    for pattern in arguments.only.iter().chain(&arguments.skip) {
        let known = findings.ids().any(|id| gpubuild_detect::finding::catalogue::matches(pattern, id));
        if !known {
            return Err(Failure::usage(id!("doctor.check-unknown"), format!("unknown check `{pattern}`"))
                .hint_of_finding(pattern, "`gpubuild doctor --list-checks` lists all checks"));
        }
    }
    Ok(Filter { only: arguments.only.clone(), skip: arguments.skip.clone() })
}

pub(in crate::cli) fn exit(fail_on: FailOn, document: &DoctorReport) -> Exit {
    let is_negative = match fail_on {
        FailOn::Error => document.summary.errors > 0,
        FailOn::Warning => document.summary.errors + document.summary.warnings > 0,
        FailOn::Never => false,
    };
    if is_negative { Exit::Negative } else { Exit::Done }
}
