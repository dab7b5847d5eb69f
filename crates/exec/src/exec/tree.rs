//! Builds one tree: checks its stamp, configures, compiles and collects the artifacts.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{Command, Host, HostPath};
use gpubuild_plan::artifacts::{Artifact, BuiltTree, Manifest};
use gpubuild_plan::plan::extra::PlannedExtra;
use gpubuild_plan::plan::{PlannedTree, options};
use serde::{Deserialize, Serialize};

use super::editor::EditorInfo;
use super::error::{BuildError, OUT_OF_MEMORY_ALONE};
use super::launcher::statistics::LauncherStatistics;
use super::launcher::{self, farm};
use super::log::BuildLog;
use super::memory::{self, MemorySign};
use super::reuse::{Reuse, ReuseResult};
use super::shares::JobShare;
use super::stamp::{self, BuildStamp};
use super::{BuildJob, InstalledTools, changed, collect, full_disk, special};
use crate::cmake::file_api::{self, FileApiError, FileApiReply};
use crate::cmake::{self, ConfigureStart, Parallelism, unused};
use crate::diagnose::first_error;
use crate::event::FirstError;
use crate::event::{BuildEvent, TreeState};
use crate::python::Network;
use crate::store::contents;
use crate::store::files::{self, FileSnapshot};
use crate::store::implicit_inputs::SearchedFolders;

/// Start of the line that Ninja prints if it uses a jobserver.
const JOBSERVER: &str = "ninja: Jobserver mode detected";

/// The inputs of a tree's last configuration. If they are unchanged, CMake need not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Configured {
    key: String,
    /// Hash of the names of all files below the source folder. A new file may match a glob in the project.
    files: String,
    /// Hashes of the environment variables that CMake scripts of the project name.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Hash of what CMake examines: programs, packages, the environment, git.
    #[serde(default)]
    searched: String,
    /// The start of the system in which CMake ran, on Linux.
    #[serde(default)]
    boot: String,
}

/// Sets the Ninja that builds a tree, unless the plan or the user selects one.
pub(super) fn set_make_program(tree: &mut PlannedTree, ninja: Option<&HostPath>) {
    if let Some(ninja) = ninja.filter(|_| tree.generator.starts_with("Ninja")) {
        tree.cache.entry("CMAKE_MAKE_PROGRAM".to_owned()).or_insert_with(|| ninja.forward_slashes());
    }
}

/// Configures and builds a tree unless it is up to date.
pub(super) fn run(
    job: &BuildJob<'_>,
    tools: &InstalledTools,
    tree: &PlannedTree,
    extra: &[PlannedExtra],
    share: JobShare<'_>,
) -> Result<(BuiltTree, TreeState), BuildError> {
    let started = job.host.elapsed();
    let missing = |tool: &str| BuildError::NoTool { tool: tool.to_owned() };
    let cmake = tools.cmake.as_ref().ok_or_else(|| missing("CMake"))?;
    let ninja = tools.ninja.as_ref().filter(|_| tree.generator.starts_with("Ninja"));
    let mut tree = tree.clone();
    if tree.generator.starts_with("Ninja") && ninja.is_none() {
        return Err(missing("Ninja"));
    }
    set_make_program(&mut tree, ninja);
    launcher::remove_unusable(job.host, job.sink, &mut tree);
    let run = TreeRun { job, cmake, ninja, tree: &tree, extra, share };
    let result = run.unless_unchanged();
    let seconds = job.host.elapsed().saturating_sub(started).as_secs_f64();
    match &result {
        Ok((_, state)) => (job.sink)(&BuildEvent::Finished { tree: tree.id.clone(), state: *state, seconds }),
        Err(
            BuildError::Configure { error, causes, log, .. } | BuildError::Compile { error, causes, log, .. },
        ) => {
            let (error, causes, log) = ((**error).clone(), causes.clone(), log.clone());
            (job.sink)(&BuildEvent::Failed { tree: tree.id.clone(), error, causes, log });
        }
        Err(_) => {}
    }
    result
}

