//! Tests each compiler launcher with its compiler before configuring, and reads its cache statistics after the build.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_host::{Command, Host, HostPath, RunPrograms, find_program};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::plan::launchers::{LANGUAGES, LOG, entry};
use serde::{Deserialize, Serialize};

use crate::cmake;
use crate::event::{BuildEvent, Sink};
use crate::store::sha256;

/// Time limit for compiling the test file. The first call of a launcher may start a server or package the compiler.
const TRIAL_DEADLINE: Duration = Duration::from_secs(120);
/// Time limit for reading the statistics of a launcher's server.
const STATS_DEADLINE: Duration = Duration::from_secs(20);

/// The result of testing a launcher with a compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LauncherTrial {
    /// Hash of the launcher, the compiler and the plan's variables.
    key: String,
    /// Why the launcher cannot be used; `None` if it can.
    fault: Option<String>,
}

/// Tests every launcher of a tree with its compiler, and removes unusable ones from the plan. Results are kept in
/// `launchers.json` and reused while the pair is unchanged.
pub(super) fn remove_unusable(host: &dyn Host, sink: Sink<'_>, tree: &mut PlannedTree) {
    let path = cmake::own_folder(tree).join("launchers.json");
    let known: BTreeMap<String, LauncherTrial> = crate::store::read_json(host, &path).unwrap_or_default();
    let mut trials = BTreeMap::new();
    for language in LANGUAGES {
        let name = entry(language);
        let Some(value) = tree.cache.get(&name).filter(|value| !value.is_empty()).cloned() else { continue };
        let pair = LauncherPair { host, tree, language, launcher: value.split(';').collect() };
        let key = pair.key();
        let trial = match known.get(language).filter(|trial| trial.key == key) {
            Some(trial) => trial.clone(),
            None => LauncherTrial { key, fault: pair.fault() },
        };
        if let Some(why) = &trial.fault {
            let (tree_id, language) = (tree.id.clone(), language.to_owned());
            let event =
                BuildEvent::LauncherDropped { tree: tree_id, language, launcher: value, why: why.clone() };
            tree.cache.insert(name, String::new());
            sink(&event);
        }
        trials.insert(language.to_owned(), trial);
    }
    if trials != known
        && !(trials.is_empty() && known.is_empty())
        && let Err(error) = crate::store::write_json(host, &path, &trials)
    {
        // The next build tests the launchers again.
        log::debug!("failed to save the results of the launcher tests in `{path}`: {error}");
    }
}

/// A launcher and the compiler that it runs.
struct LauncherPair<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    language: &'static str,
    launcher: Vec<&'a str>,
}

