//! `gpubuild venv`: a Python environment with the run-time wheels that the built libraries need.

mod output;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Draft, Finding, Findings, Severity};
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::tell::Teller;
use gpubuild_exec::exec::{Event, Tools, binary};
use gpubuild_host::{Host, HostPath, Os};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::plan::request::Selection;
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::tag::Libc;
use gpubuild_toolchain::venv::choose::{Choice, Question, choose};
use gpubuild_toolchain::venv::needs::{Needs, of_build};
use gpubuild_toolchain::venv::provide::{Error, Job, Mode, Provided, provide};
use gpubuild_toolchain::venv::shell::Shell;
use gpubuild_toolchain::venv::{Ending, Problem, Record, Table, copy, shell};

use super::build::NetworkArguments;
use super::events::{Events, MessageFormat};
use super::look::{self, HostArguments, Sight};
use super::{Context, Exit, Failure};
use crate::cli::words;

/// Arguments of `venv`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the environment [default: `venv` of `[python]` in gpubuild.toml, else .venv of the project]
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// The Python to make it with: a version or a program
    #[arg(long, value_name = "PYTHON")]
    python: Option<String>,
    /// What to prepare for where nothing was built: cuda, vulkan, …
    #[arg(long, value_name = "LIST")]
    backends: Option<String>,
    /// The major of CUDA to prepare for where nothing was built
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u64>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Folder with wheels; may be given more than once
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Table of wheels in place of the built-in one
    #[arg(long, value_name = "FILE")]
    wheels: Option<String>,
    /// Replace other versions that are in the environment
    #[arg(long)]
    force: bool,
    /// Change nothing: say whether everything is there, and load it
    #[arg(long, conflicts_with = "force")]
    check: bool,
    /// Copy the libraries, and all that they need, into this folder
    #[arg(long, value_name = "DIR")]
    copy_to: Option<String>,
    /// Print the setting of the loader's search variable for a shell, and do nothing else
    #[arg(long, value_enum, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "sh",
          conflicts_with_all = ["json", "check", "force", "copy_to"])]
    print_env: Option<words::Shell>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Folder with further toolkit descriptions; one with a known id replaces it
    #[arg(long, value_name = "DIR")]
    toolkits: Option<String>,
    /// Folder of the project [default: the nearest gpubuild.toml from here up]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Makes or adopts the environment.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
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
    let work = Work { arguments, context, project: project.as_ref(), folder, sight: &sight, table: &table };
    work.run()
}

