//! Compiler launchers at work: each is tried with its compiler before configuring, and asked afterwards what it saved.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_host::{Command, Host, HostPath, RunPrograms, find_program};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::plan::launchers::{LANGUAGES, LOG, entry};
use serde::{Deserialize, Serialize};

use crate::cmake;
use crate::event::{BuildEvent, Sink};
use crate::store::sha256;

/// How long one small file may take. The first call of a launcher may start a server or an archive of the compiler.
const TRIAL_DEADLINE: Duration = Duration::from_secs(120);
/// How long a launcher's server may take to tell its counts.
const STATS_DEADLINE: Duration = Duration::from_secs(20);

/// What came of trying a launcher with a compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LauncherTrial {
    /// Hash of the pair and of what else decides.
    key: String,
    /// Why the launcher cannot be used; `None` if it can.
    fault: Option<String>,
}

/// Tries every launcher of a tree with its compiler, once per pair, and takes out those that break it.
pub(super) fn settle(host: &dyn Host, sink: Sink<'_>, tree: &mut PlannedTree) {
    let path = cmake::own_folder(tree).join("launchers.json");
    let known: BTreeMap<String, LauncherTrial> = crate::store::read_json(host, &path).unwrap_or_default();
    let mut trials = BTreeMap::new();
    for language in LANGUAGES {
        let name = entry(language);
        let Some(value) = tree.cache.get(&name).filter(|value| !value.is_empty()).cloned() else { continue };
        let pair = CounterPair { host, tree, language, launcher: value.split(';').collect() };
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
        // It is tried again the next time.
        log::debug!("failed to keep the results of the launcher trials in `{path}`: {error}");
    }
}

/// A launcher in front of a compiler.
struct CounterPair<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    language: &'static str,
    launcher: Vec<&'a str>,
}

impl CounterPair<'_> {
    /// Changes with the programs, their places and the variables of the plan.
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

    /// The compiler that CMake will take, as far as that is settled before it is started.
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
        let asked = self.host.env().get(variable).and_then(|value| value.split_whitespace().next());
        let found = |name: &str| match self.host.path(name) {
            path if path.is_absolute() => Some(path),
            _ => find_program(self.host, name).into_iter().next(),
        };
        asked.and_then(found).or_else(|| names.iter().find_map(|name| found(name)))
    }

    /// Why this launcher cannot stand in front of this compiler.
    fn fault(&self) -> Option<String> {
        let Some(compiler) = self.compiler() else {
            return Some("its compiler is not known before configuring, so it could not be tried".to_owned());
        };
        let real = self.host.canonical(&compiler).unwrap_or_else(|_| compiler.clone());
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| stem(real.as_str()) == **wrapper) {
            return Some(format!("the compiler `{compiler}` is `{wrapper}` already, and twice breaks it"));
        }
        let folder = match self.host.temporary_dir(&cmake::own_folder(self.tree)) {
            Ok(folder) => folder,
            Err(error) => return Some(format!("it could not be tried: {error}")),
        };
        let fault = self.fault_in(&folder, &compiler);
        // What is left behind is in nobody's way.
        let _ = self.host.remove(&folder);
        fault
    }

    fn fault_in(&self, folder: &HostPath, compiler: &HostPath) -> Option<String> {
        let (source, arguments) = self.compilation(compiler);
        let text = "int gpubuild_trial(void);\nint gpubuild_trial(void) { return 1; }\n";
        if let Err(error) = self.host.write(&folder.join(source), text.as_bytes()) {
            return Some(format!("it could not be tried: {error}"));
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
        let said = match run(&self.launcher) {
            Ok(output) if output.success() => return self.uncached(folder),
            Ok(output) => {
                let lines: Vec<&str> = output.stderr.lines().chain(output.stdout.lines()).collect();
                let first = crate::diagnose::first_error(&lines).map(|error| error.message);
                first.unwrap_or_else(|| "it failed and said nothing".to_owned())
            }
            Err(error) => error.to_string(),
        };
        // A compiler that does not work alone either is for CMake to tell.
        let alone = run(&[]).is_ok_and(|output| output.success());
        alone.then(|| format!("`{compiler}` works, and not behind it: {said}"))
    }

    /// A cache that passes a compiler through without a look only costs time.
    fn uncached(&self, folder: &HostPath) -> Option<String> {
        let log = self.host.read_text(&folder.join("log")).ok()?;
        let calls = parse_log(&log);
        let why = calls.iter().find_map(|call| match call.outcome {
            LauncherOutcome::Hit | LauncherOutcome::Miss => None,
            LauncherOutcome::Other => Some(call.words.join(", ")),
        })?;
        Some(format!("it does not cache what this compiler makes ({why})"))
    }

    /// A small source and the arguments that compile it as CMake would.
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

/// Programs that compilers of the same name are often links to.
const WRAPPERS: [&str; 4] = ["ccache", "sccache", "distcc", "icecc"];
/// The variable of ccache with the log that [`parse_log`] reads.
const STATSLOG: &str = "CCACHE_STATSLOG";

/// The name of a program without folder and `.exe`.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
    name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
}

