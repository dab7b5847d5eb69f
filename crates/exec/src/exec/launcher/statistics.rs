//! Reads the statistics of compiler caches and distributors after a build.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_host::{Command, Host, HostPath, RunPrograms};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::plan::launchers::{LANGUAGES, LOG, entry};
use serde::{Deserialize, Serialize};

use super::{STATSLOG, stem};
use crate::event::{BuildEvent, Sink};

/// Time limit for reading the statistics of a launcher's server.
const STATS_DEADLINE: Duration = Duration::from_secs(20);

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

/// The statistics of sccache's server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerStatistics {
    counts: LauncherCounts,
    /// Numbers of compilations by build server.
    pub(super) distributed: BTreeMap<String, u64>,
    /// Number of compilations that could not be distributed.
    pub(super) not_distributed: u64,
    /// Where the cache is.
    location: String,
}

impl ServerStatistics {
    /// Reads the statistics of a tree's server, which starts it if it does not run.
    pub(super) fn read(host: &dyn RunPrograms, tree: &PlannedTree, program: &str) -> Option<Self> {
        let command = Command::new(program, STATS_DEADLINE).args(["--show-stats", "--stats-format=json"]);
        let output = host.run(&with_env(command, tree)).ok().filter(gpubuild_host::CommandOutput::success)?;
        Self::parse(&output.stdout)
    }

    /// What was counted since an earlier moment.
    pub(super) fn since(mut self, before: &Self) -> Self {
        self.counts.hits = self.counts.hits.saturating_sub(before.counts.hits);
        self.counts.misses = self.counts.misses.saturating_sub(before.counts.misses);
        self.counts.other = self.counts.other.saturating_sub(before.counts.other);
        for (server, count) in &mut self.distributed {
            *count = count.saturating_sub(before.distributed.get(server).copied().unwrap_or_default());
        }
        self.distributed.retain(|_, count| *count > 0);
        self.not_distributed = self.not_distributed.saturating_sub(before.not_distributed);
        self
    }

    fn parse(text: &str) -> Option<Self> {
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
            #[serde(default)]
            dist_compiles: BTreeMap<String, u64>,
            #[serde(default)]
            dist_errors: u64,
        }
        #[derive(Deserialize)]
        struct ByLanguage {
            counts: BTreeMap<String, u64>,
        }
        let document: SccacheStatistics = serde_json::from_str(text.trim()).ok()?;
        let stats = document.stats;
        let sum = |counts: &ByLanguage| counts.counts.values().copied().fold(0, u64::saturating_add);
        let counts = LauncherCounts {
            hits: sum(&stats.cache_hits),
            misses: sum(&stats.cache_misses),
            other: stats.requests_not_cacheable.saturating_add(stats.non_cacheable_compilations),
        };
        Some(Self {
            counts,
            distributed: stats.dist_compiles,
            not_distributed: stats.dist_errors,
            location: document.cache_location,
        })
    }
}

/// Collects the cache statistics of one build of a tree.
pub(in crate::exec) struct LauncherStatistics<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    /// Path of the launcher whose server keeps statistics, and those before the build.
    server: Option<(String, ServerStatistics)>,
    log: Option<HostPath>,
}

impl<'a> LauncherStatistics<'a> {
    /// Starts collecting. Removes the log of an earlier build.
    pub(in crate::exec) fn begin(host: &'a dyn Host, tree: &'a PlannedTree) -> Self {
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
            let before = ServerStatistics::read(host, tree, &program);
            (program, before.unwrap_or_default())
        });
        Self { host, tree, server, log }
    }

    /// Sends the statistics.
    pub(in crate::exec) fn report(&self, sink: Sink<'_>) {
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
            && let Some(after) = ServerStatistics::read(self.host, self.tree, program)
        {
            let built = after.since(before);
            let location = &built.location;
            let is_other_storage = self.tree.env.contains_key("SCCACHE_REDIS")
                && !location.to_ascii_lowercase().contains("redis");
            let note = is_other_storage.then(|| {
                format!("its server uses another storage ({location}): stop it with `sccache --stop-server`")
            });
            self.send(sink, "sccache", built.counts, None, note);
            let is_expected = self.tree.farms.values().any(|farm| farm.required && farm.local.is_none());
            if is_expected || !built.distributed.is_empty() || built.not_distributed > 0 {
                sink(&BuildEvent::Distributed {
                    tree: self.tree.id.clone(),
                    servers: built.distributed,
                    failed: built.not_distributed,
                    misses: built.counts.misses,
                });
            }
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

/// Adds the variables of the plan.
pub(super) fn with_env(mut command: Command, tree: &PlannedTree) -> Command {
    for (name, value) in &tree.env {
        command = command.env(name, value);
    }
    command
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
