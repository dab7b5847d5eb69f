//! Walks a plan: fetches tools, configures and builds the trees, collects what they produced, writes the manifest and
//! has cargo build the program. Everything it does stands in the plan; everything that happens is an [`BuildEvent`].

mod abi;
pub mod binary;
mod changed;
pub mod collect;
pub mod error;
pub mod folder;
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
pub mod stage;
pub mod stamp;
pub mod timings;
pub mod together;
mod tree;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::finding::Finding;
pub use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait};
use gpubuild_plan::artifacts::{self, Artifact, BuiltTree, CargoLink, Manifest};
use gpubuild_plan::glue;
use gpubuild_plan::link;
use gpubuild_plan::plan::{CmakePackage, Dropped, Plan};

use self::shares::{JobShare, Shares};
pub use crate::event::{BuildEvent, Sink, TreeState};
use crate::python::Network;
use crate::store::settings::Store;
pub use changed::changed_files;
pub use error::BuildError;

/// What a build needs beside its plan.
pub struct BuildJob<'a> {
    /// The machine.
    pub host: &'a dyn Host,
    /// Name of the project.
    pub project: String,
    /// Folder that holds the trees and the manifest.
    pub root: HostPath,
    /// The lock that is held meanwhile: see [`folder::lock_path`].
    pub lock: HostPath,
    /// Programs that are on the machine.
    pub tools: InstalledTools,
    /// Whether tools and crates may be fetched.
    pub network: Network,
    /// Whether the Rust program is built as well.
    pub binary: BuildBinary,
    /// Makes another plan without the backends that failed, with the reason for each.
    pub replan: Option<Replan<'a>>,
    /// Finds the causes in what failing programs printed.
    pub explain: Option<ExplainFn<'a>>,
    /// Where results are taken from and put into.
    pub store: Option<Store>,
    /// Where events go.
    pub sink: Sink<'a>,
}

/// What a program that failed has printed.
#[derive(Debug, Clone, Copy)]
pub struct Printed<'a> {
    /// Its lines.
    pub lines: &'a [String],
    /// The log that holds them.
    pub log: &'a str,
    /// How many lines of other programs stand before them in the log.
    pub before: usize,
}

/// Names the causes of a failure, the root cause first.
pub type ExplainFn<'a> = &'a (dyn Fn(Printed<'_>) -> Vec<Finding> + Sync);

impl BuildJob<'_> {
    /// The causes that the last program of a log shows.
    fn causes(&self, log: &log::BuildLog<'_>) -> Vec<Finding> {
        let path = log.path().to_string();
        let printed = Printed { lines: log.last(), log: &path, before: log.before() };
        self.explain.map(|explain| explain(printed)).unwrap_or_default()
    }
}

/// Makes a plan without some backends; an error is a message.
pub type Replan<'a> = &'a (dyn Fn(&[(Backend, String)]) -> Result<Plan, String> + Sync);

/// Whether the Rust program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildBinary {
    /// If the plan names one.
    Yes,
    /// Not this time.
    No,
}

/// What came of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOutcome {
    /// The manifest as it was written.
    pub manifest: Manifest,
    /// Where.
    pub path: HostPath,
    /// The Rust program, if the plan names one and it was built.
    pub program: Option<Artifact>,
    /// Backends that are not in it, with reasons: those of the plan and those that failed.
    pub dropped: Vec<Dropped>,
    /// Whether anything had to be done.
    pub state: TreeState,
}

