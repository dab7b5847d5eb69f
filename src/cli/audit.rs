//! `gpubuild audit`: checks build outputs against declared requirements.

use std::collections::BTreeMap;

use gpubuild_core::isa;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::catalogue::FindingSubject;
use gpubuild_detect::finding::{Finding, FindingDraft, FindingKind, Findings, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec;
use gpubuild_host::{HostInfo, HostPath};
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::{AuditTable, Project};

use super::doctor::FailOn;
use super::doctor::output::OutputArguments;
use super::machine::MachineState;
use super::project::open_project;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure};
use crate::audit::{self, Audit, AuditLimits, AuditRequest, Depth};
use crate::report::Schema;
use crate::report::doctor::DoctorReport;

/// The finding about code that was compiled for the processor of the build machine.
const NATIVE: DiagnosticId = id!("audit.isa.native");

/// Findings that `gpubuild build` reports after a build.
const REPORTED_BY_BUILD: [DiagnosticId; 5] = [
    id!("audit.isa.above-promise"),
    NATIVE,
    id!("audit.rpath.stubs"),
    id!("audit.needed.missing"),
    id!("audit.needed.other-copy"),
];

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
pub struct AuditArguments {
    /// Executables, libraries and object files to check [default: all outputs of the last build]
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// CPU level that code without run-time dispatch must not exceed: `x86-64-v3`, `haswell`,
    /// `armv8.2-a+dotprod`
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Newest glibc that the outputs may require: `2.28`
    #[arg(long, value_name = "VERSION")]
    glibc: Option<String>,
    /// Maximum size of a file: `200MiB`
    #[arg(long, value_name = "SIZE")]
    max_size: Option<String>,
    /// Findings to accept: ids separated by commas, or groups such as `audit.rpath.*`
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    allow: Vec<String>,
    /// Lowest severity that makes the exit status 1
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    output: OutputArguments,
}

impl AuditArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.output.is_json()
    }
}

/// Audits the files and prints a report.
pub fn run(arguments: &AuditArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    arguments.output.check()?;
    let project = match open_project(context, arguments.project.as_deref()) {
        Ok(mut project) => {
            arguments.target.apply_to(&mut project)?;
            Some(project)
        }
        Err(failure)
            if failure.id == "project.not-found"
                && !arguments.files.is_empty()
                && arguments.project.is_none() =>
        {
            None
        }
        Err(failure) => return Err(failure),
    };
    let table = project.as_ref().map(|project| project.file.audit.clone()).unwrap_or_default();
    let limits = limits(arguments, &table, context.host)?;
    let loaded = project.as_ref().map(|project| project.profile.leave.clone()).unwrap_or_default();
    let mut request = AuditRequest { loaded, limits, ..AuditRequest::default() };
    if let (true, Some(project)) = (arguments.files.is_empty(), &project) {
        add_build(&mut request, project, context)?;
    }
    for file in &arguments.files {
        request.files.push(super::absolute(context, file)?);
    }
    let result = audit::examine(context.host, &request);
    let facts = gpubuild_detect::facts::gather(context.host);
    let catalogue = Catalogue::embedded();
    let findings = Findings::embedded();
    let renderer = FindingRenderer::new(&facts, &catalogue, &findings, facts.is_root);
    let allowed: Vec<&String> = arguments.allow.iter().chain(&table.allow).collect();
    for pattern in &allowed {
        check_pattern(pattern, &findings)?;
    }
    let mut document = DoctorReport::of_findings(render(&result, &renderer, &findings, &allowed));
    document.schema = Schema { name: "audit", version: 1 };
    document.files = result.files;
    let of_audit = |(family, id, _): &(&gpubuild_detect::finding::catalogue::FindingFamily, &str, &_)| {
        family.subject == FindingSubject::Audit && !allows(&allowed, id)
    };
    document.checked = findings.iter().filter(of_audit).map(|(_, id, _)| id.to_owned()).collect();
    document.checked.sort_indirect();
    arguments.output.deliver(&document, context)?;
    Ok(super::doctor::exit(arguments.fail_on, &document))
}

/// Adds the outputs of the last build of a project to the request.
fn add_build(
    request: &mut AuditRequest,
    project: &Project,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let path = manifest_path(&project.build_root);
    let manifest = Manifest::read(context.host, &path).map_err(|error| {
        Failure::of(&error, Exit::Usage)
            .hint("run `gpubuild build` first, or `gpubuild audit FILE` for any other file")
    })?;
    request.manifest = Some(manifest);
    request.program = exec::binary::last_built(context.host, &project.build_root)
        .filter(|program| context.host.is_file(&context.host.path(&program.path)));
    Ok(())
}

fn check_pattern(pattern: &str, findings: &Findings) -> Result<(), Failure> {
    if findings.ids().any(|id| gpubuild_detect::finding::catalogue::matches(pattern, id)) {
        return Ok(());
    }
    Err(Failure::usage(id!("audit.allow-unknown"), format!("unknown finding `{pattern}`")).hint_of_finding(
        pattern,
        "docs/reference/findings.md lists all findings; those of this command begin with `audit.`",
    ))
}

fn allows(allowed: &[&String], id: &str) -> bool {
    allowed.iter().any(|pattern| gpubuild_detect::finding::catalogue::matches(pattern, id))
}

