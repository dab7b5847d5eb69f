//! Executes a plan: downloads tools, configures and builds the trees, collects the artifacts, writes the manifest and runs
//! cargo to build the program. All decisions are in the plan; progress is reported as [`BuildEvent`]s.

mod abi;
pub mod binary;
mod changed;
pub mod collect;
pub mod cross;
mod custom;
pub mod editor;
pub mod error;
pub mod folder;
mod full_disk;
mod kept_lines;
pub mod known;
pub mod launcher;
pub mod log;
pub mod memory;
pub mod modules;
pub mod ninja;
mod objects;
pub mod processes;
pub mod reuse;
mod shares;
mod sources;
mod special;
pub mod stage;
pub mod stamp;
pub mod timings;
pub mod together;
mod tree;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::finding::Finding;
pub use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait};
use gpubuild_plan::artifacts::{self, Artifact, BuiltTree, CargoLink, Manifest};
use gpubuild_plan::glue;
use gpubuild_plan::link;
use gpubuild_plan::plan::libclang::LIBCLANG;
use gpubuild_plan::plan::{CmakePackage, Dropped, Plan};
use gpubuild_plan::target;

use self::shares::{JobShare, Shares};
use crate::environment;
pub use crate::event::{BuildEvent, Sink, TreeState};
use crate::python::Network;
use crate::python::fetch::{fetch_optional, fetched};
use crate::python::{UnpackWheel, WheelAccess};
use crate::store::remote::RemoteLevel;
use crate::store::settings::Store;
pub use changed::changed_files;
pub use error::{BuildError, RuntimeError, RuntimeErrorKind};

/// The inputs of a build in addition to its plan.
pub struct BuildJob<'a> {
    /// The host interface.
    pub host: &'a dyn Host,
    /// Name of the project.
    pub project: String,
    /// Build folder of the project, which contains the trees and the manifest.
    pub root: HostPath,
    /// Lock file that is held during the build; see [`folder::lock_path`].
    pub lock: HostPath,
    /// Tools that are installed on the machine.
    pub tools: InstalledTools,
    /// Whether tools and crates may be downloaded.
    pub network: Network,
    /// Installs tools where neither uv nor pip is installed.
    pub direct: Option<&'a dyn UnpackWheel>,
    /// Whether to build the Rust program.
    pub binary: BuildBinary,
    /// Computes a new plan without the failed backends. Without it, every failure is an error.
    pub replan: Option<Replan<'a>>,
    /// Finds causes in the output of failed programs.
    pub explain: Option<ExplainFn<'a>>,
    /// The build store, if one is used.
    pub store: Option<Store>,
    /// The second level behind the build store, if one is used.
    pub remote: Option<&'a dyn RemoteLevel>,
    /// Installs the libraries that the build needs at run time.
    pub runtime: Option<ProvideRuntime<'a>>,
    /// Receives the events.
    pub sink: Sink<'a>,
}

/// The output of a failed program.
#[derive(Debug, Clone, Copy)]
pub struct Printed<'a> {
    /// The output lines.
    pub lines: &'a [String],
    /// Path of the log file that contains the lines.
    pub log: &'a str,
    /// Number of lines of other programs before them in the log file.
    pub before: usize,
}

/// Finds the causes of a failure, root cause first.
pub type ExplainFn<'a> = &'a (dyn Fn(Printed<'_>) -> Vec<Finding> + Sync);

impl BuildJob<'_> {
    /// The causes recognised in the output of the last program of a log.
    fn causes(&self, log: &log::BuildLog<'_>) -> Vec<Finding> {
        let path = log.path().to_string();
        let printed = Printed { lines: log.last(), log: &path, before: log.before() };
        self.explain.map(|explain| explain(printed)).unwrap_or_default()
    }
}

/// Installs the libraries that the last build needs at run time, and writes the record of the environment that contains them.
pub type ProvideRuntime<'a> = &'a (dyn Fn() -> Result<(), RuntimeError> + Sync);

/// Computes a plan without the given backends, each with the reason for its failure. Errors are messages.
pub type Replan<'a> = &'a (dyn Fn(&[(Backend, String)]) -> Result<Plan, String> + Sync);

/// Whether to build the Rust program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildBinary {
    /// Build it if the plan has one.
    Yes,
    /// Do not build it.
    No,
}

