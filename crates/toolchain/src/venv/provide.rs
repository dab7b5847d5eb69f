//! Brings an environment to where it has the wheels of a choice: looks first, refuses what would harm, installs what is
//! missing, and has a child load it. A second call finds everything as it was and starts no process.

use std::collections::BTreeMap;

use gpubuild_detect::finding::Evidence;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::environment::{Answers, VenvRecord};
use gpubuild_exec::event::Sink;
use gpubuild_exec::python::{self, InstallTarget, Network, Options, PipInstallError};
use gpubuild_host::{FileLock, Host, HostPath, Wait, WriteFiles};
use gpubuild_plan::wheels::tag::WheelLibc;

use super::choose::VenvChoice;
use super::environment::{self, VenvCreator, VirtualEnvironment};
use super::installed::{self, Distribution, WheelState};
use super::problem::VenvProblem;
use super::table::{WheelRow, WheelTable};
use super::verify;

/// Whether anything may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What is missing is installed; another version that is there is a reason to stop.
    Install,
    /// Another version is replaced.
    Force,
    /// Nothing is changed.
    Check,
}

/// Everything that is needed to provide an environment.
#[derive(Clone, Copy)]
pub struct ProvideJob<'a, 'c> {
    /// The machine.
    pub host: &'a dyn Host,
    /// The wheels that are known.
    pub table: &'a WheelTable,
    /// The wheels to install; `None` makes an empty environment.
    pub choice: Option<&'c VenvChoice<'c>>,
    /// The C library of the machine.
    pub libc: &'a WheelLibc,
    /// Where.
    pub folder: &'a HostPath,
    /// uv and Python.
    pub tools: &'a InstalledTools,
    /// `--python`.
    pub python: Option<&'a str>,
    /// Whether anything may be downloaded.
    pub network: Network,
    /// Folders with wheels.
    pub find_links: &'a [HostPath],
    /// Whether anything may be changed.
    pub mode: Mode,
    /// What installs the missing parts of a Python here.
    pub install: Option<&'a str>,
    /// What was verified the last time.
    pub previous: Option<&'a VenvRecord>,
    /// Who is told.
    pub sink: Sink<'a>,
}

/// What became of a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It was there.
    Present,
    /// It was installed.
    Installed,
    /// It replaced another version.
    Replaced,
}

/// An environment that has what is needed.
#[derive(Debug, Clone)]
pub struct Provided<'a> {
    /// The environment.
    pub environment: VirtualEnvironment,
    /// Whether it was made.
    pub made: bool,
    /// The wheels with what became of them.
    pub wheels: Vec<(&'a WheelRow, Became)>,
    /// Their libraries, in the order in which they are loaded.
    pub libraries: Vec<HostPath>,
    /// What the libraries answered.
    pub answers: Answers,
    /// Whether they were loaded now, and not only before.
    pub loaded: bool,
}