/// The limits of the audit. Flags take precedence over gpubuild.toml.
fn limits(
    arguments: &AuditArguments,
    table: &AuditTable,
    host: &dyn HostInfo,
) -> Result<AuditLimits, Failure> {
    let chosen = |flag: &Option<String>, name: &str, key: &str, value: &Option<String>| {
        let from_flag = flag.clone().map(|text| (text, name.to_owned()));
        from_flag.or_else(|| value.clone().map(|text| (text, format!("{key} in gpubuild.toml"))))
    };
    let cpu = chosen(&arguments.cpu, "--cpu", "[audit] cpu", &table.cpu);
    if let Some((name, from)) = &cpu {
        let known = ["x86_64", "aarch64"].iter().filter_map(|name| isa::table().processor(name));
        if !known.clone().any(|processor| processor.cpu(name).is_some()) {
            let names: Vec<&str> = isa::table()
                .processor(host.platform().arch.id())
                .into_iter()
                .flat_map(isa::Processor::cpus)
                .collect();
            return Err(Failure::usage(
                id!("audit.cpu-unknown"),
                format!("unknown processor `{name}` (from {from})"),
            )
            .hint_of_known(name, "known processors", &names));
        }
    }
    let mut versions = BTreeMap::new();
    let floors = [
        ("GLIBC", chosen(&arguments.glibc, "--glibc", "[audit] glibc", &table.glibc)),
        ("GLIBCXX", chosen(&None, "", "[audit] glibcxx", &table.glibcxx)),
        ("CXXABI", chosen(&None, "", "[audit] cxxabi", &table.cxxabi)),
    ];
    for (kind, floor) in floors {
        let Some((text, from)) = floor else { continue };
        let version: Version = text.parse().map_err(|_| {
            Failure::usage(id!("audit.version-invalid"), format!("`{text}` is not a version (from {from})"))
                .hint("write it as `2.28`")
        })?;
        versions.insert(kind.to_owned(), version);
    }
    let max_size = chosen(&arguments.max_size, "--max-size", "[audit] max_size", &table.max_size);
    let max_size = max_size
        .map(|(text, from)| {
            bytes::parse(&text).map(|size| (size, text.clone())).ok_or_else(|| {
                Failure::usage(id!("audit.size-invalid"), format!("`{text}` is not a size (from {from})"))
                    .hint("write it as `200MiB`")
            })
        })
        .transpose()?;
    Ok(AuditLimits { cpu, versions, max_size })
}

/// Renders the findings that are not allowed, sorted by severity and rank.
fn render(
    audit: &Audit,
    renderer: &FindingRenderer<'_>,
    findings: &Findings,
    allowed: &[&String],
) -> Vec<Finding> {
    let rank = |draft: &FindingDraft| {
        findings.find(&draft.id).map_or(0, |(family, entry)| entry.rank.unwrap_or(family.rank))
    };
    let severity =
        |draft: &FindingDraft| match findings.get(&draft.id).map_or(FindingKind::Fault, |entry| entry.kind) {
            FindingKind::Fault | FindingKind::Absence => Severity::Error,
            FindingKind::Caution => Severity::Warning,
            FindingKind::Note => Severity::Info,
        };
    let mut drafts: Vec<&FindingDraft> =
        audit.drafts.iter().filter(|draft| !allows(allowed, &draft.id)).collect();
    drafts.sort_indirect_by_key(|draft| (severity(draft), rank(draft)));
    drafts.into_iter().map(|draft| renderer.render(draft, severity(draft))).collect()
}

/// Audits programs that are packed without a build.
pub(super) fn of_programs(
    context: &CommandContext<'_>,
    machine: &MachineState,
    programs: &[HostPath],
) -> Vec<Finding> {
    let request = AuditRequest { files: programs.to_vec(), depth: Depth::Build, ..AuditRequest::default() };
    let result = audit::examine(context.host, &request);
    let findings = Findings::embedded();
    let renderer = FindingRenderer::new(&machine.facts, &machine.catalogue, &findings, false);
    render(&result, &renderer, &findings, &[])
}

/// Audits the outputs of a build for problems that would keep them from starting on other machines.
pub(super) fn after_build(
    context: &CommandContext<'_>,
    project: &Project,
    machine: &MachineState,
    outcome: &exec::BuildOutcome,
) -> Vec<Finding> {
    let table = &project.file.audit;
    let limits = AuditLimits {
        cpu: table.cpu.clone().map(|name| (name, "[audit] cpu in gpubuild.toml".to_owned())),
        ..AuditLimits::default()
    };
    let request = AuditRequest {
        files: Vec::new(),
        manifest: Some(outcome.manifest.clone()),
        program: outcome.program.clone(),
        loaded: project.profile.leave.clone(),
        limits,
        depth: Depth::Build,
    };
    let result = audit::examine(context.host, &request);
    let findings = Findings::embedded();
    let renderer = FindingRenderer::new(&machine.facts, &machine.catalogue, &findings, false);
    let allowed: Vec<&String> = table.allow.iter().collect();
    let mut reported = render(&result, &renderer, &findings, &allowed);
    // A user who requests code for this processor knows about it, but a project may also set the option itself.
    let processor = isa::table().processor(context.host.platform().arch.id());
    let requests_native =
        |tree: &BuiltTree| processor.is_some_and(|known| known.options(&tree.cache).0.native);
    let is_requested = outcome.manifest.trees.iter().any(requests_native);
    reported
        .retain(|finding| REPORTED_BY_BUILD.contains(&finding.id) && !(is_requested && finding.id == NATIVE));
    reported
}