/// The result of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOutcome {
    /// The manifest.
    pub manifest: Manifest,
    /// Path of the manifest.
    pub path: HostPath,
    /// The Rust program, if one was built.
    pub program: Option<Artifact>,
    /// Omitted backends with reasons: those that the plan omits and those that failed.
    pub dropped: Vec<Dropped>,
    /// Whether anything was built.
    pub state: TreeState,
}

/// Builds everything in a plan.
///
/// # Errors
/// See [`BuildError`]. After any error the next build resumes from the files on disk.
pub fn build(job: &BuildJob<'_>, plan: &Plan) -> Result<BuildOutcome, BuildError> {
    let started = job.host.elapsed();
    let _lock = lock(job)?;
    cross::check(job, plan)?;
    if let Some(copy) = &plan.copy {
        sources::prepare(job, copy)?;
    }
    for package in &plan.packages {
        write_package(job, package)?;
    }
    let tools = fetch_tools(job, plan)?;
    cross::write_programs(job, plan)?;
    let (plan, built) = build_trees(job, plan, &tools)?;
    let (trees, states): (Vec<BuiltTree>, Vec<TreeState>) = built.into_iter().unzip();
    let mut state = any_built(&states);
    let path = artifacts::manifest_path(&job.root);
    let mut manifest = Manifest {
        schema: artifacts::SCHEMA,
        gpubuild: env!("CARGO_PKG_VERSION").to_owned(),
        project: job.project.clone(),
        backends: plan.backends.clone(),
        loader: plan.loader.clone(),
        target: plan.target.clone(),
        trees,
        cargo: None,
    };
    together::add(job, &plan.with, &mut manifest)?;
    manifest.cargo = Some(for_cargo(job.host, &manifest));
    publish(job, &path, &manifest)?;
    place(job, &manifest, &stage::runtime_folder(&job.root))?;
    provide_runtime(job)?;
    let mut program = None;
    if let (Some(binary), BuildBinary::Yes) = (&plan.binary, job.binary) {
        let (mut artifact, binary_state) = binary::build(job, binary, &path, &manifest)?;
        // Packages of the program can link more libraries of the toolkit than the manifest lists.
        if binary_state == TreeState::Built && provide_runtime(job)? {
            (artifact, _) = binary::build(job, binary, &path, &manifest)?;
        }
        state = any_built(&[state, binary_state]);
        if let Some(target) = &plan.target {
            cross::refuse_newer_glibc(job.host, target, &artifact)?;
        }
        if let Some(folder) = job.host.path(&artifact.path).parent() {
            place(job, &manifest, &folder)?;
        }
        program = Some(artifact);
    }
    (job.sink)(&BuildEvent::Done {
        backends: manifest.backends.clone(),
        manifest: path.to_string(),
        binary: program.as_ref().map(|program| program.path.clone()),
        device_code: manifest.device_code(),
        state,
        seconds: job.host.elapsed().saturating_sub(started).as_secs_f64(),
    });
    Ok(BuildOutcome { manifest, path, program, dropped: plan.dropped, state })
}

/// Installs the libraries that the build needs at run time. Returns whether the search path of the program changed.
fn provide_runtime(job: &BuildJob<'_>) -> Result<bool, BuildError> {
    let Some(provide) = job.runtime else { return Ok(false) };
    let before = environment::search_path(job.host, &job.root);
    provide().map_err(|error| BuildError::Runtime(Box::new(error)))?;
    Ok(environment::search_path(job.host, &job.root) != before)
}

/// How cargo links a program with the built libraries.
fn for_cargo(host: &dyn ReadFiles, manifest: &Manifest) -> CargoLink {
    let beside = stage::needed(host, manifest);
    let modules = glue::modules(manifest, &beside);
    CargoLink { beside, modules, ..link::for_cargo(manifest, manifest.os(host.platform().os)) }
}

fn any_built(states: &[TreeState]) -> TreeState {
    let most = [TreeState::Built, TreeState::Taken].into_iter().find(|state| states.contains(state));
    most.unwrap_or(TreeState::Unchanged)
}