/// Builds everything in a plan.
///
/// # Errors
/// See [`BuildError`]. Whatever is reported, the next build goes on from what is on disk.
pub fn build(job: &BuildJob<'_>, plan: &Plan) -> Result<BuildOutcome, BuildError> {
    let started = job.host.elapsed();
    let _lock = lock(job)?;
    if let Some(copy) = &plan.copy {
        sources::prepare(job, copy)?;
    }
    for package in &plan.packages {
        write_package(job, package)?;
    }
    let tools = fetch_tools(job, plan)?;
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
        trees,
        cargo: None,
    };
    together::add(job, &plan.with, &mut manifest)?;
    manifest.cargo = Some(for_cargo(job.host, &manifest));
    publish(job, &path, &manifest)?;
    place(job, &manifest, &stage::runtime_folder(&job.root))?;
    let mut program = None;
    if let (Some(binary), BuildBinary::Yes) = (&plan.binary, job.binary) {
        let (artifact, binary_state) = binary::build(job, binary, &path, &manifest)?;
        state = any_built(&[state, binary_state]);
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

/// How cargo links a program with what was built.
fn for_cargo(host: &dyn ReadFiles, manifest: &Manifest) -> CargoLink {
    let beside = stage::needed(host, manifest);
    let modules = glue::modules(manifest, &beside);
    CargoLink { beside, modules, ..link::for_cargo(manifest, host.platform().os) }
}

fn any_built(states: &[TreeState]) -> TreeState {
    let most = [TreeState::Built, TreeState::Taken].into_iter().find(|state| states.contains(state));
    most.unwrap_or(TreeState::Unchanged)
}

/// Writes the manifest if it differs (the program's build script watches it), once its libraries are found to go together.
fn publish(job: &BuildJob<'_>, path: &HostPath, manifest: &Manifest) -> Result<(), BuildError> {
    if Manifest::read(job.host, path).is_ok_and(|before| before == *manifest) {
        return Ok(());
    }
    collect::refuse_duplicates(job.host, &manifest.trees)?;
    modules::refuse_called(job.host, manifest)?;
    manifest.write(job.host, path).map_err(|error| BuildError::io("write", path, &error))
}

/// Writes a package unless it is there as it should be: CMake configures again where one is newer.
fn write_package(job: &BuildJob<'_>, package: &CmakePackage) -> Result<(), BuildError> {
    if job.host.read_text(&package.file).is_ok_and(|before| before == package.text) {
        return Ok(());
    }
    job.host
        .write(&package.file, package.text.as_bytes())
        .map_err(|error| BuildError::io("write", &package.file, &error))
}

/// Puts shared libraries and modules where programs find them.
fn place(job: &BuildJob<'_>, manifest: &Manifest, folder: &HostPath) -> Result<(), BuildError> {
    stage::place(job.host, manifest, folder)
        .map_err(|error| BuildError::io("put libraries into", folder, &error))
}

/// Locks the build folder, after waiting for another build that uses it.
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

/// The programs of the machine, completed by those that the plan has fetched.
fn fetch_tools(job: &BuildJob<'_>, plan: &Plan) -> Result<InstalledTools, BuildError> {
    let mut tools = job.tools.clone();
    for fetch in &plan.fetch {
        let slot = match fetch.tool.as_str() {
            "cmake" => &mut tools.cmake,
            "ninja" => &mut tools.ninja,
            _ => continue,
        };
        // Also where there is one: then it is too old.
        *slot = Some(crate::python::fetch(job.host, fetch, &job.tools, job.network, job.sink)?);
    }
    Ok(tools)
}

type TreeResult = Vec<(BuiltTree, TreeState)>;

/// Builds the trees. One that fails for a backend that nobody named makes a smaller plan, until one succeeds.
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
            let may_go: Vec<Backend> = tree
                .backends
                .iter()
                .copied()
                .filter(|backend| *backend != Backend::Cpu && !tree.named.contains(backend))
                .collect();
            let replaceable = matches!(
                error,
                BuildError::Configure { .. } | BuildError::Compile { .. } | BuildError::Incomplete { .. }
            );
            let guilty = error::culprits(&may_go, &error);
            if !replaceable || guilty.is_empty() || job.replan.is_none() || error.id() == "disk.full" {
                return Err(error);
            }
            for backend in guilty {
                let because = |cause: &Finding| format!(", because {} [{}]", cause.summary, cause.id);
                let because = error.causes().first().map(because).unwrap_or_default();
                let why = format!("{error} [{}]{because}", error.id());
                (job.sink)(&BuildEvent::Dropped { backend, why: why.clone() });
                without.push((backend, why));
            }
        }
        let Some(replan) = job.replan.filter(|_| without.len() > known) else {
            return Err(BuildError::Replan("no backend is left to build".to_owned()));
        };
        plan = replan(&without).map_err(BuildError::Replan)?;
        plan.dropped.retain(|dropped| without.iter().all(|(backend, _)| *backend != dropped.id));
        plan.dropped.extend(without.iter().map(|(id, why)| Dropped { id: *id, reasons: vec![why.clone()] }));
        plan.dropped.sort_by_key(|dropped| dropped.id);
        if let Some((backend, _)) = without.iter().find(|(backend, _)| plan.backends.contains(backend)) {
            return Err(BuildError::Replan(format!("the plan without `{backend}` has it again")));
        }
    }
}

/// Runs the trees at the same time. Together they never use more jobs than the plan allows.
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
        let share = JobShare { shares: &shares, fixed: shares.fixed(worker, workers) };
        while let Some(index) = take(&queue).filter(|_| !interrupted.load(Ordering::Relaxed)) {
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
            scope.spawn(move || work(worker));
        }
        // This thread works too: mostly there is one tree, and often nothing to do in it.
        if workers > 0 {
            work(0);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    if results.len() < trees.len() {
        return trees.iter().map(|_| Err(BuildError::Interrupted)).collect();
    }
    results.into_iter().map(|(_, result)| result).collect()
}

fn take(queue: &Mutex<VecDeque<usize>>) -> Option<usize> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front()
}
