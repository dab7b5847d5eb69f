//! Provides an environment with the selected wheels: inspects it, refuses changes that could break other projects, installs
//! missing wheels, and loads the libraries in a child process. If nothing has changed since the last call, no process is
//! started.

use std::collections::BTreeMap;

use gpubuild_detect::finding::Evidence;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::environment::{Answers, VenvRecord};
use gpubuild_exec::event::Sink;
use gpubuild_exec::python::{self, InstallTarget, Network, PipInstallError, WheelAccess};
use gpubuild_host::{FileLock, Host, HostPath, Wait, WriteFiles};
use gpubuild_plan::wheels::tag::WheelLibc;

use super::choose::VenvChoice;
use super::environment::{self, VenvCreator, VirtualEnvironment};
use super::installed::{self, Distribution, WheelState};
use super::problem::VenvProblem;
use super::table::{WheelRow, WheelTable};
use super::verify;

/// Which changes are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Install missing wheels; refuse to replace other versions.
    Install,
    /// Install missing wheels and replace other versions.
    Force,
    /// Change nothing.
    Check,
}

/// The inputs for providing an environment.
#[derive(Clone, Copy)]
pub struct ProvideJob<'a, 'c> {
    /// The machine.
    pub host: &'a dyn Host,
    /// The table of known wheels.
    pub table: &'a WheelTable,
    /// The wheels to install; `None` creates an empty environment.
    pub choice: Option<&'a VenvChoice<'c>>,
    /// The C library of the machine.
    pub libc: &'a WheelLibc,
    /// Folder of the environment.
    pub folder: &'a HostPath,
    /// Paths of uv and Python.
    pub tools: &'a InstalledTools,
    /// Python version or program given with `--python`.
    pub python: Option<&'a str>,
    /// Whether downloads are allowed.
    pub network: Network,
    /// Folders with wheels, searched in addition to the index.
    pub find_links: &'a [HostPath],
    /// Which changes are allowed.
    pub mode: Mode,
    /// The command that installs missing parts of Python on this system.
    pub install: Option<&'a str>,
    /// The record of the last verification.
    pub previous: Option<&'a VenvRecord>,
    /// Receives progress events.
    pub sink: Sink<'a>,
}

/// What was done with a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WheelOutcome {
    /// It was already installed.
    Present,
    /// It was installed.
    Installed,
    /// It replaced another version.
    Replaced,
}

/// An environment with all selected wheels.
#[derive(Debug, Clone)]
pub struct Provided<'a> {
    /// The environment.
    pub environment: VirtualEnvironment,
    /// Whether the environment was created.
    pub made: bool,
    /// The wheels with their outcomes.
    pub wheels: Vec<(&'a WheelRow, WheelOutcome)>,
    /// Paths of their libraries in load order.
    pub libraries: Vec<HostPath>,
    /// The versions that the libraries report.
    pub answers: Answers,
    /// Whether this call loaded them; otherwise the versions come from the last record.
    pub loaded: bool,
}

/// An environment that cannot be provided.
#[derive(Debug)]
pub enum ProvideError {
    /// The request was refused, or the libraries do not work.
    Problem(VenvProblem),
    /// uv or pip failed.
    Install(PipInstallError),
}

impl From<VenvProblem> for ProvideError {
    fn from(problem: VenvProblem) -> Self {
        Self::Problem(problem)
    }
}

/// Provides an environment.
///
/// # Errors
/// See [`ProvideError`]. Problems that can be detected in advance are reported before anything is changed.
pub fn provide<'c>(job: &ProvideJob<'_, 'c>) -> Result<Provided<'c>, ProvideError> {
    let wheels = job.choice.map(|choice| choice.wheels.clone()).unwrap_or_default();
    let oldest = &job.table.python;
    let _lock = lock(job)?;
    let (environment, made) = match environment::adopt(job.host, job.folder, oldest)? {
        Some(environment) => (environment, false),
        None if job.mode == Mode::Check => {
            return Err(incomplete(&format!("`{}` does not exist", job.folder)).into());
        }
        None => {
            let ProvideJob { host, tools, python, network, install, .. } = *job;
            (VenvCreator { host, tools, python, network, install }.create(job.folder, oldest)?, true)
        }
    };
    let plan = ProvidePlan::of(job, &environment, &wheels)?;
    let outcomes = plan.act(job, &environment)?;
    let libraries = verify::libraries(&environment.site, &wheels, job.host.platform());
    if let Some(path) = libraries.iter().find(|path| !job.host.is_file(path)) {
        return Err(incomplete(&format!("`{path}` is missing")).into());
    }
    let nothing_new = outcomes.iter().all(|(_, outcome)| *outcome == WheelOutcome::Present);
    let known = job.previous.filter(|record| {
        job.mode != Mode::Check && nothing_new && record.is_current(job.host) && holds(record, &libraries)
    });
    let (answers, loaded) = match known {
        Some(record) => (record.answers.clone(), false),
        None if wheels.is_empty() => (Answers::default(), false),
        None => (verify::verify(job.host, &libraries, &wheels)?, true),
    };
    Ok(Provided { environment, made, wheels: outcomes, libraries, answers, loaded })
}