/// Checks the libraries for symbol conflicts and writes the manifest. An identical manifest is not written again because the
/// program's build script watches it.
fn publish(job: &BuildJob<'_>, path: &HostPath, manifest: &Manifest) -> Result<(), BuildError> {
    if Manifest::read(job.host, path).is_ok_and(|before| before == *manifest) {
        return Ok(());
    }
    collect::refuse_duplicates(job.host, &manifest.trees)?;
    modules::refuse_called(job.host, manifest)?;
    manifest.write(job.host, path).map_err(|error| BuildError::io("write", path, &error))
}

/// Writes a CMake package file unless it is up to date. A newer file would make CMake configure again.
fn write_package(job: &BuildJob<'_>, package: &CmakePackage) -> Result<(), BuildError> {
    if job.host.read_text(&package.file).is_ok_and(|before| before == package.text) {
        return Ok(());
    }
    job.host
        .write(&package.file, package.text.as_bytes())
        .map_err(|error| BuildError::io("write", &package.file, &error))
}

/// Links or copies shared libraries and modules into a folder where programs find them.
fn place(job: &BuildJob<'_>, manifest: &Manifest, folder: &HostPath) -> Result<(), BuildError> {
    stage::place(job.host, manifest, folder)
        .map_err(|error| BuildError::io("copy libraries to", folder, &error))
}

/// Locks the build folder. Waits if another build uses it.
fn lock(job: &BuildJob<'_>) -> Result<FileLock, BuildError> {
    let path = &job.lock;
    folder::refuse_links(job.host, path, &job.root)?;
    let failed = |error: std::io::Error| BuildError::io("lock", path, &error);
    let lock = if let Some(lock) = job.host.lock(path, Wait::No).map_err(failed)? {
        lock
    } else {
        (job.sink)(&BuildEvent::Waiting { lock: path.to_string() });
        let lock = job.host.lock(path, Wait::Yes).map_err(failed)?;
        // The other process may have changed the folder.
        folder::refuse_links(job.host, path, &job.root)?;
        lock.ok_or(BuildError::Interrupted)?
    };
    job.host.create_dir_all(&job.root).map_err(|error| BuildError::io("create", &job.root, &error))?;
    Ok(lock)
}

/// The installed tools, with those that the plan requires downloaded.
fn fetch_tools(job: &BuildJob<'_>, plan: &Plan) -> Result<InstalledTools, BuildError> {
    let mut tools = job.tools.clone();
    let access = WheelAccess { tools: &job.tools, network: job.network, index: None, direct: job.direct };
    for fetch in &plan.fetch {
        match fetch.tool.as_str() {
            target::ZIG => {
                crate::python::fetch(job.host, fetch, access, job.sink)?;
            }
            LIBCLANG => {
                // The build script of the program reports a missing libclang, unless it has bindings.
                if job.binary == BuildBinary::Yes {
                    fetch_optional(job.host, fetch, access, job.sink)?;
                }
            }
            tool => {
                if let Some(slot) = slot(&mut tools, tool) {
                    *slot = Some(crate::python::fetch(job.host, fetch, access, job.sink)?);
                }
            }
        }
    }
    Ok(tools)
}

/// The tool that a download replaces, because it is missing or too old.
fn slot<'a>(tools: &'a mut InstalledTools, tool: &str) -> Option<&'a mut Option<HostPath>> {
    match tool {
        "cmake" => Some(&mut tools.cmake),
        "ninja" => Some(&mut tools.ninja),
        _ => None,
    }
}

/// Returns the tools with which a build of this plan would start, as far as they are here: the installed ones, and those of gpubuild's cache
/// instead of a download. Sets them in the trees as a build does, so that these have the same keys.
#[must_use]
pub fn tools_here(host: &dyn Host, installed: &InstalledTools, plan: &mut Plan) -> InstalledTools {
    let mut tools = installed.clone();
    for fetch in &plan.fetch {
        if let Some(slot) = slot(&mut tools, &fetch.tool) {
            *slot = fetched(host, fetch);
        }
    }
    for tree in &mut plan.trees {
        tree::set_make_program(tree, tools.ninja.as_ref());
    }
    tools
}

type TreeResult = Vec<(BuiltTree, TreeState)>;