/// The project around; none is needed if the command line says what to do.
fn project(arguments: &Arguments, context: &Context<'_>) -> Result<Option<Project>, Failure> {
    match look::project(context, arguments.project.as_deref()) {
        Ok(project) => Ok(Some(project)),
        Err(failure) if failure.id == "project.not-found" && arguments.project.is_none() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn folder(
    arguments: &Arguments,
    context: &Context<'_>,
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

fn record(context: &Context<'_>, project: Option<&Project>, folder: &HostPath) -> Option<Record> {
    let record = Record::read(context.host, &project?.build_root)?;
    (context.host.path(&record.environment).key() == folder.key()).then_some(record)
}

fn print_env(
    host: &dyn Host,
    record: Option<&Record>,
    folder: &HostPath,
    shell: Shell,
) -> Result<String, Problem> {
    let os = host.platform().os;
    let record = record.filter(|record| record.is_current(host) && !record.folders.is_empty());
    let Some(record) = record else {
        return Err(Problem::refused("venv.no-environment").value("path", folder.as_str()));
    };
    let is_bad = |folder: &&String| match os {
        Os::Windows => folder.contains([';', '"', '\n']),
        Os::Linux | Os::Macos => !gpubuild_exec::environment::fits_search_path(folder),
    };
    let variable = shell::variable(os);
    if let Some(folder) = record.folders.iter().find(is_bad) {
        return Err(Problem::refused("venv.not-a-variable")
            .value("path", folder.as_str())
            .value("variable", variable));
    }
    Ok(shell::setting(shell, os, &record.folders, host.env().get(variable)))
}

/// A problem, or a failure that has its words already.
type Bad = Result<Problem, Failure>;

fn table(arguments: &Arguments, context: &Context<'_>) -> Result<Table, Bad> {
    let Some(file) = &arguments.wheels else { return Ok(Table::embedded().clone()) };
    let path = super::absolute(context, file).map_err(Err)?;
    let invalid = |why: String| {
        Ok(Problem::refused("venv.table-invalid").value("path", path.as_str()).value("why", why.trim_end()))
    };
    let text = context.host.read_text(&path).map_err(|error| invalid(error.to_string()))?;
    Table::parse(&text).map_err(invalid)
}

/// A problem in the words of the catalogue.
fn failure(context: &Context<'_>, sight: &Sight, problem: &Problem) -> Failure {
    let finding = tell(context, sight, &problem.draft, Severity::Error);
    let mut failure = match problem.ending {
        Ending::Refused => Failure::usage(&finding.id, finding.summary.clone()),
        Ending::Failed => Failure::negative(&finding.id, finding.summary.clone()),
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

fn tell(context: &Context<'_>, sight: &Sight, draft: &Draft, severity: Severity) -> Finding {
    let findings = Findings::embedded();
    let is_root = context.host.identity().uid == Some(0);
    Teller::new(&sight.facts, &sight.catalogue, &findings, is_root).tell(draft, severity)
}

struct Work<'a> {
    arguments: &'a Arguments,
    context: &'a Context<'a>,
    project: Option<&'a Project>,
    folder: HostPath,
    sight: &'a Sight,
    table: &'a Table,
}

/// What the environment is for.
struct Wanted {
    needs: Needs,
    /// The backends that count.
    backends: Vec<Backend>,
    /// Whether wheels of CUDA are needed.
    cuda: bool,
}

impl Work<'_> {
    fn run(&self) -> Result<Exit, Failure> {
        let wanted = self.wanted()?;
        let libraries = cuda_libraries(&wanted.needs);
        let libc = self.libc();
        let driver = self.driver();
        let cuda = self.sight.catalogue.for_backend(Backend::Cuda);
        let mut choice = None;
        if let Some(cuda) = cuda.filter(|_| wanted.cuda) {
            let question = Question {
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

    fn failure(&self, problem: &Problem) -> Failure {
        failure(self.context, self.sight, problem)
    }

    /// What the last build needs, and what the command line asks for.
    fn wanted(&self) -> Result<Wanted, Failure> {
        let host = self.context.host;
        let named = match look::request(self.arguments.backends.as_deref(), host, None)?.selection {
            Selection::Named(list) if self.arguments.backends.is_some() => Some(list),
            _ => None,
        };
        let root = self.project.map(|project| &project.build_root);
        let manifest = root.and_then(|root| Manifest::read(host, &manifest_path(root)).ok());
        let mut needs = Needs::default();
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
            return Err(self.failure(&Problem::refused("venv.nothing-built")));
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
                Some(gpubuild_toolchain::venv::needs::Toolkit { version, from: copy.root.to_string() })
            });
        }
        Ok(Wanted { needs, backends, cuda })
    }

    /// NVIDIA's driver, the one that is set in place of it included: no card need be there for it.
    fn driver(&self) -> Option<Version> {
        let from_verdict = self.sight.matrix.verdict(Backend::Cuda).driver.clone();
        let mut drivers = self.sight.facts.drivers.iter().filter(|driver| driver.vendor == Vendor::Nvidia);
        from_verdict.or_else(|| drivers.find_map(|driver| Some(driver.version.as_ref()?.value.clone())))
    }

    fn libc(&self) -> Libc {
        match &self.sight.facts.libc {
            Some(fact) if fact.value.family == "glibc" => Libc::Glibc(fact.value.version.clone()),
            Some(fact) if fact.value.family == "musl" => Libc::Musl,
            _ => Libc::Other,
        }
    }

    fn provide<'c>(&self, choice: Option<&'c Choice<'c>>) -> Result<Provided<'c>, Failure> {
        let find_links = self
            .arguments
            .find_links
            .iter()
            .map(|folder| super::absolute(self.context, folder))
            .collect::<Result<Vec<_>, _>>()?;
        let events = Events::new(self.context.printer, MessageFormat::Human);
        let sink = |event: &Event| events.show(event);
        let record = record(self.context, self.project, &self.folder);
        let provided = provide(&Job {
            host: self.context.host,
            table: self.table,
            choice,
            libc: &self.libc(),
            folder: &self.folder,
            tools: &Tools::of(&self.sight.inventory),
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
            Error::Problem(problem) => self.failure(&problem),
            Error::Install(error) => {
                let mut failure = Failure::negative(error.id(), error.to_string());
                failure.hint = error.hint();
                if error.id() == "build.interrupted" {
                    failure.exit = Exit::Interrupted;
                }
                failure
            }
        })
    }

    /// Remembers the environment for `link`, `build` and build scripts.
    fn keep(&self, choice: Option<&Choice<'_>>, provided: &Provided<'_>) -> Result<(), Failure> {
        let (Some(project), Some(choice)) = (self.project, choice) else { return Ok(()) };
        if self.arguments.check {
            return Ok(());
        }
        let cuda = choice.release.cuda.as_str();
        let mut record =
            Record::new(self.context.host, &provided.environment.folder, cuda, &provided.libraries);
        let wheels = choice.wheels.iter().map(|wheel| (wheel.package.clone(), wheel.version.clone()));
        record.wheels = wheels.collect();
        record.answers = provided.answers.clone();
        let written = record.write(self.context.host, &project.build_root);
        written.map_err(|error| {
            let path = project.build_root.join(gpubuild_exec::environment::FILE_NAME);
            self.failure(&Problem::io("write", &path, &error))
        })
    }

    fn copy(
        &self,
        choice: Option<&Choice<'_>>,
        provided: Option<&Provided<'_>>,
        libraries: &BTreeMap<String, String>,
    ) -> Result<Vec<copy::Copied>, Failure> {
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
    fn none(&self, wanted: &Wanted) -> BTreeMap<Backend, String> {
        let without = wanted.backends.iter().filter(|backend| **backend != Backend::Cuda || !wanted.cuda);
        let why = |backend: &Backend| self.table.none.get(backend).cloned().unwrap_or_default();
        without.map(|backend| (*backend, why(backend))).collect()
    }

    fn unknown(&self, choice: Option<&Choice<'_>>, libraries: &BTreeMap<String, String>) -> Vec<Finding> {
        let unknown = choice.map(|choice| choice.unknown.as_slice()).unwrap_or_default();
        let finding = |library: &String| {
            let draft = Draft::new("venv.no-wheel-for-library")
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
            let draft =
                Draft::new("venv.shadowed").value("folder", folder.as_str()).value("library", library);
            Some(tell(self.context, self.sight, &draft, Severity::Warning))
        };
        foreign.filter_map(hit).collect()
    }
}

fn cuda_libraries(needs: &Needs) -> BTreeMap<String, String> {
    let of_cuda = needs.libraries.iter().filter(|(_, needed)| needed.backend == Backend::Cuda);
    of_cuda.map(|(library, needed)| (library.clone(), needed.by.clone())).collect()
}