/// Why an environment does not have what is needed.
#[derive(Debug)]
pub enum ProvideError {
    /// It was refused, or it does not work.
    Problem(VenvProblem),
    /// The installer failed.
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
/// See [`ProvideError`]. What can be known beforehand is told before anything is changed.
pub fn provide<'c>(job: &ProvideJob<'_, 'c>) -> Result<Provided<'c>, ProvideError> {
    let wheels = job.choice.map(|choice| choice.wheels.clone()).unwrap_or_default();
    let oldest = &job.table.python;
    let _lock = lock(job)?;
    let (environment, made) = match environment::adopt(job.host, job.folder, oldest)? {
        Some(environment) => (environment, false),
        None if job.mode == Mode::Check => {
            return Err(incomplete(&format!("`{}`", job.folder)).into());
        }
        None => {
            let ProvideJob { host, tools, python, network, install, .. } = *job;
            (VenvCreator { host, tools, python, network, install }.make(job.folder, oldest)?, true)
        }
    };
    let plan = ProvidePlan::of(job, &environment, &wheels)?;
    let became = plan.act(job, &environment)?;
    let libraries = verify::libraries(&environment.site, &wheels, job.host.platform());
    if let Some(path) = libraries.iter().find(|path| !job.host.is_file(path)) {
        return Err(incomplete(&format!("`{path}`")).into());
    }
    let nothing_new = became.iter().all(|(_, became)| *became == Became::Present);
    let known = job.previous.filter(|record| {
        job.mode != Mode::Check && nothing_new && record.is_current(job.host) && holds(record, &libraries)
    });
    let (answers, loaded) = match known {
        Some(record) => (record.answers.clone(), false),
        None if wheels.is_empty() => (Answers::default(), false),
        None => (verify::verify(job.host, &libraries, &wheels)?, true),
    };
    Ok(Provided { environment, made, wheels: became, libraries, answers, loaded })
}

/// Whether exactly these libraries were verified.
fn holds(record: &VenvRecord, libraries: &[HostPath]) -> bool {
    record.libraries.len() == libraries.len()
        && libraries.iter().all(|path| record.libraries.contains_key(path.as_str()))
}

fn incomplete(what: &str) -> VenvProblem {
    VenvProblem::failed(id!("venv.incomplete")).value("what", what)
}

/// Two at once would install over each other. Only who may change anything locks.
fn lock(job: &ProvideJob<'_, '_>) -> Result<Option<FileLock>, VenvProblem> {
    let Some(path) = environment::lock_file(job.host, job.folder).filter(|_| job.mode != Mode::Check) else {
        return Ok(None);
    };
    let io = |error: std::io::Error| VenvProblem::io("lock", &path, &error);
    if let Some(folder) = path.parent() {
        job.host.create_dir_all(&folder).map_err(io)?;
    }
    let lock = job.host.lock(&path, Wait::Yes).map_err(io)?;
    environment::clear_half_made(job.host, job.folder);
    Ok(lock)
}

/// What has to be done to the wheels of an environment.
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
                    return Err(incomplete(&format!("{} {}", wheel.package, wheel.version)));
                }
                WheelState::Damaged { why, .. } if job.mode == Mode::Check => {
                    return Err(incomplete(&format!("{} {}: {why}", wheel.package, wheel.version)));
                }
                _ => {}
            }
        }
        if steps.iter().any(|(_, state)| *state != WheelState::Whole) {
            refuse_read_only(job.host, environment)?;
        }
        Ok(Self { steps })
    }

    /// Installs what is missing. What is damaged says that it is there, so that installers would pass it over: it loses
    /// the folder that says so first.
    fn act(
        self,
        job: &ProvideJob<'_, '_>,
        environment: &VirtualEnvironment,
    ) -> Result<Vec<(&'a WheelRow, Became)>, ProvideError> {
        let mut became = Vec::new();
        let mut install = Vec::new();
        for (wheel, state) in self.steps {
            if let WheelState::Damaged { info, .. } = &state {
                job.host.remove(info).map_err(|error| VenvProblem::io("remove", info, &error))?;
            }
            if state != WheelState::Whole {
                install.push(wheel.pinned(job.host.platform(), job.libc));
            }
            let is = match state {
                WheelState::Whole => Became::Present,
                WheelState::Other { .. } => Became::Replaced,
                WheelState::Absent | WheelState::Damaged { .. } => Became::Installed,
            };
            became.push((wheel, is));
        }
        if !install.is_empty() {
            let options = Options { network: job.network, find_links: job.find_links };
            let into = InstallTarget::Environment { python: &environment.python };
            python::install(job.host, job.tools, &install, into, options, job.sink)
                .map_err(ProvideError::Install)?;
        }
        Ok(became)
    }
}

/// Another version is there: whoever put it there may need it.
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
    let problem = by.iter().fold(problem, |problem, who| {
        problem.evidence(Evidence::file(job.folder.as_str(), format!("{who} needs {}", wheel.package)))
    });
    if by.is_empty() { problem } else { problem.value("by", by.join(", ")).case("needed") }
}

fn refuse_read_only(host: &dyn WriteFiles, environment: &VirtualEnvironment) -> Result<(), VenvProblem> {
    match host.temporary_dir(&environment.site) {
        Ok(folder) => {
            // It is empty; leaving it behind would be all that goes wrong.
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
    fn what_is_there_is_loaded_once_and_then_known() {
        let host = with_runtime("12.9.79").probe(verify::PROBE, r#"{"cudart":12090}"#).build();
        assert_eq!(run(&host, Mode::Install, None), Ok((1, true)));
        let library = host.path(&format!("{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"));
        let record = VenvRecord::new(&host, &host.path("/v"), "12.9", &[library]);
        assert_eq!(run(&host, Mode::Install, Some(&record)), Ok((1, false)));
        assert_eq!(run(&host, Mode::Check, Some(&record)), Ok((1, true)), "a check loads it again");
        let other = VenvRecord::new(&host, &host.path("/v"), "12.9", &[]);
        assert_eq!(run(&host, Mode::Install, Some(&other)), Ok((1, true)), "another set was verified");
        assert!(environment::fits_search_path("/v/lib"));
    }

    #[test]
    fn another_version_is_never_replaced_in_silence() {
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
    fn an_environment_that_cannot_be_written_is_told_before_anything_starts() {
        // A recording is a machine that nobody can write to.
        let host = with_runtime("12.9.70").build();
        let error = run(&host, Mode::Force, None).unwrap_err();
        assert!(error.starts_with("venv.read-only") && error.contains(SITE), "{error}");
    }

    #[test]
    fn a_check_says_what_is_missing_and_changes_nothing() {
        let host = with_runtime("12.9.79").probe(verify::PROBE, r#"{"cudart":12090}"#).build();
        assert_eq!(run(&host, Mode::Check, None), Ok((1, true)));
        let empty = RecordedHost::builder(Os::Linux, Arch::X86_64).directory("/v").build();
        assert_eq!(run(&empty, Mode::Check, None), Err("venv.incomplete `/v`".to_owned()));
    }
}
