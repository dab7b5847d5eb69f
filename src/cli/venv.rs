//! `gpubuild venv`: installs the runtime wheels that the built libraries need into a Python environment.

mod after_build;
mod output;
mod work;

pub(super) use after_build::AfterBuild;

use gpubuild_detect::finding::{Finding, FindingDraft, Findings, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_exec::exec::BuildEvent;
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::project::Project;
use gpubuild_toolchain::venv::provide::Mode;
use gpubuild_toolchain::venv::shell::Shell;
use gpubuild_toolchain::venv::{VenvEnding, VenvProblem, VenvRecord, WheelTable, shell};

use self::work::{VenvRequest, VenvWork};
use super::build::NetworkArguments;
use super::events::{Events, MessageFormat};
use super::machine::{self, HostArguments, MachineState};
use super::project::open_project;
use super::{CommandContext, Exit, Failure, absolute};
use crate::cli::values;

/// Arguments of `venv`.
#[derive(Debug, clap::Args)]
pub struct VenvArguments {
    /// Folder of the environment [default: `venv` of `[python]` in gpubuild.toml, else .venv of the project]
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Python for a new environment: a version or a program
    #[arg(long, value_name = "PYTHON")]
    python: Option<String>,
    /// If nothing was built: the backends to install libraries for
    #[arg(long, value_name = "LIST")]
    backends: Option<String>,
    /// If nothing was built: the major version of CUDA
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u64>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Folder with wheels; may be repeated
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Table of wheels to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    wheels: Option<String>,
    /// Replace other versions of the libraries in the environment
    #[arg(long)]
    force: bool,
    /// Check that all libraries are installed and load, without changing anything
    #[arg(long, conflicts_with = "force")]
    check: bool,
    /// Copy the libraries and their dependencies into this folder
    #[arg(long, value_name = "DIR")]
    copy_to: Option<String>,
    /// Change no environment: write the wheels with their hashes to a lock file (PEP 751) that uv and pip install. Its name is
    /// `pylock.toml` or `pylock.NAME.toml`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "force", "copy_to"])]
    lock: Option<String>,
    /// Only print the loader's search variable for a shell
    #[arg(long, value_enum, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "sh",
          conflicts_with_all = ["json", "check", "force", "copy_to", "lock"])]
    print_env: Option<values::Shell>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    toolkits: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Creates or updates the environment, or prints its search path.
pub fn run(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let project = project(arguments, context)?;
    let folder = folder(arguments, context, project.as_ref())?;
    machine::check_overrides(context.host)?;
    let host_arguments = HostArguments { host: None, toolkits: arguments.toolkits.clone() };
    if let Some(shell) = arguments.print_env {
        let record = record(context, project.as_ref(), &folder);
        let catalogue = host_arguments.catalogue(context)?;
        let machine = machine::inspect(context.host, catalogue);
        let text = print_env(context.host, record.as_ref(), &folder, shell.into());
        context.printer.print_input(&text.map_err(|problem| failure(&machine, &problem))?)?;
        return Ok(Exit::Done);
    }
    let machine = machine::inspect(context.host, host_arguments.catalogue(context)?);
    let table = table(arguments, project.as_ref(), context).map_err(|error| match error {
        Ok(problem) => failure(&machine, &problem),
        Err(failure) => failure,
    })?;
    let events = Events::new(context.printer, MessageFormat::Human);
    let sink = |event: &BuildEvent| events.show(event);
    let work = VenvWork {
        request: arguments.request(context)?,
        context,
        project: project.as_ref(),
        folder,
        machine: &machine,
        table: &table,
        sink: &sink,
    };
    let result = work.run();
    drop(events);
    result?.print(context, arguments.json)?;
    Ok(Exit::Done)
}

