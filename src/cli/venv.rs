//! `gpubuild venv`: installs the runtime wheels that the built libraries need into a Python environment.

mod output;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Finding, FindingDraft, Findings, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_exec::exec::{BuildEvent, InstalledTools, binary};
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::tag::WheelLibc;
use gpubuild_toolchain::venv::choose::{VenvChoice, VenvQuery, choose};
use gpubuild_toolchain::venv::needs::{RuntimeNeeds, of_build};
use gpubuild_toolchain::venv::provide::{Mode, ProvideError, ProvideJob, Provided, provide};
use gpubuild_toolchain::venv::shell::Shell;
use gpubuild_toolchain::venv::{VenvEnding, VenvProblem, VenvRecord, WheelTable, copy, shell};

use super::build::NetworkArguments;
use super::events::{Events, MessageFormat};
use super::machine::{self, HostArguments, MachineState};
use super::project::{backend_request, load_project};
use super::{CommandContext, Exit, Failure};
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
    /// Backends to prepare for if nothing was built: cuda, vulkan, …
    #[arg(long, value_name = "LIST")]
    backends: Option<String>,
    /// Major CUDA version to prepare for if nothing was built
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
    /// Replace other versions in the environment
    #[arg(long)]
    force: bool,
    /// Change nothing: check that all libraries are installed and load
    #[arg(long, conflicts_with = "force")]
    check: bool,
    /// Copy the libraries and their dependencies into this folder
    #[arg(long, value_name = "DIR")]
    copy_to: Option<String>,
    /// Only print the loader's search variable for a shell
    #[arg(long, value_enum, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "sh",
          conflicts_with_all = ["json", "check", "force", "copy_to"])]
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
        context.printer.print(&text.map_err(|problem| failure(context, &machine, &problem))?)?;
        return Ok(Exit::Done);
    }
    let machine = machine::inspect(context.host, host_arguments.catalogue(context)?);
    let table = table(arguments, context).map_err(|error| match error {
        Ok(problem) => failure(context, &machine, &problem),
        Err(failure) => failure,
    })?;
    let work =
        VenvWork { arguments, context, project: project.as_ref(), folder, machine: &machine, table: &table };
    work.run()
}

