//! The documents of `gpubuild ci`, the matrix for GitHub, and their text.

use std::fmt::Write as _;

use gpubuild_plan::plan::bytes;
use gpubuild_release::ci::changes::RowDecision;
use gpubuild_release::ci::preflight::{Outlook, PreflightCheck};
use gpubuild_release::ci::{CiRow, CiTestRow, DroppedRow, Rows};
use serde::Serialize;

use super::Schema;
use super::rows;

/// How many omitted jobs are listed. A matrix of GitHub has 256 jobs at most.
const SHOWN_ROWS: usize = 256;

/// The document of `ci matrix --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiReport<'a> {
    schema: Schema,
    /// The jobs, in the order of variants, images and versions in gpubuild.toml.
    include: &'a [CiRow],
    /// Jobs that test what others packed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tests: &'a [CiTestRow],
    /// Jobs that cannot be built.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    dropped: &'a [DroppedRow],
    /// What `--changed-since` or `--changed-first` decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<CiChangesReport>,
}

/// What the matrix does with rows whose inputs have not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnchangedRows {
    /// It does not contain them.
    LeftOut,
    /// They are after the others.
    Last,
}

/// The decisions of `--changed-since` or `--changed-first`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiChangesReport {
    /// What happens to rows without changes.
    pub unchanged: UnchangedRows,
    /// The commit as it was named.
    pub since: String,
    /// Its hash.
    pub commit: String,
    /// The decision on each job.
    pub rows: Vec<RowDecision>,
}

impl CiChangesReport {
    /// One line per job.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |row: &RowDecision| {
            let verb = match (self.unchanged, row.keep) {
                (UnchangedRows::LeftOut, true) => "kept",
                (UnchangedRows::LeftOut, false) => "left out",
                (UnchangedRows::Last, true) => "first",
                (UnchangedRows::Last, false) => "last",
            };
            format!("{verb} {}: {}\n", row.name, row.reasons.join("; "))
        };
        self.rows.iter().map(line).collect()
    }
}

impl<'a> CiReport<'a> {
    /// The document of these rows.
    #[must_use]
    pub fn new(rows: &'a Rows, changes: Option<CiChangesReport>) -> Self {
        let schema = Schema { name: "ci", version: 1 };
        Self { schema, include: &rows.include, tests: &rows.tests, dropped: &rows.dropped, changes }
    }
}

/// A matrix for GitHub's `fromJSON`, on one line. The values are scalars, except for the labels of a runner that has several.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GithubMatrix<'a> {
    include: Vec<GithubRow<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GithubRow<'a> {
    name: &'a str,
    variant: &'a str,
    image: &'a str,
    os: GithubLabels<'a>,
    container: &'a str,
    backends: &'a str,
    prepare: String,
    cache_key: &'a str,
    timeout_minutes: u64,
    /// `yes` or empty: GitHub treats an empty string as false.
    pack: &'static str,
    /// `yes` if another job tests what this one packs, or empty.
    tested: &'static str,
}

/// The value of `runs-on`: a label, or all labels that a runner has to have.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum GithubLabels<'a> {
    One(&'a str),
    All(&'a [String]),
}

impl<'a> GithubLabels<'a> {
    fn new(os: Option<&'a str>, labels: &'a [String]) -> Option<Self> {
        if labels.is_empty() { os.map(Self::One) } else { Some(Self::All(labels)) }
    }
}

/// Minutes after which GitHub cancels a job.
const GITHUB_LONGEST: u64 = 360;

impl<'a> GithubMatrix<'a> {
    /// The jobs that GitHub has runners for.
    #[must_use]
    pub fn new(rows: impl Iterator<Item = &'a CiRow>, tests: &[CiTestRow]) -> Self {
        let yes = |holds: bool| if holds { "yes" } else { "" };
        let include = rows.filter_map(|row| {
            Some(GithubRow {
                name: &row.name,
                variant: &row.variant,
                image: &row.image,
                os: GithubLabels::new(row.os.as_deref(), &row.labels)?,
                container: &row.container,
                backends: &row.backends,
                prepare: row.prepare.join("\n"),
                cache_key: &row.cache_key,
                timeout_minutes: row.needs.timeout_minutes.unwrap_or(GITHUB_LONGEST),
                pack: yes(row.pack.is_some()),
                tested: yes(tests.iter().any(|test| test.of == row.name && test.os.is_some())),
            })
        });
        Self { include: include.collect() }
    }
}

/// The matrix for GitHub of the jobs that test packages of other jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GithubTests<'a> {
    include: Vec<GithubTest<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GithubTest<'a> {
    name: &'a str,
    of: &'a str,
    os: GithubLabels<'a>,
    container: &'a str,
    backends: &'a str,
    prepare: String,
    timeout_minutes: u64,
}