/// Whether a record is for exactly these libraries.
fn holds(record: &VenvRecord, libraries: &[HostPath]) -> bool {
    record.libraries.len() == libraries.len()
        && libraries.iter().all(|path| record.libraries.contains_key(path.as_str()))
}

fn incomplete(what: &str) -> VenvProblem {
    VenvProblem::failed(id!("venv.incomplete")).value("what", what)
}

/// Locks the environment against concurrent installations. [`Mode::Check`] needs no lock.
fn lock(job: &ProvideJob<'_, '_>) -> Result<Option<FileLock>, VenvProblem> {
    let Some(path) = environment::lock_file(job.host, job.folder).filter(|_| job.mode != Mode::Check) else {
        return Ok(None);
    };
    let io = |error: std::io::Error| VenvProblem::io("lock", &path, &error);
    if let Some(folder) = path.parent() {
        job.host.create_dir_all(&folder).map_err(io)?;
    }
    let lock = job.host.lock(&path, Wait::Yes).map_err(io)?;
    environment::remove_partial(job.host, job.folder);
    Ok(lock)
}

/// The states of the selected wheels in an environment, which determine the actions.
struct ProvidePlan<'a> {
    steps: Vec<(&'a WheelRow, WheelState)>,
}

impl<'a> ProvidePlan<'a> {
    fn of(
        job: &ProvideJob<'_, '_>,
        environment: &VirtualEnvironment,
        wheels: &[&'a WheelRow],
    ) -> Result<Self, VenvProblem> {
        let there = installed::distributions(job.host, environment)?;
        let state = |wheel: &'a WheelRow| {
            let found = installed::state(job.host, environment, &there, &wheel.package, &wheel.version);
            (wheel, found)
        };
        let steps: Vec<(&WheelRow, WheelState)> = wheels.iter().map(|wheel| state(wheel)).collect();
        for (wheel, found) in &steps {
            match found {
                WheelState::Other { version } if job.mode != Mode::Force => {
                    return Err(conflict(job, &there, wheel, version));
                }
                WheelState::Absent if job.mode == Mode::Check => {
                    return Err(incomplete(&format!("{} {} is not installed", wheel.package, wheel.version)));
                }
                WheelState::Damaged { why, .. } if job.mode == Mode::Check => {
                    return Err(incomplete(&format!("{} {}: {why}", wheel.package, wheel.version)));
                }
                _ => {}
            }
        }
        if steps.iter().any(|(_, state)| *state != WheelState::Complete) {
            refuse_read_only(job.host, environment)?;
        }
        Ok(Self { steps })
    }

    /// Installs missing wheels. Removes the `.dist-info` folder of damaged ones first, because installers would otherwise
    /// consider them installed.
    fn act(
        self,
        job: &ProvideJob<'_, '_>,
        environment: &VirtualEnvironment,
    ) -> Result<Vec<(&'a WheelRow, WheelOutcome)>, ProvideError> {
        let mut outcomes = Vec::new();
        let mut install = Vec::new();
        for (wheel, state) in self.steps {
            if let WheelState::Damaged { info, .. } = &state {
                job.host.remove(info).map_err(|error| VenvProblem::io("remove", info, &error))?;
            }
            if state != WheelState::Complete {
                install.push(wheel.pinned(job.host.platform(), job.libc));
            }
            let outcome = match state {
                WheelState::Complete => WheelOutcome::Present,
                WheelState::Other { .. } => WheelOutcome::Replaced,
                WheelState::Absent | WheelState::Damaged { .. } => WheelOutcome::Installed,
            };
            outcomes.push((wheel, outcome));
        }
        if !install.is_empty() {
            let access = WheelAccess { tools: job.tools, network: job.network, index: None, direct: None };
            let into = InstallTarget::Environment { python: &environment.python };
            python::install(job.host, access, &install, into, job.find_links, job.sink)
                .map_err(ProvideError::Install)?;
        }
        Ok(outcomes)
    }
}

/// The problem that another version is installed, with the packages that require it.
fn conflict(
    job: &ProvideJob<'_, '_>,
    there: &BTreeMap<String, Distribution>,
    wheel: &WheelRow,
    version: &str,
) -> VenvProblem {
    let by = installed::wanted_by(job.host, there, &wheel.package);
    let problem = VenvProblem::refused(id!("venv.conflict"))
        .value("path", job.folder.as_str())
        .value("package", wheel.package.as_str())
        .value("has", version)
        .value("pinned", wheel.version.as_str());
    let problem = by.iter().fold(problem, |problem, package| {
        problem.evidence(Evidence::file(job.folder.as_str(), format!("{package} needs {}", wheel.package)))
    });
    if by.is_empty() { problem } else { problem.value("by", by.join(", ")).case("needed") }
}

