//! Determines the wheels that a build needs, provides the environment, and records it.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Finding, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::install_command;
use gpubuild_exec::event::Sink;
use gpubuild_exec::exec::{InstalledTools, binary};
use gpubuild_exec::python::Network;
use gpubuild_host::{HostPath, Os};
use gpubuild_plan::artifacts::{Manifest, manifest_path};
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::tag::WheelLibc;
use gpubuild_toolchain::provision::pin::PinRequest;
use gpubuild_toolchain::venv::choose::{VenvChoice, VenvQuery, choose};
use gpubuild_toolchain::venv::needs::{NeededToolkit, RuntimeNeeds, of_build};
use gpubuild_toolchain::venv::provide::{Mode, ProvideError, ProvideJob, Provided, provide};
use gpubuild_toolchain::venv::{VenvProblem, VenvRecord, WheelTable, copy, pylock};

use super::output::VenvResult;
use super::{failure, record, render};
use crate::cli::machine::MachineState;
use crate::cli::project::backend_request;
use crate::cli::toolkit::lock;
use crate::cli::{CommandContext, Exit, Failure};

/// What an environment is requested for.
pub(super) struct VenvRequest<'a> {
    /// Whether the user named the folder: it is then created even if no wheel is needed.
    pub(super) is_named: bool,
    /// Python for a new environment.
    pub(super) python: Option<&'a str>,
    /// The value of `--backends`.
    pub(super) backends: Option<&'a str>,
    /// The value of `--cuda`.
    pub(super) cuda: Option<u64>,
    /// Whether downloads are allowed.
    pub(super) network: Network,
    /// Folders with wheels.
    pub(super) find_links: Vec<HostPath>,
    /// Which changes are allowed.
    pub(super) mode: Mode,
    /// Lock file to write instead of providing an environment.
    pub(super) lock: Option<HostPath>,
    /// Folder for copies of the libraries.
    pub(super) copy_to: Option<HostPath>,
}

/// A request with everything that it depends on.
pub(super) struct VenvWork<'a, 't> {
    pub(super) request: VenvRequest<'a>,
    pub(super) context: &'a CommandContext<'a>,
    pub(super) project: Option<&'a Project>,
    pub(super) folder: HostPath,
    pub(super) machine: &'a MachineState,
    pub(super) table: &'t WheelTable,
    /// Receives progress events.
    pub(super) sink: Sink<'a>,
}

/// The requirements of the environment.
pub(super) struct VenvRequirements {
    pub(super) needs: RuntimeNeeds,
    /// The built or named backends.
    pub(super) backends: Vec<Backend>,
    /// Whether CUDA wheels are needed.
    pub(super) cuda: bool,
}