/// What became of one call of a compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LauncherOutcome {
    /// It was in the cache.
    Hit,
    /// It was compiled, and is in the cache now.
    Miss,
    /// It cannot be cached.
    Other,
}

/// One call in a launcher's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherCall {
    /// The source file as it was named.
    pub source: String,
    /// What became of it.
    pub outcome: LauncherOutcome,
    /// The launcher's words for it.
    pub words: Vec<String>,
}

/// Reads a log of ccache: `# source`, then one word per line.
#[must_use]
pub fn parse_log(text: &str) -> Vec<LauncherCall> {
    let mut calls: Vec<LauncherCall> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(source) = line.strip_prefix('#') {
            let (source, words) = (source.trim().to_owned(), Vec::new());
            calls.push(LauncherCall { source, outcome: LauncherOutcome::Other, words });
        } else if let Some(call) = calls.last_mut() {
            match line {
                "direct_cache_hit" | "preprocessed_cache_hit" => call.outcome = LauncherOutcome::Hit,
                "cache_miss" => call.outcome = LauncherOutcome::Miss,
                _ => {}
            }
            call.words.push(line.to_owned());
        }
    }
    calls
}

/// Hits, misses and calls that cannot be cached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LauncherCounts {
    hits: u64,
    misses: u64,
    other: u64,
}

/// Counts while a tree is built.
pub(super) struct Counting<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    /// The launcher's program whose server counts, with what it had counted before.
    server: Option<(String, LauncherCounts)>,
    log: Option<HostPath>,
}

impl<'a> Counting<'a> {
    /// Begins to count: an older log is removed.
    pub(super) fn begin(host: &'a dyn Host, tree: &'a PlannedTree) -> Self {
        let names = LANGUAGES.map(entry);
        let mut programs =
            names.iter().filter_map(|name| tree.cache.get(name)).filter(|value| !value.is_empty());
        let log = tree.env.contains_key(STATSLOG).then(|| tree.build.join(LOG));
        if let Some(log) = &log {
            // Counts of two builds in one would be wrong, and no more than that.
            let _ = host.remove(log);
        }
        let server = programs.find(|value| stem(value) == "sccache").cloned();
        let server = server.map(|program| {
            let before = ask(host, tree, &program).map(|(counts, _)| counts);
            (program, before.unwrap_or_default())
        });
        Self { host, tree, server, log }
    }

    /// Tells what was counted.
    pub(super) fn tell(&self, sink: Sink<'_>) {
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
            && let Some((after, place)) = ask(self.host, self.tree, program)
        {
            let counts = LauncherCounts {
                hits: after.hits.saturating_sub(before.hits),
                misses: after.misses.saturating_sub(before.misses),
                other: after.other.saturating_sub(before.other),
            };
            let elsewhere =
                self.tree.env.contains_key("SCCACHE_REDIS") && !place.to_ascii_lowercase().contains("redis");
            let note = elsewhere.then(|| {
                format!(
                    "its server was started for another storage ({place}): `sccache --stop-server` ends it"
                )
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

/// What sccache's server has counted, and where it keeps its cache.
fn ask(host: &dyn RunPrograms, tree: &PlannedTree, program: &str) -> Option<(LauncherCounts, String)> {
    let mut command = Command::new(program, STATS_DEADLINE).args(["--show-stats", "--stats-format=json"]);
    for (name, value) in &tree.env {
        command = command.env(name, value);
    }
    let output = host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
    parse_stats(&output.stdout)
}

fn parse_stats(text: &str) -> Option<(LauncherCounts, String)> {
    #[derive(Deserialize)]
    struct StatisticsDocument {
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
    let document: StatisticsDocument = serde_json::from_str(text.trim()).ok()?;
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