impl LauncherPair<'_> {
    /// Hash of the paths, sizes and times of the programs, and of the plan's variables.
    fn key(&self) -> String {
        let mut parts: Vec<String> = self.launcher.iter().map(|part| self.identity(part)).collect();
        parts.extend(self.compiler().map(|compiler| self.identity(compiler.as_str())));
        parts.extend(self.tree.cache.get("CMAKE_CUDA_HOST_COMPILER").cloned());
        parts.extend(self.tree.env.iter().map(|(name, value)| format!("{name}={value}")));
        sha256(parts.join("\n").as_bytes())
    }

    fn identity(&self, program: &str) -> String {
        let stat = self.host.stat(&self.host.path(program)).ok();
        format!("{program} {:?}", stat.map(|stat| (stat.size, stat.modified)))
    }

    /// The compiler that CMake will select, as far as it is known before CMake runs.
    fn compiler(&self) -> Option<HostPath> {
        let (variable, names): (&str, &[&str]) = match self.language {
            "C" => ("CC", &["cc", "gcc", "clang", "cl"]),
            "CXX" => ("CXX", &["c++", "g++", "clang++", "cl"]),
            "CUDA" => ("CUDACXX", &["nvcc"]),
            _ => ("HIPCXX", &[]),
        };
        if let Some(path) = self.tree.cache.get(&format!("CMAKE_{}_COMPILER", self.language)) {
            return Some(self.host.path(path));
        }
        let requested = self.host.env().get(variable).and_then(|value| value.split_whitespace().next());
        let found = |name: &str| match self.host.path(name) {
            path if path.is_absolute() => Some(path),
            _ => find_program(self.host, name).into_iter().next(),
        };
        requested.and_then(found).or_else(|| names.iter().find_map(|name| found(name)))
    }

    /// Why this launcher cannot run this compiler; `None` if it can.
    fn fault(&self) -> Option<String> {
        let Some(compiler) = self.compiler() else {
            return Some(
                "its compiler is not known before configuring, so it could not be tested".to_owned(),
            );
        };
        let real = self.host.canonical(&compiler).unwrap_or_else(|_| compiler.clone());
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| stem(real.as_str()) == **wrapper) {
            return Some(format!("the compiler `{compiler}` is already `{wrapper}`, which cannot be nested"));
        }
        let folder = match self.host.temporary_dir(&cmake::own_folder(self.tree)) {
            Ok(folder) => folder,
            Err(error) => return Some(format!("it could not be tested: {error}")),
        };
        let fault = self.fault_in(&folder, &compiler);
        // A leftover temporary folder does no harm.
        let _ = self.host.remove(&folder);
        fault
    }

    fn fault_in(&self, folder: &HostPath, compiler: &HostPath) -> Option<String> {
        let (source, arguments) = self.compilation(compiler);
        let text = "int gpubuild_trial(void);\nint gpubuild_trial(void) { return 1; }\n";
        if let Err(error) = self.host.write(&folder.join(source), text.as_bytes()) {
            return Some(format!("it could not be tested: {error}"));
        }
        let run = |launcher: &[&str]| {
            let mut argv = launcher.iter().copied().chain([compiler.as_str()]);
            let mut command = Command::new(argv.next().unwrap_or_default(), TRIAL_DEADLINE)
                .args(argv)
                .args(arguments.iter().map(String::as_str))
                .current_dir(folder.clone());
            for (name, value) in &self.tree.env {
                command = command.env(name, value);
            }
            self.host.run(&command.env(STATSLOG, folder.join("log").as_str()))
        };
        let message = match run(&self.launcher) {
            Ok(output) if output.success() => return self.uncached(folder),
            Ok(output) => {
                let lines: Vec<&str> = output.stderr.lines().chain(output.stdout.lines()).collect();
                let first = crate::diagnose::first_error(&lines).map(|error| error.message);
                first.unwrap_or_else(|| "it failed without output".to_owned())
            }
            Err(error) => error.to_string(),
        };
        // If the compiler also fails without the launcher, CMake reports the error.
        let alone = run(&[]).is_ok_and(|output| output.success());
        alone.then(|| format!("`{compiler}` works alone but fails with it: {message}"))
    }

    /// Why the launcher does not cache this compiler's output. Such a launcher only costs time.
    fn uncached(&self, folder: &HostPath) -> Option<String> {
        let log = self.host.read_text(&folder.join("log")).ok()?;
        let calls = parse_log(&log);
        let why = calls.iter().find_map(|call| match call.outcome {
            LauncherOutcome::Hit | LauncherOutcome::Miss => None,
            LauncherOutcome::Other => Some(call.results.join(", ")),
        })?;
        Some(format!("it does not cache the output of this compiler ({why})"))
    }

    /// The name of the test source, and arguments that compile it in the same way as CMake.
    fn compilation(&self, compiler: &HostPath) -> (&'static str, Vec<String>) {
        let source = match self.language {
            "C" => "trial.c",
            "CXX" => "trial.cpp",
            "CUDA" => "trial.cu",
            _ => "trial.hip",
        };
        let words: &[&str] = match (self.language, stem(compiler.as_str()).as_str()) {
            ("C" | "CXX", "cl" | "clang-cl") => &["/nologo", "/c", "/Fotrial.obj", source],
            ("CUDA", _) => {
                &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-x", "cu", "-c", source, "-o", "trial.o"]
            }
            ("HIP", _) => {
                &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-o", "trial.o", "-x", "hip", "-c", source]
            }
            _ => &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-o", "trial.o", "-c", source],
        };
        let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if let Some(cxx) = self.tree.cache.get("CMAKE_CUDA_HOST_COMPILER").filter(|_| self.language == "CUDA")
        {
            arguments.insert(0, format!("-ccbin={cxx}"));
        }
        (source, arguments)
    }
}

/// Launchers that are often installed as links with the names of compilers.
const WRAPPERS: [&str; 4] = ["ccache", "sccache", "distcc", "icecc"];
/// The variable that sets ccache's statistics log, which [`parse_log`] reads.
const STATSLOG: &str = "CCACHE_STATSLOG";

/// The lowercase name of a program without folder and `.exe`.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
    name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
}

/// The outcome of one compiler call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LauncherOutcome {
    /// The result was in the cache.
    Hit,
    /// The compiler ran, and its result was cached.
    Miss,
    /// The call cannot be cached.
    Other,
}

/// One call in a launcher's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherCall {
    /// The source file as it was passed.
    pub source: String,
    /// The outcome of the call.
    pub outcome: LauncherOutcome,
    /// All results that the launcher logged for the call.
    pub results: Vec<String>,
}