impl VenvArguments {
    fn request(&self, context: &CommandContext<'_>) -> Result<VenvRequest<'_>, Failure> {
        let folders = self.find_links.iter().map(|folder| absolute(context, folder));
        Ok(VenvRequest {
            is_named: self.path.is_some(),
            python: self.python.as_deref(),
            backends: self.backends.as_deref(),
            cuda: self.cuda,
            network: self.network.network(context.host),
            find_links: folders.collect::<Result<Vec<_>, _>>()?,
            mode: match (self.check, self.force) {
                (true, _) => Mode::Check,
                (_, true) => Mode::Force,
                _ => Mode::Install,
            },
            lock: self.lock.as_ref().map(|file| absolute(context, file)).transpose()?,
            copy_to: self.copy_to.as_ref().map(|folder| absolute(context, folder)).transpose()?,
        })
    }
}

/// The project in the current folder or above. It is optional unless `--project` is given.
fn project(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<Option<Project>, Failure> {
    match open_project(context, arguments.project.as_deref()) {
        Ok(project) => Ok(Some(project)),
        Err(failure) if failure.id == "project.not-found" && arguments.project.is_none() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn folder(
    arguments: &VenvArguments,
    context: &CommandContext<'_>,
    project: Option<&Project>,
) -> Result<HostPath, Failure> {
    if let Some(path) = &arguments.path {
        return absolute(context, path);
    }
    match project {
        Some(project) => Ok(project_folder(project)),
        None => absolute(context, ".venv"),
    }
}

/// The folder of a project's environment.
pub(super) fn project_folder(project: &Project) -> HostPath {
    let named = project.file.python.as_ref().and_then(|python| python.venv.as_deref());
    project.root.join(named.unwrap_or(".venv")).normalized()
}

fn record(context: &CommandContext<'_>, project: Option<&Project>, folder: &HostPath) -> Option<VenvRecord> {
    let record = VenvRecord::read(context.host, &project?.build_root)?;
    (context.host.path(&record.environment).key() == folder.key()).then_some(record)
}

fn print_env(
    host: &dyn ReadFiles,
    record: Option<&VenvRecord>,
    folder: &HostPath,
    shell: Shell,
) -> Result<String, VenvProblem> {
    let os = host.platform().os;
    let record = record.filter(|record| record.is_current(host) && !record.folders.is_empty());
    let Some(record) = record else {
        return Err(VenvProblem::refused(id!("venv.no-environment")).value("path", folder.as_str()));
    };
    let is_bad = |folder: &&String| match os {
        Os::Windows => folder.contains([';', '"', '\n']),
        Os::Linux | Os::Macos => !gpubuild_exec::environment::fits_search_path(folder),
    };
    let variable = shell::variable(os);
    if let Some(folder) = record.folders.iter().find(is_bad) {
        return Err(VenvProblem::refused(id!("venv.not-a-variable"))
            .value("path", folder.as_str())
            .value("variable", variable));
    }
    Ok(shell::setting(shell, os, &record.folders, host.env().get(variable)))
}

/// A problem that is still to be rendered, or a complete failure.
type VenvFailure = Result<VenvProblem, Failure>;

/// The table of `--wheels`, else the one of the project, else the built-in one.
fn table(
    arguments: &VenvArguments,
    project: Option<&Project>,
    context: &CommandContext<'_>,
) -> Result<WheelTable, VenvFailure> {
    if let Some(file) = &arguments.wheels {
        return read_table(&absolute(context, file).map_err(Err)?, context).map_err(Ok);
    }
    project
        .map_or_else(|| Ok(WheelTable::embedded().clone()), |project| project_table(project, context))
        .map_err(Ok)
}

/// The table of wheels that a project selects.
fn project_table(project: &Project, context: &CommandContext<'_>) -> Result<WheelTable, VenvProblem> {
    let named = project.file.python.as_ref().and_then(|python| python.wheels.as_ref());
    named.map_or_else(
        || Ok(WheelTable::embedded().clone()),
        |file| read_table(&project.root.join(file).normalized(), context),
    )
}

fn read_table(path: &HostPath, context: &CommandContext<'_>) -> Result<WheelTable, VenvProblem> {
    let invalid = |why: String| {
        VenvProblem::refused(id!("venv.table-invalid"))
            .value("path", path.as_str())
            .value("why", why.trim_end())
    };
    let text = context.host.read_text(path).map_err(|error| invalid(error.to_string()))?;
    WheelTable::parse(&text).map_err(invalid)
}

/// Converts a problem into a failure with the text of the finding catalogue.
pub(super) fn failure(machine: &MachineState, problem: &VenvProblem) -> Failure {
    let finding = render(machine, &problem.draft, Severity::Error);
    let mut failure = match problem.ending {
        VenvEnding::Refused => Failure::usage(finding.id, finding.summary.clone()),
        VenvEnding::Failed => Failure::negative(finding.id, finding.summary.clone()),
    };
    if finding.id == "build.interrupted" {
        "interrupted".clone_into(&mut failure.message);
        failure.exit = Exit::Interrupted;
        return failure;
    }
    let commands = finding.remedy.commands.iter().map(|command| format!("  {command}"));
    failure.notes = commands.collect();
    if !failure.notes.is_empty() {
        failure.notes = std::iter::once("fix:".to_owned()).chain(failure.notes).collect();
    }
    failure.hint = Some(finding.remedy.text.clone());
    failure.findings = vec![finding];
    failure
}

fn render(machine: &MachineState, draft: &FindingDraft, severity: Severity) -> Finding {
    let findings = Findings::embedded();
    FindingRenderer::new(&machine.facts, &machine.catalogue, &findings, machine.facts.is_root)
        .render(draft, severity)
}
