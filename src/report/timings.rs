//! The outputs of `gpubuild build --timings`: a JSON document, an HTML page that shows it, and a trace for Perfetto.

use gpubuild_core::clean::{self, is_hidden};
use gpubuild_exec::exec::ninja::critical_path;
use gpubuild_exec::exec::processes::Sample;
use gpubuild_exec::exec::timings::{
    LauncherTotals, SharedStoreTotals, TimedMessage, TimedStep, TimedUnit, TimingRecording, TreeTime,
};
use gpubuild_plan::plan::bytes;
use serde::Serialize;
use serde_json::json;

use super::Schema;

/// The document of `build --timings`. Times are in seconds since the start of the build.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimingsReport<'a> {
    schema: Schema,
    /// Name of the project.
    project: &'a str,
    /// Version of gpubuild.
    gpubuild: &'static str,
    /// Whether the build succeeded.
    success: bool,
    /// Duration of the build.
    seconds: f64,
    /// Number of processor threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    processors: Option<u32>,
    /// The CMake trees.
    trees: &'a [TreeTime],
    /// Steps of the build, such as configuring a tree.
    steps: &'a [TimedStep],
    /// Files and crates that were built.
    units: &'a [TimedUnit],
    /// The chain of dependent units that takes longest.
    critical_path: CriticalPath,
    /// Statistics of compiler caches.
    caches: &'a [LauncherTotals],
    /// What was transferred from and to the shared store.
    shared_store: SharedStoreTotals,
    /// Messages that were reported during the build.
    messages: &'a [TimedMessage],
    /// Memory use and parallelism over time.
    samples: &'a [Sample],
}

/// The chain of dependent units that takes longest, regardless of the number of processors.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CriticalPath {
    /// Its duration.
    seconds: f64,
    /// Indices in `units`, in build order.
    units: Vec<usize>,
}

/// Properties of a build that the recording does not contain.
#[derive(Debug, Clone, Copy)]
pub struct TimingsSubject<'a> {
    /// Name of the project.
    pub project: &'a str,
    /// Whether the build succeeded.
    pub success: bool,
    /// Number of processor threads.
    pub processors: Option<u32>,
}

/// An output format of timings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingsForm {
    /// A self-contained HTML page.
    Page,
    /// The JSON document.
    Json,
    /// Trace events, for Perfetto and `chrome://tracing`.
    Trace,
}

impl TimingsForm {
    /// The format for a file name: `.json`, `.trace.json`, or HTML for any other name.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path.to_ascii_lowercase().strip_suffix(".json") {
            Some(rest) if rest.strip_suffix(".trace").is_some() => Self::Trace,
            Some(_) => Self::Json,
            None => Self::Page,
        }
    }
}

impl<'a> TimingsReport<'a> {
    /// The document of a recording.
    #[must_use]
    pub fn new(about: TimingsSubject<'a>, recording: &'a TimingRecording) -> Self {
        let path = critical_path(&recording.units, &recording.needs);
        let seconds = path.iter().map(|index| recording.units[*index].seconds()).sum();
        Self {
            schema: Schema { name: "timings", version: 1 },
            project: about.project,
            gpubuild: env!("CARGO_PKG_VERSION"),
            success: about.success,
            seconds: recording.seconds,
            processors: about.processors,
            trees: &recording.trees,
            steps: &recording.steps,
            units: &recording.units,
            critical_path: CriticalPath { seconds, units: path },
            caches: &recording.caches,
            shared_store: recording.shared_store,
            messages: &recording.messages,
            samples: &recording.samples,
        }
    }

    /// Renders the document in a format.
    ///
    /// # Errors
    /// Serialization failed, which does not happen with the values of a build.
    pub fn render(&self, form: TimingsForm) -> Result<String, serde_json::Error> {
        match form {
            TimingsForm::Page => self.page(),
            TimingsForm::Json => {
                serde_json::to_string_pretty(self).map(|text| clean::json(&text).into_owned() + "\n")
            }
            TimingsForm::Trace => {
                serde_json::to_string(&self.trace()).map(|text| clean::json(&text).into_owned() + "\n")
            }
        }
    }