fn refuse_read_only(host: &dyn WriteFiles, environment: &VirtualEnvironment) -> Result<(), VenvProblem> {
    match host.temporary_dir(&environment.site) {
        Ok(folder) => {
            // The folder is empty, so an error is harmless.
            let _ = host.remove(&folder);
            Ok(())
        }
        Err(error) => Err(VenvProblem::refused(id!("venv.read-only"))
            .value("path", environment.site.as_str())
            .value("why", error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_exec::environment;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};

    const SITE: &str = "/v/lib/python3.11/site-packages";

    /// An environment with `libcudart.so.12` of this version.
    fn with_runtime(version: &str) -> RecordedHostBuilder {
        let library = format!("{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12");
        let info = format!("{SITE}/nvidia_cuda_runtime_cu12-{version}.dist-info");
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/v/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
            .executable("/v/bin/python")
            .directory(SITE)
            .file(&library, "abc")
            .file(&format!("{info}/RECORD"), "nvidia/cuda_runtime/lib/libcudart.so.12,sha256=x,3\n")
    }

    fn run(host: &RecordedHost, mode: Mode, previous: Option<&VenvRecord>) -> Result<(usize, bool), String> {
        let release = &WheelTable::embedded().releases[0];
        let wheels = vec![release.wheel_of(Os::Linux, "libcudart.so.12").unwrap()];
        let choice = VenvChoice { release, wheels, unknown: Vec::new() };
        let provided = provide(&ProvideJob {
            host,
            table: WheelTable::embedded(),
            choice: Some(&choice),
            libc: &WheelLibc::Other,
            folder: &host.path("/v"),
            tools: &InstalledTools::default(),
            python: None,
            network: Network::Offline,
            find_links: &[],
            mode,
            install: None,
            previous,
            sink: &|_| {},
        });
        match provided {
            Ok(provided) => Ok((provided.wheels.len(), provided.loaded)),
            Err(ProvideError::Problem(problem)) => {
                let values: Vec<String> = problem.draft.values.into_values().collect();
                Err(format!("{} {}", problem.draft.id, values.join(" ")))
            }
            Err(ProvideError::Install(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn installed_libraries_are_loaded_once() {
        let host = with_runtime("12.9.79").probe(verify::PROBE, r#"{"cudart":12090}"#).build();
        assert_eq!(run(&host, Mode::Install, None), Ok((1, true)));
        let library = host.path(&format!("{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"));
        let record = VenvRecord::new(&host, &host.path("/v"), "12.9", &[library]);
        assert_eq!(run(&host, Mode::Install, Some(&record)), Ok((1, false)));
        assert_eq!(run(&host, Mode::Check, Some(&record)), Ok((1, true)), "a check loads the library again");
        let other = VenvRecord::new(&host, &host.path("/v"), "12.9", &[]);
        assert_eq!(
            run(&host, Mode::Install, Some(&other)),
            Ok((1, true)),
            "the record is for other libraries"
        );
        assert!(environment::fits_search_path("/v/lib"));
    }

    #[test]
    fn other_versions_are_not_replaced_without_force() {
        let torch = format!("{SITE}/torch-2.7.0.dist-info/METADATA");
        let host = with_runtime("12.9.99")
            .file(&torch, "Requires-Dist: nvidia-cuda-runtime-cu12==12.9.99; platform_system == \"Linux\"\n")
            .build();
        for mode in [Mode::Install, Mode::Check] {
            let error = run(&host, mode, None).unwrap_err();
            assert!(
                error.starts_with("venv.conflict") && error.contains("12.9.99") && error.contains("12.9.79"),
                "{error}"
            );
            assert!(error.contains("torch 2.7.0 (==12.9.99)"), "{error}");
        }
    }

    #[test]
    fn read_only_environment_is_refused_before_installation() {
        // Recorded hosts are read-only.
        let host = with_runtime("12.9.70").build();
        let error = run(&host, Mode::Force, None).unwrap_err();
        assert!(error.starts_with("venv.read-only") && error.contains(SITE), "{error}");
    }

    #[test]
    fn check_reports_missing_wheels() {
        let host = with_runtime("12.9.79").probe(verify::PROBE, r#"{"cudart":12090}"#).build();
        assert_eq!(run(&host, Mode::Check, None), Ok((1, true)));
        let empty = RecordedHost::builder(Os::Linux, Arch::X86_64).directory("/v").build();
        assert_eq!(run(&empty, Mode::Check, None), Err("venv.incomplete `/v` does not exist".to_owned()));
    }
}