/// The project in the current folder or above. It is optional unless `--project` is given.
fn project(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<Option<Project>, Failure> {
    match load_project(context, arguments.project.as_deref()) {
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
        return super::absolute(context, path);
    }
    let named = project.and_then(|project| project.file.python.as_ref()).map(|python| python.venv.as_str());
    match project {
        Some(project) => Ok(project.root.join(named.unwrap_or(".venv")).normalized()),
        None => super::absolute(context, ".venv"),
    }
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

fn table(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<WheelTable, VenvFailure> {
    let Some(file) = &arguments.wheels else { return Ok(WheelTable::embedded().clone()) };
    let path = super::absolute(context, file).map_err(Err)?;
    let invalid = |why: String| {
        Ok(VenvProblem::refused(id!("venv.table-invalid"))
            .value("path", path.as_str())
            .value("why", why.trim_end()))
    };
    let text = context.host.read_text(&path).map_err(|error| invalid(error.to_string()))?;
    WheelTable::parse(&text).map_err(invalid)
}

/// Converts a problem into a failure with the text of the finding catalogue.
fn failure(context: &CommandContext<'_>, machine: &MachineState, problem: &VenvProblem) -> Failure {
    let finding = render(context, machine, &problem.draft, Severity::Error);
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

fn render(
    context: &CommandContext<'_>,
    machine: &MachineState,
    draft: &FindingDraft,
    severity: Severity,
) -> Finding {
    let findings = Findings::embedded();
    let is_root = context.host.identity().uid == Some(0);
    FindingRenderer::new(&machine.facts, &machine.catalogue, &findings, is_root).render(draft, severity)
}

struct VenvWork<'a> {
    arguments: &'a VenvArguments,
    context: &'a CommandContext<'a>,
    project: Option<&'a Project>,
    folder: HostPath,
    machine: &'a MachineState,
    table: &'a WheelTable,
}

/// The requirements of the environment.
struct VenvRequirements {
    needs: RuntimeNeeds,
    /// The built or named backends.
    backends: Vec<Backend>,
    /// Whether CUDA wheels are needed.
    cuda: bool,
}

impl VenvWork<'_> {
    fn run(&self) -> Result<Exit, Failure> {
        let requirements = self.requirements()?;
        let libraries = cuda_libraries(&requirements.needs);
        let libc = self.libc();
        let driver = self.driver();
        let cuda = self.machine.catalogue.for_backend(Backend::Cuda);
        let mut choice = None;
        if let Some(cuda) = cuda.filter(|_| requirements.cuda) {
            let query = VenvQuery {
                table: self.table,
                platform: self.context.host.platform(),
                libc: &libc,
                libraries: &libraries,
                toolkit: requirements.needs.toolkit.as_ref(),
                major: self.arguments.cuda,
                driver: driver.as_ref(),
                cuda,
            };
            choice = Some(choose(&query).map_err(|problem| self.failure(&problem))?);
        }
        let mut findings = self.libraries_without_wheel(choice.as_ref(), &libraries);
        let provided = match &choice {
            // No wheel is needed, so an environment is created only if its folder was specified.
            None if self.arguments.path.is_none() || self.arguments.check => None,
            choice => Some(self.provide(choice.as_ref())?),
        };
        if let Some(provided) = &provided {
            findings.extend(self.shadowed(provided));
            self.write_record(choice.as_ref(), provided)?;
        }
        let copied = self.copy(choice.as_ref(), provided.as_ref(), &libraries)?;
        let none = self.backends_without_wheels(&requirements);
        output::VenvResult {
            requirements: &requirements,
            choice: choice.as_ref(),
            provided: provided.as_ref(),
            none,
            findings,
            copied,
        }
        .print(self.context, self.arguments.json)?;
        Ok(Exit::Done)
    }

    fn failure(&self, problem: &VenvProblem) -> Failure {
        failure(self.context, self.machine, problem)
    }

    /// Combines the requirements of the last build with the command line.
    fn requirements(&self) -> Result<VenvRequirements, Failure> {
        let host = self.context.host;
        let named = match backend_request(self.arguments.backends.as_deref(), host, None)?.selection {
            BackendSelection::Named(list) if self.arguments.backends.is_some() => Some(list),
            _ => None,
        };
        let root = self.project.map(|project| &project.build_root);
        let manifest = root.and_then(|root| Manifest::read(host, &manifest_path(root)).ok());
        let mut needs = RuntimeNeeds::default();
        if let Some(manifest) = &manifest {
            let program = root.and_then(|root| binary::last_built(host, root));
            needs = of_build(host, self.table, &self.machine.inventory, manifest, program.as_ref());
            if let Some(named) = &named {
                needs.libraries.retain(|_, needed| named.contains(&needed.backend));
            }
        }
        let built = manifest.map(|manifest| manifest.backends).unwrap_or_default();
        let cuda_requested = self.arguments.cuda.is_some();
        if built.is_empty() && named.is_none() && !cuda_requested && self.arguments.path.is_none() {
            return Err(self.failure(&VenvProblem::refused(id!("venv.nothing-built"))));
        }
        let mut backends = named.clone().unwrap_or(built.clone());
        if cuda_requested && !backends.contains(&Backend::Cuda) {
            backends.push(Backend::Cuda);
        }
        // If CUDA was built, the build determines whether wheels are needed. If not, naming CUDA selects the usual libraries.
        let unbuilt = backends.contains(&Backend::Cuda) && !built.contains(&Backend::Cuda);
        let cuda = needs.libraries.values().any(|needed| needed.backend == Backend::Cuda)
            || cuda_requested
            || unbuilt;
        if cuda && needs.toolkit.is_none() && needs.libraries.is_empty() && !cuda_requested {
            let chosen = self.machine.inventory.chosen("cuda");
            needs.toolkit = chosen.and_then(|copy| {
                let version = copy.version()?.clone();
                Some(gpubuild_toolchain::venv::needs::NeededToolkit { version, from: copy.root.to_string() })
            });
        }
        Ok(VenvRequirements { needs, backends, cuda })
    }

    /// The version of the NVIDIA driver, including an override. It can be set without a GPU.
    fn driver(&self) -> Option<Version> {
        let from_verdict = self.machine.matrix.verdict(Backend::Cuda).driver.clone();
        let mut drivers = self.machine.facts.drivers.iter().filter(|driver| driver.vendor == Vendor::Nvidia);
        from_verdict.or_else(|| drivers.find_map(|driver| Some(driver.version.as_ref()?.value.clone())))
    }

    fn libc(&self) -> WheelLibc {
        match &self.machine.facts.libc {
            Some(fact) if fact.value.family == "glibc" => WheelLibc::Glibc(fact.value.version.clone()),
            Some(fact) if fact.value.family == "musl" => WheelLibc::Musl,
            _ => WheelLibc::Other,
        }
    }

    fn provide<'c>(&self, choice: Option<&'c VenvChoice<'c>>) -> Result<Provided<'c>, Failure> {
        let find_links = self
            .arguments
            .find_links
            .iter()
            .map(|folder| super::absolute(self.context, folder))
            .collect::<Result<Vec<_>, _>>()?;
        let events = Events::new(self.context.printer, MessageFormat::Human);
        let sink = |event: &BuildEvent| events.show(event);
        let record = record(self.context, self.project, &self.folder);
        let provided = provide(&ProvideJob {
            host: self.context.host,
            table: self.table,
            choice,
            libc: &self.libc(),
            folder: &self.folder,
            tools: &InstalledTools::of(&self.machine.inventory),
            python: self.arguments.python.as_deref(),
            network: self.arguments.network.network(self.context.host),
            find_links: &find_links,
            mode: match (self.arguments.check, self.arguments.force) {
                (true, _) => Mode::Check,
                (_, true) => Mode::Force,
                _ => Mode::Install,
            },
            install: for_distribution(&self.machine.facts, &self.table.environment).map(String::as_str),
            previous: record.as_ref(),
            sink: &sink,
        });
        drop(events);
        provided.map_err(|error| match error {
            ProvideError::Problem(problem) => self.failure(&problem),
            ProvideError::Install(error) => {
                let interrupted = error.id() == "build.interrupted";
                Failure::of(&error, if interrupted { Exit::Interrupted } else { Exit::Negative })
            }
        })
    }

    /// Writes the record of the environment, which `link`, `build` and build scripts read.
    fn write_record(&self, choice: Option<&VenvChoice<'_>>, provided: &Provided<'_>) -> Result<(), Failure> {
        let (Some(project), Some(choice)) = (self.project, choice) else { return Ok(()) };
        if self.arguments.check {
            return Ok(());
        }
        let cuda = choice.release.cuda.as_str();
        let mut record =
            VenvRecord::new(self.context.host, &provided.environment.folder, cuda, &provided.libraries);
        let wheels = choice.wheels.iter().map(|wheel| (wheel.package.clone(), wheel.version.clone()));
        record.wheels = wheels.collect();
        record.answers = provided.answers.clone();
        let written = record.write(self.context.host, &project.build_root);
        written.map_err(|error| {
            let path = project.build_root.join(gpubuild_exec::environment::FILE_NAME);
            self.failure(&VenvProblem::io("write", &path, &error))
        })
    }

    fn copy(
        &self,
        choice: Option<&VenvChoice<'_>>,
        provided: Option<&Provided<'_>>,
        libraries: &BTreeMap<String, String>,
    ) -> Result<Vec<copy::CopiedLibrary>, Failure> {
        let Some(to) = &self.arguments.copy_to else { return Ok(Vec::new()) };
        let to = super::absolute(self.context, to)?;
        let (Some(choice), Some(provided)) = (choice, provided) else { return Ok(Vec::new()) };
        let mut names: BTreeSet<String> = libraries.keys().cloned().collect();
        if names.is_empty() {
            names =
                provided.libraries.iter().filter_map(|path| path.file_name().map(str::to_owned)).collect();
        }
        let mut folders: Vec<HostPath> = provided.libraries.iter().filter_map(HostPath::parent).collect();
        folders.dedup();
        let copied = copy::closure(self.context.host, choice.release, &folders, &names)
            .and_then(|closure| copy::copy(self.context.host, &closure, &to));
        copied.map_err(|problem| self.failure(&problem))
    }

    /// The reason per backend why it needs no wheel.
    fn backends_without_wheels(&self, requirements: &VenvRequirements) -> BTreeMap<Backend, String> {
        let without =
            requirements.backends.iter().filter(|backend| **backend != Backend::Cuda || !requirements.cuda);
        let why = |backend: &Backend| self.table.none.get(backend).cloned().unwrap_or_default();
        without.map(|backend| (*backend, why(backend))).collect()
    }

    /// Warnings about libraries that no wheel provides.
    fn libraries_without_wheel(
        &self,
        choice: Option<&VenvChoice<'_>>,
        libraries: &BTreeMap<String, String>,
    ) -> Vec<Finding> {
        let unknown = choice.map(|choice| choice.unknown.as_slice()).unwrap_or_default();
        let finding = |library: &String| {
            let draft = FindingDraft::new(id!("venv.no-wheel-for-library"))
                .value("library", library)
                .value("by", libraries.get(library).map_or("something", String::as_str));
            render(self.context, self.machine, &draft, Severity::Warning)
        };
        unknown.iter().map(finding).collect()
    }

    /// Warnings about folders in `LD_LIBRARY_PATH` that contain other copies of the environment's libraries.
    fn shadowed(&self, provided: &Provided<'_>) -> Vec<Finding> {
        let host = self.context.host;
        if host.platform().os != Os::Linux {
            return Vec::new();
        }
        let list = host.env().get("LD_LIBRARY_PATH").unwrap_or_default();
        let folders =
            list.split([':', ';']).filter(|folder| !folder.is_empty()).map(|folder| host.path(folder));
        let foreign = folders.filter(|folder| !folder.is_inside(&provided.environment.folder));
        let hit = |folder: HostPath| {
            let names = provided.libraries.iter().filter_map(|path| path.file_name());
            let library = names.into_iter().find(|name| host.is_file(&folder.join(name)))?.to_owned();
            let draft = FindingDraft::new(id!("venv.shadowed"))
                .value("folder", folder.as_str())
                .value("library", library);
            Some(render(self.context, self.machine, &draft, Severity::Warning))
        };
        foreign.filter_map(hit).collect()
    }
}

fn cuda_libraries(needs: &RuntimeNeeds) -> BTreeMap<String, String> {
    let of_cuda = needs.libraries.iter().filter(|(_, needed)| needed.backend == Backend::Cuda);
    of_cuda.map(|(library, needed)| (library.clone(), needed.by.clone())).collect()
}