impl<'a> GithubTests<'a> {
    /// The jobs that GitHub has runners for.
    #[must_use]
    pub fn new(tests: impl Iterator<Item = &'a CiTestRow>) -> Self {
        let include = tests.filter_map(|test| {
            Some(GithubTest {
                name: &test.name,
                of: &test.of,
                os: GithubLabels::new(test.os.as_deref(), &test.labels)?,
                container: &test.container,
                backends: &test.backends,
                prepare: test.prepare.join("\n"),
                timeout_minutes: test.timeout_minutes,
            })
        });
        Self { include: include.collect() }
    }
}

/// The rows as text.
#[must_use]
pub fn text(rows: &Rows) -> String {
    let mut text = String::new();
    let width = rows::width(rows.include.iter().map(|row| row.name.len()));
    let most = rows::width(rows.include.iter().map(|row| row.backends.len()));
    for row in &rows.include {
        let _ = writeln!(text, "{:width$}  {:most$}  {}", row.name, row.backends, place(row));
        for (backend, list) in &row.archs {
            let _ = writeln!(text, "  {backend} for {list}");
        }
        for line in &row.setup {
            let _ = writeln!(text, "  setup: {line}");
        }
        for command in &row.run {
            let _ = writeln!(text, "  gpubuild {}", command.join(" "));
        }
        if let Some(command) = &row.pack {
            let _ = writeln!(text, "  with `--pack`: gpubuild {}", command.join(" "));
        }
        let _ = writeln!(text, "  needs {}", needs(row));
        for line in &row.warnings {
            let _ = writeln!(text, "  warning: {line}");
        }
    }
    for test in &rows.tests {
        let place = test.os.as_deref().unwrap_or(&test.image);
        let _ =
            writeln!(text, "{}  {}  {place}\n  tests the package of {}", test.name, test.backends, test.of);
        for command in &test.run {
            let _ = writeln!(text, "  gpubuild {}", command.join(" "));
        }
    }
    let dropped = rows.dropped.iter().map(|one| format!("{}: {}", one.name, one.reasons.join("; ")));
    for line in first_rows(dropped.collect()) {
        let _ = writeln!(text, "omitted {line}");
    }
    text
}

/// The first of many lines about omitted jobs, and the number of the others.
#[must_use]
pub fn first_rows(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(SHOWN_ROWS);
    lines.truncate(SHOWN_ROWS);
    if more > 0 {
        lines.push(format!("{more} more jobs"));
    }
    lines
}

fn place(row: &CiRow) -> String {
    let container = if row.container.is_empty() { String::new() } else { format!(" in {}", row.container) };
    format!("{}{container}", row.os.as_deref().unwrap_or(&row.image))
}

fn needs(row: &CiRow) -> String {
    let needs = &row.needs;
    let mut parts =
        vec![format!("{} jobs", needs.jobs), format!("about {} of memory", bytes::show(needs.memory_bytes))];
    if needs.download_bytes > 0 {
        parts.push(format!("{} to download", bytes::show(needs.download_bytes)));
    }
    if needs.disk_bytes > 0 {
        parts.push(format!("{} of disk space for toolkits", bytes::show(needs.disk_bytes)));
    }
    if needs.cpu_seconds > 0 {
        parts.push(format!("about {} s of CPU time", needs.cpu_seconds));
    }
    parts.join(", ")
}

/// The document of `ci preflight --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PreflightDocument<'a> {
    schema: Schema,
    /// The checks and their outcomes.
    checks: &'a [PreflightCheck],
}

impl<'a> PreflightDocument<'a> {
    /// The document of these checks.
    #[must_use]
    pub fn new(checks: &'a [PreflightCheck]) -> Self {
        Self { schema: Schema { name: "preflight", version: 1 }, checks }
    }
}

/// The checks as text.
#[must_use]
pub fn preflight(checks: &[PreflightCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.outlook {
            Outlook::Good => "ok",
            Outlook::Unknown => "unknown",
            Outlook::Doubtful => "warning",
            Outlook::Bad => "error",
        };
        let _ = writeln!(text, "{mark:8} {}: {}", check.what, check.text);
        if let Some(hint) = &check.hint {
            let _ = writeln!(text, "         hint: {hint}");
        }
    }
    text
}