impl<'t> VenvWork<'_, 't> {
    /// Provides the environment, if one is needed or named, and records it.
    pub(super) fn run(&self) -> Result<VenvResult<'t>, Failure> {
        let requirements = self.requirements()?;
        let libraries = cuda_libraries(&requirements.needs);
        let choice = if requirements.cuda { self.choose(&requirements, &libraries)? } else { None };
        let mut findings = self.libraries_without_wheel(choice.as_ref(), &libraries);
        let provided = match &choice {
            _ if self.request.lock.is_some() => None,
            None if !self.request.is_named || self.request.mode == Mode::Check => None,
            choice => Some(self.provide(choice.as_ref())?),
        };
        let lock = self.request.lock.as_ref().zip(choice.as_ref());
        let lock =
            lock.map(|(file, choice)| self.write_lock(file, choice).map(|()| file.clone())).transpose()?;
        if let Some(provided) = &provided {
            findings.extend(self.shadowed(provided));
            self.write_record(choice.as_ref(), provided)?;
        }
        let copied = self.copy(choice.as_ref(), provided.as_ref(), &libraries)?;
        let none = self.backends_without_wheels(&requirements);
        Ok(VenvResult { requirements, choice, provided, none, findings, copied, lock })
    }

    /// Selects the wheels; `None` if no toolkit description for CUDA exists.
    fn choose(
        &self,
        requirements: &VenvRequirements,
        libraries: &BTreeMap<String, String>,
    ) -> Result<Option<VenvChoice<'t>>, Failure> {
        let Some(cuda) = self.machine.catalogue.for_backend(Backend::Cuda) else { return Ok(None) };
        let (libc, driver) = (self.libc(), self.driver());
        let query = VenvQuery {
            table: self.table,
            platform: self.context.host.platform(),
            libc: &libc,
            libraries,
            toolkit: requirements.needs.toolkit.as_ref(),
            major: self.request.cuda,
            driver: driver.as_ref(),
            cuda,
        };
        choose(&query).map(Some).map_err(|problem| self.failure(&problem))
    }

    fn failure(&self, problem: &VenvProblem) -> Failure {
        failure(self.machine, problem)
    }

    /// Combines the requirements of the last build with the command line.
    fn requirements(&self) -> Result<VenvRequirements, Failure> {
        let host = self.context.host;
        let named = match backend_request(self.request.backends, host, None)?.selection {
            BackendSelection::Named(list) if self.request.backends.is_some() => Some(list),
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
        let cuda_requested = self.request.cuda.is_some();
        if built.is_empty() && named.is_none() && !cuda_requested && !self.request.is_named {
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
                Some(NeededToolkit { version, from: copy.root.to_string() })
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
        WheelLibc::of(self.machine.facts.libc.as_ref().map(|fact| &fact.value))
    }

    fn provide(&self, choice: Option<&VenvChoice<'t>>) -> Result<Provided<'t>, Failure> {
        let install = install_command(&self.machine.facts, &self.table.environment);
        let record = record(self.context, self.project, &self.folder);
        let provided = provide(&ProvideJob {
            host: self.context.host,
            table: self.table,
            choice,
            libc: &self.libc(),
            folder: &self.folder,
            tools: &InstalledTools::of(&self.machine.inventory),
            python: self.request.python,
            network: self.request.network,
            find_links: &self.request.find_links,
            mode: self.request.mode,
            install: install.as_deref(),
            previous: record.as_ref(),
            sink: self.sink,
        });
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
        if self.request.mode == Mode::Check {
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

    /// Writes the wheels with their addresses and hashes.
    fn write_lock(&self, file: &HostPath, choice: &VenvChoice<'_>) -> Result<(), Failure> {
        let name = file.file_name().unwrap_or_default();
        let inner = name.strip_prefix("pylock.").and_then(|rest| rest.strip_suffix(".toml"));
        if name != "pylock.toml" && inner.is_none_or(|inner| inner.is_empty() || inner.contains('.')) {
            let message = format!("`{name}` is not a name of a lock file that uv and pip read");
            return Err(Failure::usage(id!("usage.lock-name"), message)
                .hint("write to `pylock.toml` or `pylock.NAME.toml`"));
        }
        let requirements = pylock::requirements(&choice.wheels);
        let (context, request) = (self.context, &self.request);
        let pin = PinRequest {
            requirement: &requirements,
            index: None,
            find_links: &request.find_links,
            network: request.network,
        };
        let text = lock::resolve(context, self.machine, &pin)?;
        pylock::check(&text, &choice.wheels).map_err(|error| Failure::of(&error, Exit::Negative))?;
        let written = context.host.write(file, text.as_bytes());
        written.map_err(|error| self.failure(&VenvProblem::io("write", file, &error)))
    }

    fn copy(
        &self,
        choice: Option<&VenvChoice<'_>>,
        provided: Option<&Provided<'_>>,
        libraries: &BTreeMap<String, String>,
    ) -> Result<Vec<copy::CopiedLibrary>, Failure> {
        let Some(to) = &self.request.copy_to else { return Ok(Vec::new()) };
        let (Some(choice), Some(provided)) = (choice, provided) else { return Ok(Vec::new()) };
        let mut names: BTreeSet<String> = libraries.keys().cloned().collect_set();
        if names.is_empty() {
            names =
                provided.libraries.iter().filter_map(|path| path.file_name().map(str::to_owned)).collect();
        }
        let mut folders: Vec<HostPath> = provided.libraries.iter().filter_map(HostPath::parent).collect();
        folders.dedup();
        let copied = copy::closure(self.context.host, choice.release, &folders, &names)
            .and_then(|closure| copy::copy(self.context.host, &closure, to));
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
            render(self.machine, &draft, Severity::Warning)
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
            Some(render(self.machine, &draft, Severity::Warning))
        };
        foreign.filter_map(hit).collect()
    }
}

fn cuda_libraries(needs: &RuntimeNeeds) -> BTreeMap<String, String> {
    let of_cuda = needs.libraries.iter().filter(|(_, needed)| needed.backend == Backend::Cuda);
    of_cuda.map(|(library, needed)| (library.clone(), needed.by.clone())).collect()
}