/// Builds the trees. If a backend fails that the user did not request explicitly, computes a plan without it and tries again.
fn build_trees(
    job: &BuildJob<'_>,
    plan: &Plan,
    tools: &InstalledTools,
) -> Result<(Plan, TreeResult), BuildError> {
    let mut plan = plan.clone();
    let mut without: Vec<(Backend, String)> = Vec::new();
    loop {
        let mut built = Vec::new();
        let mut failures = Vec::new();
        for (tree, result) in plan.trees.iter().zip(run_all(job, tools, &plan)) {
            match result {
                Ok(done) => built.push(done),
                Err(error) => failures.push((tree, error)),
            }
        }
        if failures.is_empty() {
            return Ok((plan, built));
        }
        let known = without.len();
        for (tree, error) in failures {
            let optional: Vec<Backend> = tree
                .backends
                .iter()
                .copied()
                .filter(|backend| *backend != Backend::Cpu && !tree.named.contains(backend))
                .collect();
            let replaceable = matches!(
                error,
                BuildError::Configure { .. } | BuildError::Compile { .. } | BuildError::Incomplete { .. }
            );
            let failed = error::failed_backends(&optional, &error);
            if !replaceable || failed.is_empty() || job.replan.is_none() || error.id() == "disk.full" {
                return Err(error);
            }
            for backend in failed {
                let because = |cause: &Finding| format!(", because {} [{}]", cause.summary, cause.id);
                let because = error.causes().first().map(because).unwrap_or_default();
                let why = format!("{error} [{}]{because}", error.id());
                (job.sink)(&BuildEvent::Dropped { backend, why: why.clone() });
                without.push((backend, why));
            }
        }
        let Some(replan) = job.replan.filter(|_| without.len() > known) else {
            return Err(BuildError::Replan("no backends remain to be built".to_owned()));
        };
        plan = replan(&without).map_err(BuildError::Replan)?;
        plan.dropped.retain(|dropped| without.iter().all(|(backend, _)| *backend != dropped.id));
        plan.dropped.extend(without.iter().map(|(id, why)| Dropped { id: *id, reasons: vec![why.clone()] }));
        plan.dropped.sort_indirect_by_key(|dropped| dropped.id);
        if let Some((backend, _)) = without.iter().find(|(backend, _)| plan.backends.contains(backend)) {
            return Err(BuildError::Replan(format!(
                "the new plan still contains the failed backend `{backend}`"
            )));
        }
    }
}

/// Builds the trees in parallel. Together they never use more jobs than the plan allows.
fn run_all(
    job: &BuildJob<'_>,
    tools: &InstalledTools,
    plan: &Plan,
) -> Vec<Result<(BuiltTree, TreeState), BuildError>> {
    let trees = &plan.trees;
    let total = trees.iter().map(|tree| tree.jobs.total).max().unwrap_or(1).max(1);
    let count = u32::try_from(trees.len()).unwrap_or(u32::MAX);
    let workers = count.min(total);
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..trees.len()).collect());
    let results = Mutex::new(Vec::new());
    let interrupted = AtomicBool::new(false);
    let pipe = job.root.join(".jobs");
    let shares = Shares::new(job.host, pipe, tools.ninja.as_ref(), trees, (total, workers));
    let work = |worker: u32| {
        let share = JobShare { shares: &shares, worker, workers };
        while let Some(index) = next_index(&queue).filter(|_| !interrupted.load(Ordering::Relaxed)) {
            let result = tree::run(job, tools, &trees[index], &plan.extra, share);
            if matches!(result, Err(BuildError::Interrupted)) {
                interrupted.store(true, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
        }
        shares.leave();
    };
    std::thread::scope(|scope| {
        for worker in 1..workers {
            let work = &work;
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || work(worker));
            if let Err(error) = spawned {
                // The other workers build its trees, with its jobs.
                ::log::debug!("failed to create a thread: {error}");
                shares.leave();
            }
        }
        // The current thread is a worker too, because most builds have a single tree that is often up to date.
        if workers > 0 {
            work(0);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_indirect_by_key(|(index, _)| *index);
    if results.len() < trees.len() {
        return trees.iter().map(|_| Err(BuildError::Interrupted)).collect();
    }
    results.into_iter().map(|(_, result)| result).collect()
}

fn next_index(queue: &Mutex<VecDeque<usize>>) -> Option<usize> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front()
}
