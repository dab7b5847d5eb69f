//! `gpubuild plan`: prints what a build would do.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::finding::{Affects, Finding, Remedy, Severity};
use gpubuild_detect::id;
use gpubuild_host::{Host, HostInfo, ReadFiles};
use gpubuild_plan::plan::make::{MissingBackend, PlanRefusal};
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::plan::{Dropped, Plan, libclang, linkage};
use gpubuild_plan::planning::{self, PlanRequest, cross};
use gpubuild_plan::project::Linkage;
use gpubuild_plan::project::Project;
use gpubuild_plan::project::variant;
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::provision::{self, locks::PROJECT_FOLDER};

use super::machine::{self, HostArguments, MachineState};
use super::project::{backend_request, load_project, open_project};
use super::target::{SelectedTarget, TargetArgument};
use super::{CommandContext, Exit, Failure};
use crate::cli::values;
use crate::report;

/// What to build: shared by all commands that plan.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SelectionArguments {
    /// Backends, separated by commas, `auto` or `all` [default: auto]
    #[arg(long, value_name = "LIST")]
    pub backends: Option<String>,
    /// Leave out named backends that cannot be built here, with a warning
    #[arg(long)]
    pub allow_missing: bool,
    /// Number of parallel compilers [default: one per processor thread]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Install toolkits that a named backend lacks into gpubuild's cache, without root
    #[arg(long)]
    pub provision: bool,
    /// CUDA architectures: `auto`, `native`, `all`, `all-major`, or a list such as `80,90a` [default:
    /// CUDAARCHS, else gpubuild.toml, else auto]
    #[arg(long, value_name = "LIST")]
    pub cuda_archs: Option<String>,
    /// How the program links the libraries [default: gpubuild.toml, else static]
    #[arg(long, value_enum, value_name = "KIND")]
    pub linkage: Option<values::Linkage>,
    /// Compiler launcher: `auto`, `ccache`, `sccache`, `sccache-dist`, `distcc`, `icecream`, `recc`, `ccache+distcc`, a path,
    /// or `none` [default: GPUBUILD_LAUNCHER, else CMAKE_*_COMPILER_LAUNCHER, else gpubuild.toml, else none]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<String>,
    /// Optimise for this machine's processor; the result may not run on others
    #[arg(long)]
    pub native: bool,
    /// Build this variant of gpubuild.toml: its backends, architectures and toolkits
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Use this toolkit version for a backend instead of the one in gpubuild.toml: `cuda=13.0`
    #[arg(long, value_name = "BACKEND=VERSION", value_parser = toolkit_version)]
    pub toolkit: Vec<(Backend, String)>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    pub project: Option<String>,
    /// The platform to build for; an option of the commands that support it.
    #[arg(skip)]
    pub target: SelectedTarget,
}

impl SelectionArguments {
    /// The same for the target of a flag, else of the project.
    pub fn for_target(&self, target: &TargetArgument, context: &CommandContext<'_>) -> Result<Self, Failure> {
        let project = open_project(context, self.project.as_deref())?;
        Ok(Self { target: target.of(&project)?, ..self.clone() })
    }

    fn missing(&self) -> MissingBackend {
        if self.allow_missing { MissingBackend::Allow } else { MissingBackend::Refuse }
    }
}

fn toolkit_version(text: &str) -> Result<(Backend, String), String> {
    let (backend, version) = text.split_once('=').ok_or("write `cuda=13.0`")?;
    let backend = backend.parse::<Backend>().map_err(|error| error.to_string())?;
    version.parse::<gpubuild_core::version::VersionRequirement>().map_err(|error| error.to_string())?;
    Ok((backend, version.to_owned()))
}

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints the plan.
pub fn run(arguments: &PlanArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = match &recorded {
        Some(host) => host,
        None => context.host,
    };
    machine::check_overrides(host)?;
    let selection = arguments.selection.for_target(&arguments.target, context)?;
    let machine = machine::inspect_for(host, arguments.host.catalogue(context)?, &selection.target);
    let (_, plan) = make(&selection, context, host, &machine)?;
    print(&plan, context, arguments.json)?;
    Ok(Exit::Done)
}

/// Prints a plan as text or as JSON.
pub fn print(plan: &Plan, context: &CommandContext<'_>, json: bool) -> Result<(), Failure> {
    if json {
        context.printer.json(&report::plan::PlanReport::new(plan))?;
    } else {
        context.printer.print(&report::plan::text(plan))?;
    }
    Ok(())
}

/// Warns about possible problems of a plan before it runs.
pub fn warn(plan: &Plan, context: &CommandContext<'_>) {
    for warning in &plan.warnings {
        context.printer.warning(warning);
    }
}

/// Computes the plan of the selected project for a machine.
pub fn make(
    selection: &SelectionArguments,
    context: &CommandContext<'_>,
    host: &dyn ReadFiles,
    machine: &MachineState,
) -> Result<(Project, Plan), Failure> {
    make_without(selection, context, host, machine, &[])
}

