//! `gpubuild venv`: a Python environment with the run-time wheels that the built libraries need.

mod output;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Finding, FindingDraft, Findings, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::tell::Teller;
use gpubuild_exec::exec::{BuildEvent, InstalledTools, binary};
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::tag::WheelLibc;
use gpubuild_toolchain::venv::choose::{VenvChoice, VenvQuestion, choose};
use gpubuild_toolchain::venv::needs::{RuntimeNeeds, of_build};
use gpubuild_toolchain::venv::provide::{Mode, ProvideError, ProvideJob, Provided, provide};
use gpubuild_toolchain::venv::shell::Shell;
use gpubuild_toolchain::venv::{VenvEnding, VenvProblem, VenvRecord, WheelTable, copy, shell};

use super::build::NetworkArguments;
use super::events::{Events, MessageFormat};
use super::look::{self, HostArguments, MachineState};
use super::{CommandContext, Exit, Failure};
use crate::cli::words;

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
    print_env: Option<words::Shell>,
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

/// Makes or adopts the environment.
pub fn run(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let project = project(arguments, context)?;
    let folder = folder(arguments, context, project.as_ref())?;
    look::check_overrides(context.host)?;
    let host_arguments = HostArguments { host: None, toolkits: arguments.toolkits.clone() };
    if let Some(shell) = arguments.print_env {
        let record = record(context, project.as_ref(), &folder);
        let catalogue = host_arguments.catalogue(context)?;
        let sight = look::look(context.host, catalogue);
        let text = print_env(context.host, record.as_ref(), &folder, shell.into());
        context.printer.answer(&text.map_err(|problem| failure(context, &sight, &problem))?)?;
        return Ok(Exit::Done);
    }
    let sight = look::look(context.host, host_arguments.catalogue(context)?);
    let table = table(arguments, context).map_err(|bad| match bad {
        Ok(problem) => failure(context, &sight, &problem),
        Err(failure) => failure,
    })?;
    let work =
        VenvWork { arguments, context, project: project.as_ref(), folder, sight: &sight, table: &table };
    work.run()
}