    fn page(&self) -> Result<String, serde_json::Error> {
        // In a script element only `<` must be escaped.
        let data = clean::json(&serde_json::to_string(self)?)
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026");
        let title = format!("{}: {}", self.project, duration(self.seconds));
        // Every placeholder is replaced once, so that a file named like a placeholder stays unchanged.
        let fill = |name: &str| match name {
            "TITLE" => escaped(&title),
            "SUMMARY" => self.summary(),
            "DATA" => data.clone(),
            other => format!("@{other}@"),
        };
        let parts = TEMPLATE.split("@@").enumerate();
        Ok(parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { fill(part) }).collect())
    }

    /// The most important numbers, visible without JavaScript.
    fn summary(&self) -> String {
        let compiled: Vec<&TimedUnit> = self.units.iter().filter(|unit| unit.kind != "configure").collect();
        let work: f64 = compiled.iter().map(|unit| unit.seconds()).sum();
        let mut rows = vec![
            (
                "Build",
                format!("{} ({})", duration(self.seconds), if self.success { "succeeded" } else { "failed" }),
            ),
            ("Files built", format!("{}, {} in total", compiled.len(), duration(work))),
            (
                "Critical path",
                format!(
                    "{} in {} files",
                    duration(self.critical_path.seconds),
                    self.critical_path.units.len()
                ),
            ),
        ];
        if let Some(most) = self.samples.iter().map(|sample| sample.bytes).max().filter(|most| *most > 0) {
            rows.push(("Peak memory", bytes::show(most)));
        }
        if let Some(largest) = self.units.iter().max_by_key(|unit| unit.memory_bytes) {
            let size = largest.memory_bytes.map(bytes::show);
            rows.extend(size.map(|size| ("Peak memory of one file", format!("{size}: {}", largest.output))));
        }
        for cache in self.caches {
            let text = format!("{} of {} from {}", cache.hits, cache.hits + cache.misses, cache.launcher);
            rows.push(("Compiler cache", text));
        }
        let SharedStoreTotals { hits, saved, downloaded, uploaded, seconds } = self.shared_store;
        if hits + saved > 0 {
            let (down, up) = (bytes::show(downloaded), bytes::show(uploaded));
            let text = format!("{hits} hits ({down}), {saved} saved ({up}), {}", duration(seconds));
            rows.push(("Shared store", text));
        }
        let row =
            |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(value));
        rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }

    /// Trace events: a process for each tree, and a thread for each row of its units.
    fn trace(&self) -> serde_json::Value {
        let microseconds = |seconds: f64| (seconds * 1e6).round();
        let mut names: Vec<&str> = vec![""];
        let mut events = Vec::new();
        let mut number = |tree: &'a str| {
            names.iter().position(|name| *name == tree).unwrap_or_else(|| {
                names.push(tree);
                names.len() - 1
            })
        };
        for step in self.steps {
            let (time, length) = (microseconds(step.start), microseconds(step.end - step.start));
            events.push(
                json!({"ph": "X", "name": step.name, "cat": step.kind, "pid": number(&step.tree), "tid": 0,
                "ts": time, "dur": length}),
            );
        }
        for (unit, row) in self.units.iter().zip(rows(self.units)) {
            let (time, length) = (microseconds(unit.start), microseconds(unit.seconds()));
            events.push(json!({"ph": "X", "name": unit.output, "cat": unit.kind, "pid": number(&unit.tree),
                "tid": row + 1, "ts": time, "dur": length,
                "args": {"memory_bytes": unit.memory_bytes, "cache": unit.cache}}));
        }
        for sample in self.samples {
            events.push(json!({"ph": "C", "name": "memory", "pid": 0, "ts": microseconds(sample.time),
                "args": {"MiB": sample.bytes >> 20}}));
        }
        for (id, name) in names.iter().enumerate() {
            let name = if name.is_empty() { self.project } else { name };
            events.push(json!({"ph": "M", "name": "process_name", "pid": id, "args": {"name": name}}));
        }
        json!({"displayTimeUnit": "ms", "traceEvents": events})
    }
}

/// Assigns a row to each unit, so that units of a tree in the same row do not overlap.
fn rows(units: &[TimedUnit]) -> Vec<usize> {
    let mut ends: Vec<(&str, Vec<f64>)> = Vec::new();
    units
        .iter()
        .map(|unit| {
            let at = ends.iter().position(|(tree, _)| *tree == unit.tree).unwrap_or_else(|| {
                ends.push((&unit.tree, Vec::new()));
                ends.len() - 1
            });
            let of_tree = &mut ends[at].1;
            let row = of_tree.iter().position(|end| *end <= unit.start + 0.0005).unwrap_or_else(|| {
                of_tree.push(0.0);
                of_tree.len() - 1
            });
            of_tree[row] = unit.end;
            row
        })
        .collect()
}

/// `4.2 s`, `12 min 5 s`, `2 h 3 min`.
fn duration(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a duration in seconds fits into 64 bits"
    )]
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Escapes text for HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => safe.push(letter),
            letter if is_hidden(letter) => safe.extend(letter.escape_unicode()),
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

const TEMPLATE: &str = include_str!("timings.html");

#[cfg(test)]
#[path = "timings_tests.rs"]
mod tests;