/// Computes the plan without the given backends, each with the reason why it is dropped.
pub fn make_without(
    selection: &SelectionArguments,
    context: &CommandContext<'_>,
    host: &dyn ReadFiles,
    machine: &MachineState,
    without: &[(Backend, String)],
) -> Result<(Project, Plan), Failure> {
    let (project, plan) = with_request(selection, context, host, machine, without, |request, dropped| {
        let mut plan = planning::plan(request).map_err(|refusal| refused(&refusal))?;
        planning::add_launchers(&mut plan, request, selection.launcher.as_deref())
            .map_err(|error| Failure::of(&error, Exit::Usage))?;
        if let Some(cross) = request.cross {
            cross::apply(cross, request.machine.host_compiler.as_ref(), &mut plan);
        }
        plan.dropped.extend(dropped);
        plan.dropped.sort_indirect_by_key(|dropped| dropped.id);
        plan.fetch.extend(libclang::missing(request.project, context.host, host));
        Ok(plan)
    })?;
    for dropped in plan.dropped.iter().filter(|_| selection.allow_missing) {
        let reason = dropped.reasons.first().map_or("", String::as_str);
        context.printer.warning(&format!("{} is left out: {reason}", dropped.id));
    }
    Ok((project, plan))
}

/// Calls a function with the plan request of a selection and the backends that the target lacks. Returns the project and the result of the function.
pub fn with_request<T>(
    selection: &SelectionArguments,
    context: &CommandContext<'_>,
    host: &dyn ReadFiles,
    machine: &MachineState,
    without: &[(Backend, String)],
    function: impl FnOnce(&PlanRequest<'_>, Vec<Dropped>) -> Result<T, Failure>,
) -> Result<(Project, T), Failure> {
    let (mut project, mut request) = selected(selection, context, host)?;
    request.without.extend_from_slice(without);
    selection.target.apply_to(&mut project);
    let catalogue = &machine.catalogue;
    let cross = selection.target.compilers(host, &project, catalogue, &request)?;
    let dropped = cross.as_ref().map_or(Ok(Vec::new()), |cross| {
        cross::restrict(&mut request, cross, &project.profile, machine, selection.missing())
            .map_err(|refusal| refused(&refusal))
    })?;
    let linkage = selection.linkage.map(Linkage::from).or(project.file.project.linkage).unwrap_or_default();
    if let Some(reason) = linkage::refusal(&project, linkage) {
        return Err(Failure { hint: reason.hint.clone(), ..Failure::usage(reason.id, reason.text.clone()) });
    }
    let locks = locks(context, Some(&project))?;
    let plan_request = PlanRequest {
        host,
        machine,
        project: &project,
        request: &request,
        linkage,
        missing: selection.missing(),
        jobs: selection.jobs,
        cuda_archs: selection.cuda_archs.as_deref(),
        cross: cross.as_ref(),
        provision: (selection.provision || project.file.toolkits.provision).then_some(locks.as_slice()),
        native: selection.target.native(host, selection.native, project.file.project.native)?,
    };
    let result = function(&plan_request, dropped)?;
    Ok((project, result))
}

/// The project with the variant and toolkit versions of a selection applied, and the requested backends.
pub(super) fn selected(
    selection: &SelectionArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
) -> Result<(Project, BackendRequest), Failure> {
    let mut project = load_project(context, selection.project.as_deref())?;
    let mut origin = None;
    if let Some(name) = &selection.variant {
        let variants = variant::variants(&project);
        let Some(found) = variants.iter().find(|variant| variant.name == *name) else {
            let known: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
            return Err(Failure::usage(id!("variant.unknown"), format!("unknown variant `{name}`"))
                .hint_of_known(name, "available variants", &known));
        };
        variant::apply(&mut project.file, found);
        origin = Some(BackendRequest {
            selection: BackendSelection::Named(found.backends.clone()),
            origin: format!("variant `{name}`"),
            without: Vec::new(),
        });
    }
    for (backend, version) in &selection.toolkit {
        variant::require(&mut project.file, *backend, version);
    }
    let request = match origin.filter(|_| selection.backends.is_none()) {
        Some(request) => request,
        None => backend_request(selection.backends.as_deref(), host, Some(&project))?,
    };
    Ok((project, request))
}

/// The locks of toolkits that can be installed: the built-in ones and those of the project.
pub fn locks(context: &CommandContext<'_>, project: Option<&Project>) -> Result<Vec<WheelLock>, Failure> {
    let folders: Vec<_> = project.map(|project| project.root.join(PROJECT_FOLDER)).into_iter().collect();
    provision::locks::known(context.host, &folders)
        .map_err(|message| Failure::usage(id!("toolkit.lock-invalid"), message))
}

pub(super) fn refused(refusal: &PlanRefusal) -> Failure {
    let of_backends = refusal
        .blocked
        .iter()
        .flat_map(|(backend, reasons)| reasons.iter().map(|reason| (Some(*backend), reason)));
    let all: Vec<_> = refusal.project.iter().map(|reason| (None, reason)).chain(of_backends).collect();
    let mut lines = Vec::new();
    let mut findings = Vec::new();
    for (backend, reason) in all {
        let subject = backend.map_or("gpubuild.toml", Backend::id);
        lines.push(format!("  {subject}: {}", reason.line()));
        if let Some(hint) = &reason.hint {
            lines.push(format!("    hint: {hint}"));
        }
        findings.push(Finding {
            id: reason.id,
            severity: Severity::Error,
            backend,
            affects: vec![Affects::Build],
            summary: reason.text.clone(),
            evidence: Vec::new(),
            remedy: Remedy { text: reason.hint.clone().unwrap_or_default(), ..Remedy::default() },
            links: Vec::new(),
            consequences: Vec::new(),
        });
    }
    let message =
        format!("cannot build the requested backends (from {}):\n{}", refusal.origin, lines.join("\n"));
    let hint = if refusal.blocked.is_empty() {
        "fix gpubuild.toml; nothing was compiled"
    } else {
        "fix the first problem, or build the other backends with `--allow-missing`; nothing was compiled"
    };
    let mut failure = Failure::usage(id!("plan.refused"), message).hint(hint);
    failure.findings = findings;
    failure
}