/// The project around; none is needed if the command line says what to do.
fn project(arguments: &VenvArguments, context: &CommandContext<'_>) -> Result<Option<Project>, Failure> {
    match look::project(context, arguments.project.as_deref()) {
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

/// A problem, or a failure that has its words already.
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

/// A problem in the words of the catalogue.
fn failure(context: &CommandContext<'_>, sight: &MachineState, problem: &VenvProblem) -> Failure {
    let finding = tell(context, sight, &problem.draft, Severity::Error);
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

fn tell(
    context: &CommandContext<'_>,
    sight: &MachineState,
    draft: &FindingDraft,
    severity: Severity,
) -> Finding {
    let findings = Findings::embedded();
    let is_root = context.host.identity().uid == Some(0);
    Teller::new(&sight.facts, &sight.catalogue, &findings, is_root).tell(draft, severity)
}

struct VenvWork<'a> {
    arguments: &'a VenvArguments,
    context: &'a CommandContext<'a>,
    project: Option<&'a Project>,
    folder: HostPath,
    sight: &'a MachineState,
    table: &'a WheelTable,
}

/// What the environment is for.
struct WantedVenv {
    needs: RuntimeNeeds,
    /// The backends that count.
    backends: Vec<Backend>,
    /// Whether wheels of CUDA are needed.
    cuda: bool,
}

impl VenvWork<'_> {
    fn run(&self) -> Result<Exit, Failure> {
        let wanted = self.wanted()?;
        let libraries = cuda_libraries(&wanted.needs);
        let libc = self.libc();
        let driver = self.driver();
        let cuda = self.sight.catalogue.for_backend(Backend::Cuda);
        let mut choice = None;
        if let Some(cuda) = cuda.filter(|_| wanted.cuda) {
            let question = VenvQuestion {
                table: self.table,
                platform: self.context.host.platform(),
                libc: &libc,
                libraries: &libraries,
                toolkit: wanted.needs.toolkit.as_ref(),
                major: self.arguments.cuda,
                driver: driver.as_ref(),
                cuda,
            };
            choice = Some(choose(&question).map_err(|problem| self.failure(&problem))?);
        }
        let mut findings = self.unknown(choice.as_ref(), &libraries);
        let provided = match &choice {
            // Nothing is needed: an environment is made only for who names its folder.
            None if self.arguments.path.is_none() || self.arguments.check => None,
            choice => Some(self.provide(choice.as_ref())?),
        };
        if let Some(provided) = &provided {
            findings.extend(self.shadowed(provided));
            self.keep(choice.as_ref(), provided)?;
        }
        let copied = self.copy(choice.as_ref(), provided.as_ref(), &libraries)?;
        let none = self.none(&wanted);
        output::Shown {
            wanted: &wanted,
            choice: choice.as_ref(),
            provided: provided.as_ref(),
            none,
            findings,
            copied,
        }
        .show(self.context, self.arguments.json)?;
        Ok(Exit::Done)
    }

    fn failure(&self, problem: &VenvProblem) -> Failure {
        failure(self.context, self.sight, problem)
    }

    /// What the last build needs, and what the command line asks for.
    fn wanted(&self) -> Result<WantedVenv, Failure> {
        let host = self.context.host;
        let named = match look::request(self.arguments.backends.as_deref(), host, None)?.selection {
            BackendSelection::Named(list) if self.arguments.backends.is_some() => Some(list),
            _ => None,
        };
        let root = self.project.map(|project| &project.build_root);
        let manifest = root.and_then(|root| Manifest::read(host, &manifest_path(root)).ok());
        let mut needs = RuntimeNeeds::default();
        if let Some(manifest) = &manifest {
            let program = root.and_then(|root| binary::last_built(host, root));
            needs = of_build(host, self.table, &self.sight.inventory, manifest, program.as_ref());
            if let Some(named) = &named {
                needs.libraries.retain(|_, needed| named.contains(&needed.backend));
            }
        }
        let built = manifest.map(|manifest| manifest.backends).unwrap_or_default();
        let asked = self.arguments.cuda.is_some();
        if built.is_empty() && named.is_none() && !asked && self.arguments.path.is_none() {
            return Err(self.failure(&VenvProblem::refused(id!("venv.nothing-built"))));
        }
        let mut backends = named.clone().unwrap_or(built.clone());
        if asked && !backends.contains(&Backend::Cuda) {
            backends.push(Backend::Cuda);
        }
        // Where CUDA was built, the build knows; where it was not, who names it gets what programs usually need.
        let unbuilt = backends.contains(&Backend::Cuda) && !built.contains(&Backend::Cuda);
        let cuda = needs.libraries.values().any(|needed| needed.backend == Backend::Cuda) || asked || unbuilt;
        if cuda && needs.toolkit.is_none() && needs.libraries.is_empty() && !asked {
            let chosen = self.sight.inventory.chosen("cuda");
            needs.toolkit = chosen.and_then(|copy| {
                let version = copy.version()?.clone();
                Some(gpubuild_toolchain::venv::needs::NeededToolkit { version, from: copy.root.to_string() })
            });
        }
        Ok(WantedVenv { needs, backends, cuda })
    }

    /// NVIDIA's driver, the one that is set in place of it included: no card need be there for it.
    fn driver(&self) -> Option<Version> {
        let from_verdict = self.sight.matrix.verdict(Backend::Cuda).driver.clone();
        let mut drivers = self.sight.facts.drivers.iter().filter(|driver| driver.vendor == Vendor::Nvidia);
        from_verdict.or_else(|| drivers.find_map(|driver| Some(driver.version.as_ref()?.value.clone())))
    }

    fn libc(&self) -> WheelLibc {
        match &self.sight.facts.libc {
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
            tools: &InstalledTools::of(&self.sight.inventory),
            python: self.arguments.python.as_deref(),
            network: self.arguments.network.network(self.context.host),
            find_links: &find_links,
            mode: match (self.arguments.check, self.arguments.force) {
                (true, _) => Mode::Check,
                (_, true) => Mode::Force,
                _ => Mode::Install,
            },
            install: for_distribution(&self.sight.facts, &self.table.environment).map(String::as_str),
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

    /// Remembers the environment for `link`, `build` and build scripts.
    fn keep(&self, choice: Option<&VenvChoice<'_>>, provided: &Provided<'_>) -> Result<(), Failure> {
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

    /// Why backends need no wheel.
    fn none(&self, wanted: &WantedVenv) -> BTreeMap<Backend, String> {
        let without = wanted.backends.iter().filter(|backend| **backend != Backend::Cuda || !wanted.cuda);
        let why = |backend: &Backend| self.table.none.get(backend).cloned().unwrap_or_default();
        without.map(|backend| (*backend, why(backend))).collect()
    }

    fn unknown(&self, choice: Option<&VenvChoice<'_>>, libraries: &BTreeMap<String, String>) -> Vec<Finding> {
        let unknown = choice.map(|choice| choice.unknown.as_slice()).unwrap_or_default();
        let finding = |library: &String| {
            let draft = FindingDraft::new(id!("venv.no-wheel-for-library"))
                .value("library", library)
                .value("by", libraries.get(library).map_or("something", String::as_str));
            tell(self.context, self.sight, &draft, Severity::Warning)
        };
        unknown.iter().map(finding).collect()
    }

    /// Libraries that LD_LIBRARY_PATH brings in place of the environment's.
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
            Some(tell(self.context, self.sight, &draft, Severity::Warning))
        };
        foreign.filter_map(hit).collect()
    }
}

fn cuda_libraries(needs: &RuntimeNeeds) -> BTreeMap<String, String> {
    let of_cuda = needs.libraries.iter().filter(|(_, needed)| needed.backend == Backend::Cuda);
    of_cuda.map(|(library, needed)| (library.clone(), needed.by.clone())).collect()
}