/// The files that cache entries name: programs and libraries that CMake has found.
fn found_files<'a>(
    host: &dyn Host,
    tree: &PlannedTree,
    reply: &'a FileApiReply,
) -> impl Iterator<Item = &'a str> {
    let is_outside = |value: &&str| {
        let path = host.path(value);
        path.is_absolute() && !path.is_inside(&tree.build)
    };
    reply.cache.values().map(String::as_str).filter(is_outside)
}

struct TreeRun<'a> {
    job: &'a BuildJob<'a>,
    cmake: &'a HostPath,
    ninja: Option<&'a HostPath>,
    tree: &'a PlannedTree,
    /// Planned backends of the project that gpubuild does not know itself.
    extra: &'a [PlannedExtra],
    share: JobShare<'a>,
}

impl TreeRun<'_> {
    fn unless_unchanged(&self) -> Result<(BuiltTree, TreeState), BuildError> {
        let host = self.job.host;
        let key = stamp::key(self.tree, host.env());
        let (sources, special) =
            files::walk_sources(host, &self.tree.source, &self.tree.build).map_err(BuildError::walk)?;
        if let Some(path) = special.first() {
            return Err(BuildError::NotRegular { path: path.to_string() });
        }
        let stamp = BuildStamp::read(host, self.tree);
        if let Some(stamp) = &stamp
            && stamp.is_up_to_date(host, &key, &sources)
        {
            if let Some(newer) = stamp.with_new_times(host) {
                self.write_stamp(&newer)?;
            }
            return Ok((stamp.built.clone(), TreeState::Unchanged));
        }
        if stamp.is_none() {
            self.remove_if_not_flushed()?;
        }
        self.remove_damaged(stamp.as_ref())?;
        let tools = [("cmake", Some(self.cmake)), ("ninja", self.ninja)];
        let mut reuse = Reuse::begin(self.job, self.tree, sources.clone(), &tools);
        if let Some(stamp) = stamp.as_ref().filter(|stamp| reuse.is_same(stamp, &key)) {
            let stamp = stamp.clone().with_times(sources, SearchedFolders::of(host, self.tree));
            self.write_stamp(&stamp)?;
            return Ok((stamp.built, TreeState::Unchanged));
        }
        let mut asked = reuse.asked();
        let lock = match reuse.restore()? {
            ReuseResult::Hit(built, read) => {
                let external = read.iter().map(String::as_str).filter(|path| !sources.contains_key(*path));
                let outside = files::snapshot(host, external);
                let outputs = self.outputs(&built);
                let stamp = BuildStamp::new(key, reuse.key(), sources, outside, outputs, read, *built)
                    .with_asked(asked);
                self.write_stamp(&stamp)?;
                return Ok((stamp.built, TreeState::Taken));
            }
            ReuseResult::Miss(lock) => lock,
        };
        special::refuse(host, &self.tree.build, &cmake::own_folder(self.tree))?;
        let started = host.elapsed();
        let log_path = cmake::own_folder(self.tree).join("build.log");
        let mut log = BuildLog::new(self.job, &self.tree.id, log_path);
        self.remove(&BuildStamp::path(self.tree))?;
        let last_reply = self.reply();
        let configured = last_reply.as_ref().ok();
        if let Some(reply) = configured {
            asked.variables.extend(reuse.outside_variables(reply));
        }
        reuse.remove_stale(configured, self.ninja)?;
        let always = reuse.affects_configuration(stamp.as_ref(), configured, self.ninja);
        let wanted = Configured {
            searched: reuse.searched(&asked),
            ..self.wanted_configuration(&key, &sources, asked.variables.clone())
        };
        self.configure(&wanted, &sources, last_reply, always, &mut log)?;
        let mut reply = self.reply()?;
        let uses_objects = reuse.restore_objects(self.ninja, &reply)?
            && self.configure_with_objects(&mut reuse, &reply, &mut log)?;
        self.build(&mut log)?;
        // With restored objects the last reply lacks the flags of sources that are not compiled, so the earlier one is used.
        // Otherwise read the reply again, because Ninja may have run CMake.
        if !uses_objects {
            reply = self.reply()?;
        }
        let editor = EditorInfo::of(host, self.tree, &reply);
        editor
            .write(host, self.tree)
            .map_err(|error| BuildError::io("write into", &self.tree.build, &error))?;
        let built = collect::built_tree(host, self.tree, &key, &reply)?;
        collect::refuse_incomplete(self.tree, &reply, &built)?;
        let seconds = host.elapsed().saturating_sub(started).as_secs_f64();
        let changed = reuse.report_changed_sources()?;
        // Without Ninja the headers that compilers read are unknown, so no stamp is written.
        let Some(mut depfiles) = self.dependencies(&reply) else { return Ok((built, TreeState::Built)) };
        depfiles.extend(reuse.also_read());
        let mut tools = vec![self.cmake];
        tools.extend(self.ninja);
        let mut read = stamp::read_paths(self.tree, &reply, &built, &depfiles, &tools);
        // Removes names of targets, which Ninja also lists.
        read.retain(|path| sources.contains_key(path) || host.is_file(&host.path(path)));
        let external = read.iter().map(String::as_str).chain(found_files(host, self.tree, &reply));
        let mut outside = files::snapshot(host, external.filter(|path| !sources.contains_key(*path)));
        reuse.record_outside(&mut outside)?;
        reuse.forget_changes()?;
        reuse.complete(&mut asked, &reply, &read);
        let content = reuse.key().filter(|_| changed.is_empty());
        let stamp = BuildStamp::new(key, content, sources, outside, self.outputs(&built), read, built)
            .with_asked(asked);
        self.write_stamp(&stamp)?;
        reuse.publish(lock, self.ninja, &reply, &stamp, seconds);
        Ok((stamp.built, TreeState::Built))
    }

    /// Removes what an interrupted build left if the system has been restarted since CMake ran: after a power failure,
    /// files that CMake and compilers wrote may be empty, and Ninja would treat them as up to date.
    fn remove_if_not_flushed(&self) -> Result<(), BuildError> {
        let last: Option<Configured> = crate::store::read_json(self.job.host, &self.configured_path());
        if last.is_none_or(|last| last.boot == self.boot()) {
            return Ok(());
        }
        let own = cmake::own_folder(self.tree);
        let names = self.job.host.list(&self.tree.build).unwrap_or_default();
        let paths = names.iter().map(|name| self.tree.build.join(name));
        paths.filter(|path| *path != own).try_for_each(|path| self.remove(&path))
    }

    fn configured_path(&self) -> HostPath {
        cmake::own_folder(self.tree).join("configured.json")
    }

    /// Identifies the start of the system. Empty on other systems than Linux.
    fn boot(&self) -> String {
        let host = self.job.host;
        let id = host.read_text(&host.path("/proc/sys/kernel/random/boot_id"));
        id.map(|id| id.trim().to_owned()).unwrap_or_default()
    }

    fn outputs(&self, built: &BuiltTree) -> FileSnapshot {
        files::snapshot(self.job.host, built.files.iter().map(|file| file.path.as_str()))
    }

    /// Removes artifacts that changed since they were built, and those of a build that was interrupted before it wrote a
    /// stamp. Ninja compares time stamps only, and would treat a truncated library as up to date.
    fn remove_damaged(&self, stamp: Option<&BuildStamp>) -> Result<(), BuildError> {
        let host = self.job.host;
        let manifest = if stamp.is_none() {
            Manifest::read(host, &gpubuild_plan::artifacts::manifest_path(&self.job.root)).ok()
        } else {
            None
        };
        let from_manifest = || manifest.iter().flat_map(|manifest| &manifest.trees);
        let recorded = stamp
            .map(|stamp| &stamp.built)
            .into_iter()
            .chain(from_manifest().filter(|tree| tree.id == self.tree.id));
        let mut recorded: BTreeMap<&str, Option<&Artifact>> =
            recorded.flat_map(|tree| &tree.files).map(|file| (file.path.as_str(), Some(file))).collect_map();
        let reply = self.reply().ok();
        let declared = reply.iter().flat_map(|reply| &reply.targets).flat_map(|target| &target.artifacts);
        for path in declared {
            recorded.entry(path).or_default();
        }
        for (path, file) in recorded {
            let artifact = host.path(path);
            let seen = stamp.map(|stamp| &stamp.outputs);
            let is_intact = file.is_some_and(|file| changed::is_intact(host, file, seen));
            if !is_intact && artifact.is_inside(&self.tree.build) {
                self.remove(&artifact)?;
            }
        }
        Ok(())
    }

    /// Writes the stamp after flushing the artifacts to disk, so that a power failure cannot leave a stamp for an incomplete
    /// library.
    fn write_stamp(&self, stamp: &BuildStamp) -> Result<(), BuildError> {
        let path = BuildStamp::path(self.tree);
        for file in &stamp.built.files {
            self.job
                .host
                .flush(&self.job.host.path(&file.path))
                .map_err(|error| BuildError::io("flush", &file.path, &error))?;
        }
        crate::store::write_json(self.job.host, &path, stamp)
            .map_err(|error| BuildError::io("write", &path, &error))
    }

    fn remove(&self, path: &HostPath) -> Result<(), BuildError> {
        self.job.host.remove(path).map_err(|error| BuildError::io("remove", path, &error))
    }

    fn reply(&self) -> Result<FileApiReply, BuildError> {
        let configuration = cmake::configuration(self.tree);
        Ok(file_api::read(self.job.host, &self.tree.build, configuration)?)
    }

    fn wanted_configuration(
        &self,
        key: &str,
        sources: &FileSnapshot,
        variables: BTreeMap<String, String>,
    ) -> Configured {
        let names: Vec<&str> = sources.keys().map(String::as_str).collect();
        let files = crate::store::sha256(names.join("\n").as_bytes());
        Configured { key: key.to_owned(), files, variables, searched: String::new(), boot: self.boot() }
    }

    /// Runs CMake, unless `always` is false and the last configuration is complete and has the same inputs. Changes in the
    /// project's scripts are detected by CMake's rules in the build files.
    fn configure(
        &self,
        wanted: &Configured,
        sources: &FileSnapshot,
        reply: Result<FileApiReply, BuildError>,
        always: bool,
        log: &mut BuildLog<'_>,
    ) -> Result<(), BuildError> {
        let (host, tree) = (self.job.host, self.tree);
        let path = self.configured_path();
        let last: Option<Configured> = crate::store::read_json(host, &path);
        let same_options =
            last.as_ref().is_some_and(|last| last.key == wanted.key && last.variables == wanted.variables);
        let has_same_inputs =
            last.is_some_and(|last| last.files == wanted.files && last.searched == wanted.searched);
        if !always && same_options && has_same_inputs && reply.is_ok() {
            return Ok(());
        }
        if matches!(&reply, Err(BuildError::FileApi(FileApiError::Broken { .. }))) {
            // CMake keeps a reply whose name, a hash of its content, exists.
            self.remove(&tree.build.join(".cmake/api/v1/reply"))?;
        }
        self.refuse_download()?;
        let started = host.elapsed();
        (self.job.sink)(&BuildEvent::Configuring {
            tree: tree.id.clone(),
            backends: tree.backends.clone(),
            build: tree.build.to_string(),
        });
        self.remove(&path)?;
        cmake::write_inputs(host, tree).map_err(|error| BuildError::io("write into", &tree.build, &error))?;
        let untouched = !host.exists(&tree.build.join("CMakeCache.txt"));
        // Without a reply it is unknown what an interrupted configuration has found.
        let kept = if untouched { Some(Vec::new()) } else { reply.ok().map(|reply| reply.kept) };
        let start = match &kept {
            Some(kept) if same_options || untouched => ConfigureStart::Keep(kept),
            _ => ConfigureStart::Fresh,
        };
        let output = log.run(&cmake::configure_command(self.cmake, tree, start))?;
        if !output.success() {
            full_disk::refuse(self.job.host, self.tree, log)?;
            let error = Box::new(failure(log, output.exit));
            let causes = self.job.causes(log);
            let (tree, log) = (tree.id.clone(), log.path().to_string());
            return Err(BuildError::Configure { tree, error, causes, log });
        }
        self.refuse_unused()?;
        let outside = contents::outside_variables(host, self.reply()?.asking_scripts(), sources);
        let configured = Configured {
            variables: wanted.variables.clone().into_iter().chain(outside).collect(),
            ..wanted.clone()
        };
        crate::store::write_json(host, &path, &configured)
            .map_err(|error| BuildError::io("write", &path, &error))?;
        let seconds = host.elapsed().saturating_sub(started).as_secs_f64();
        (self.job.sink)(&BuildEvent::Configured { tree: tree.id.clone(), seconds });
        Ok(())
    }

    /// Rejects an offline build that needs a download. Downloads of earlier builds are in the build folder.
    fn refuse_download(&self) -> Result<(), BuildError> {
        let (host, tree) = (self.job.host, self.tree);
        if self.job.network != Network::Offline || host.exists(&tree.build.join("CMakeCache.txt")) {
            return Ok(());
        }
        let mut extra = self.extra.iter().filter(|extra| tree.extra.contains(&extra.id));
        let downloads = extra.find_map(|extra| Some((extra.id.clone(), extra.network.clone()?)));
        downloads.map_or(Ok(()), |(extra, what)| Err(BuildError::Offline { extra, what }))
    }

    /// Configures again with objects from the build store instead of sources. If that fails or changes the link line, all
    /// sources are compiled.
    fn configure_with_objects(
        &self,
        reuse: &mut Reuse<'_>,
        before: &FileApiReply,
        log: &mut BuildLog<'_>,
    ) -> Result<bool, BuildError> {
        let command = cmake::configure_command(self.cmake, self.tree, ConfigureStart::Keep(&[]));
        let done = log.run(&command)?.success();
        let after = if done { self.reply().ok() } else { None };
        if reuse.keeps_objects(before, after.as_ref())? {
            return Ok(true);
        }
        // Without the script this restores the configuration that worked.
        log.run(&command)?;
        Ok(false)
    }

    fn refuse_unused(&self) -> Result<(), BuildError> {
        let host = self.job.host;
        let list = host.read_text(&cmake::own_folder(self.tree).join("unused.txt")).unwrap_or_default();
        if list.trim().is_empty() {
            return Ok(());
        }
        let own = cmake::own_folder(self.tree);
        let reply = self.reply()?;
        let paths = reply.scripts.iter().map(|path| host.path(path));
        let scripts: Vec<String> = paths
            .filter(|path| !path.is_inside(&own))
            .filter_map(|path| host.read_text(&path).ok())
            .collect();
        let mut names = unused::unknown(&list, &scripts);
        names.retain(|name| !self.tree.may_be_unknown.contains(name));
        if names.is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = reply
            .cache
            .keys()
            .map(String::as_str)
            .filter(|name| !self.tree.cache.contains_key(*name))
            .collect();
        let near = |name: &String| {
            let near = options::nearest(name, known.iter().copied())?;
            Some((name.clone(), near.to_owned()))
        };
        let near = names.iter().filter_map(near).collect();
        Err(BuildError::UnusedEntries { folder: self.tree.source.to_string(), names, near })
    }

    /// Runs the build tool. If a compiler runs out of memory, tries again with fewer parallel compilers; finished objects
    /// are kept.
    fn build(&self, log: &mut BuildLog<'_>) -> Result<(), BuildError> {
        let (host, tree, sink) = (self.job.host, self.tree, self.job.sink);
        let targets = collect::targets_to_build(tree, &self.reply()?);
        if let Some(slots) = farm::prepare(host, sink, tree).filter(|_| !tree.jobs.is_fixed) {
            self.share.shares.raise(slots);
        }
        let statistics = LauncherStatistics::begin(host, tree);
        // Only the first attempt uses the jobserver. Later attempts limit the jobs of this tree.
        let mut pool = self.share.shares.make_flags();
        let fixed = self.share.fixed();
        let (mut jobs, mut attempts) = (if pool.is_some() { self.share.shares.total() } else { fixed }, 0);
        loop {
            let killed_before = memory::killed_by_kernel(host);
            let (name, build) = (tree.id.clone(), tree.build.to_string());
            sink(&BuildEvent::Compiling { tree: name, build, jobs });
            let parallelism = pool.as_deref().map_or(Parallelism::Jobs(jobs), Parallelism::Pool);
            let command = cmake::build_command(self.cmake, tree, &targets, parallelism);
            let output = log.run_with(&command, &mut |line| !line.starts_with(JOBSERVER))?;
            sink(&BuildEvent::Compiled { tree: tree.id.clone(), success: output.success() });
            if output.success() {
                statistics.report(sink);
                return Ok(());
            }
            full_disk::refuse(self.job.host, self.tree, log)?;
            let sign = memory::sign(log.last()).map(|sign| match sign {
                MemorySign::Silent if memory::killed_by_kernel(host) > killed_before => {
                    MemorySign::Reported("the kernel killed a process because memory was low".to_owned())
                }
                sign => sign,
            });
            let before = memory::jobs_of_failed_step(log.last(), jobs, tree.jobs.device.max(1));
            let next = sign
                .as_ref()
                .and_then(|_| memory::reduced_jobs(before, attempts))
                .map(|next| next.min(fixed));
            let Some(next) = next else { return Err(self.compile_error(log, output.exit, sign)) };
            let why = match sign {
                Some(MemorySign::Reported(line)) => line,
                _ => "a step failed without output".to_owned(),
            };
            sink(&BuildEvent::Narrowed { tree: tree.id.clone(), before, jobs: next, why });
            (pool, jobs, attempts) = (None, next, attempts + 1);
        }
    }

    fn compile_error(&self, log: &BuildLog<'_>, exit: Option<i32>, sign: Option<MemorySign>) -> BuildError {
        let mut error = Box::new(failure(log, exit));
        if let Some(MemorySign::Reported(line)) = sign {
            error.message = format!("{OUT_OF_MEMORY_ALONE}: {line}");
        }
        let causes = self.job.causes(log);
        let (tree, at) = (self.tree.id.clone(), log.path().to_string());
        // Ninja runs CMake again when a script of the project changed.
        if log.last().iter().any(|line| line.starts_with("-- Configuring incomplete")) {
            return BuildError::Configure { tree, error, causes, log: at };
        }
        BuildError::Compile { tree, error, causes, log: at }
    }

    /// The files that compilers read, from Ninja's dependency log, and the declared inputs of other steps. Includes nested
    /// build folders. `None` without Ninja.
    fn dependencies(&self, reply: &FileApiReply) -> Option<Vec<String>> {
        let host = self.job.host;
        let run_tool = |build: &HostPath, words: &[String]| {
            let command = Command::new(self.ninja?.as_str(), Duration::from_secs(120))
                .args(["-C", build.as_str(), "-t"])
                .args(words.iter().map(String::as_str));
            host.run(&command).ok().filter(gpubuild_host::CommandOutput::success).map(|output| output.stdout)
        };
        let build = &self.tree.build;
        let mut paths = stamp::parse_deps(&run_tool(build, &["deps".to_owned()])?, build);
        // Ninja before 1.11 does not have this tool.
        let mut words = vec!["inputs".to_owned()];
        words.extend(collect::targets_to_build(self.tree, reply));
        paths.extend(stamp::parse_inputs(&run_tool(build, &words).unwrap_or_default(), build));
        for nested in files::folders_with(host, build, ".ninja_deps").iter().filter(|folder| *folder != build)
        {
            let deps = run_tool(nested, &["deps".to_owned()]).unwrap_or_default();
            paths.extend(stamp::parse_deps(&deps, nested));
        }
        Some(paths)
    }
}

fn failure(log: &BuildLog<'_>, exit: Option<i32>) -> FirstError {
    first_error(log.last()).unwrap_or_else(|| {
        let how =
            exit.map_or_else(|| "killed by a signal".to_owned(), |code| format!("exited with status {code}"));
        FirstError { message: format!("{how} without output"), ..FirstError::default() }
    })
}