/// Parses ccache's statistics log: `# source`, then one result per line.
#[must_use]
pub fn parse_log(text: &str) -> Vec<LauncherCall> {
    let mut calls: Vec<LauncherCall> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(source) = line.strip_prefix('#') {
            let (source, results) = (source.trim().to_owned(), Vec::new());
            calls.push(LauncherCall { source, outcome: LauncherOutcome::Other, results });
        } else if let Some(call) = calls.last_mut() {
            match line {
                "direct_cache_hit" | "preprocessed_cache_hit" => call.outcome = LauncherOutcome::Hit,
                "cache_miss" => call.outcome = LauncherOutcome::Miss,
                _ => {}
            }
            call.results.push(line.to_owned());
        }
    }
    calls
}

/// Numbers of compiler calls by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LauncherCounts {
    hits: u64,
    misses: u64,
    other: u64,
}

/// Collects the cache statistics of one build of a tree.
pub(super) struct LauncherStatistics<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    /// Path of the launcher whose server keeps statistics, and its counts before the build.
    server: Option<(String, LauncherCounts)>,
    log: Option<HostPath>,
}

impl<'a> LauncherStatistics<'a> {
    /// Starts collecting. Removes the log of an earlier build.
    pub(super) fn begin(host: &'a dyn Host, tree: &'a PlannedTree) -> Self {
        let names = LANGUAGES.map(entry);
        let mut programs =
            names.iter().filter_map(|name| tree.cache.get(name)).filter(|value| !value.is_empty());
        let log = tree.env.contains_key(STATSLOG).then(|| tree.build.join(LOG));
        if let Some(log) = &log {
            // If the old log cannot be removed, only the counts are wrong.
            let _ = host.remove(log);
        }
        let server = programs.find(|value| stem(value) == "sccache").cloned();
        let server = server.map(|program| {
            let before = server_counts(host, tree, &program).map(|(counts, _)| counts);
            (program, before.unwrap_or_default())
        });
        Self { host, tree, server, log }
    }

    /// Sends the statistics.
    pub(super) fn report(&self, sink: Sink<'_>) {
        if let Some(log) = &self.log
            && let Ok(text) = self.host.read_text(log)
        {
            let mut counts = LauncherCounts::default();
            for call in parse_log(&text) {
                match call.outcome {
                    LauncherOutcome::Hit => counts.hits += 1,
                    LauncherOutcome::Miss => counts.misses += 1,
                    LauncherOutcome::Other => counts.other += 1,
                }
            }
            self.send(sink, "ccache", counts, Some(log), None);
        }
        if let Some((program, before)) = &self.server
            && let Some((after, location)) = server_counts(self.host, self.tree, program)
        {
            let counts = LauncherCounts {
                hits: after.hits.saturating_sub(before.hits),
                misses: after.misses.saturating_sub(before.misses),
                other: after.other.saturating_sub(before.other),
            };
            let is_other_storage = self.tree.env.contains_key("SCCACHE_REDIS")
                && !location.to_ascii_lowercase().contains("redis");
            let note = is_other_storage.then(|| {
                format!("its server uses another storage ({location}): stop it with `sccache --stop-server`")
            });
            self.send(sink, "sccache", counts, None, note);
        }
    }

    fn send(
        &self,
        sink: Sink<'_>,
        launcher: &str,
        counts: LauncherCounts,
        log: Option<&HostPath>,
        note: Option<String>,
    ) {
        sink(&BuildEvent::Cached {
            tree: self.tree.id.clone(),
            launcher: launcher.to_owned(),
            hits: counts.hits,
            misses: counts.misses,
            other: counts.other,
            log: log.map(ToString::to_string),
            note,
        });
    }
}

/// The counts of sccache's server and the location of its cache.
fn server_counts(
    host: &dyn RunPrograms,
    tree: &PlannedTree,
    program: &str,
) -> Option<(LauncherCounts, String)> {
    let mut command = Command::new(program, STATS_DEADLINE).args(["--show-stats", "--stats-format=json"]);
    for (name, value) in &tree.env {
        command = command.env(name, value);
    }
    let output = host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
    parse_stats(&output.stdout)
}

fn parse_stats(text: &str) -> Option<(LauncherCounts, String)> {
    #[derive(Deserialize)]
    struct SccacheStatistics {
        stats: Stats,
        #[serde(default)]
        cache_location: String,
    }
    #[derive(Deserialize)]
    struct Stats {
        cache_hits: ByLanguage,
        cache_misses: ByLanguage,
        #[serde(default)]
        requests_not_cacheable: u64,
        #[serde(default)]
        non_cacheable_compilations: u64,
    }
    #[derive(Deserialize)]
    struct ByLanguage {
        counts: BTreeMap<String, u64>,
    }
    let document: SccacheStatistics = serde_json::from_str(text.trim()).ok()?;
    let stats = document.stats;
    let counts = LauncherCounts {
        hits: stats.cache_hits.counts.values().sum(),
        misses: stats.cache_misses.counts.values().sum(),
        other: stats.requests_not_cacheable + stats.non_cacheable_compilations,
    };
    Some((counts, document.cache_location))
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
