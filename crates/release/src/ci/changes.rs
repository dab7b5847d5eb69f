//! Decides which rows have changed inputs since a commit. The others are left out or started last. A row counts as unchanged only if that is
//! certain.
//!
//! The inputs of a row are gpubuild.toml, as far as it changes the row, and every file of the repository, except those that
//! `[ci] ignore` and `[ci] inputs` declare: no script of a build says which files it would read.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern, PatternError};
use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_plan::project::variant::CiTable;
use gpubuild_plan::project::{Project, ProjectFile};
use serde::Serialize;

use super::row::CiRow;
use super::rows::Rows;

/// `*` stops at a folder, as in shells; only `**` matches several.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The number of changed files that a reason names.
const NAMED: usize = 3;

/// A row, whether its inputs changed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowDecision {
    /// The name of the row.
    pub name: String,
    /// Whether its inputs changed or may have changed: whether `--changed-since` keeps it, or `--changed-first` places it first.
    pub keep: bool,
    /// Why.
    pub reasons: Vec<String>,
}

/// The declared inputs of `[ci]`.
struct Declared {
    ignored: Vec<Pattern>,
    by_backend: BTreeMap<Backend, Vec<Pattern>>,
}

/// A pattern of `[ci]` that is not a glob.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` in [ci] is not a glob: {problem}")]
pub struct InvalidPattern {
    pattern: String,
    problem: &'static str,
}

impl Declared {
    fn new(table: &CiTable) -> Result<Self, InvalidPattern> {
        let pattern = |text: &String| {
            Pattern::new(text).map_err(|PatternError { msg: problem, .. }| InvalidPattern {
                pattern: text.clone(),
                problem,
            })
        };
        let patterns = |list: &Vec<String>| list.iter().map(pattern).collect::<Result<Vec<_>, _>>();
        let ignored = patterns(&table.ignore)?;
        let by_backend = table
            .inputs
            .iter()
            .map(|(backend, list)| Ok((*backend, patterns(list)?)))
            .collect::<Result<_, InvalidPattern>>()?;
        Ok(Self { ignored, by_backend })
    }

    /// The backends whose rows read the file; `None` if all rows may read it.
    fn readers(&self, file: &str) -> Option<Vec<Backend>> {
        // `**` does not leave the project's folder.
        let matches = |one: &Pattern| {
            one.as_str().starts_with("../") == file.starts_with("../") && one.matches_with(file, OPTIONS)
        };
        let has = |patterns: &[Pattern]| patterns.iter().any(matches);
        let backends: Vec<Backend> = self
            .by_backend
            .iter()
            .filter(|(_, patterns)| has(patterns))
            .map(|(backend, _)| *backend)
            .collect();
        if backends.is_empty() && !has(&self.ignored) { None } else { Some(backends) }
    }
}

/// The state at the commit.
#[derive(Debug)]
pub enum Before<'a> {
    /// The project file, and the rows of [`project_before`], planned with the sources of today.
    Known(&'a ProjectFile, &'a Rows),
    /// Why it is unknown.
    Unknown(String),
}

/// What changed since the commit.
#[derive(Debug)]
pub struct Changes<'a> {
    /// The changed files, relative to the folder of gpubuild.toml, without that file.
    pub files: &'a [String],
    /// The state at the commit.
    pub before: Before<'a>,
    /// Reasons to keep every row.
    pub undecided: Vec<String>,
}

/// Decides for each row, in their order.
pub fn decide(
    rows: &Rows,
    project: &ProjectFile,
    changes: &Changes<'_>,
) -> Result<Vec<RowDecision>, InvalidPattern> {
    let declared = Declared::new(&project.ci)?;
    let mut common = changes.undecided.clone();
    let mut rows_before = BTreeMap::new();
    if let Before::Known(file, rows) = &changes.before {
        common.extend(changed_tables(file, project));
        rows_before = rows.include.iter().map(|row| (row.name.as_str(), row)).collect_map();
    }
    let decision = |row: &CiRow| {
        let mut reasons = common.clone();
        reasons.extend(changed_row(row, &changes.before, &rows_before));
        let (read, others): (Vec<&str>, Vec<&str>) =
            changes.files.iter().map(String::as_str).partition(|file| {
                declared.readers(file).is_none_or(|backends| backends.iter().any(|one| has(row, *one)))
            });
        reasons.extend(listed("changed: ", &read));
        let keep = !reasons.is_empty();
        if !keep {
            let unread = listed("nothing that it reads changed, only ", &others);
            reasons.push(unread.unwrap_or_else(|| "nothing changed".to_owned()));
        }
        RowDecision { name: row.name.clone(), keep, reasons }
    };
    Ok(rows.include.iter().map(decision).collect())
}

fn has(row: &CiRow, backend: Backend) -> bool {
    row.backends.split(',').any(|id| id == backend.id())
}

/// The tables that apply to every row and are not part of its plan.
fn changed_tables(before: &ProjectFile, now: &ProjectFile) -> Vec<String> {
    let tables = [
        ("audit", before.audit == now.audit),
        ("binary", before.binary == now.binary),
        ("pack", before.pack == now.pack),
        ("python", before.python == now.python),
        ("toolkits", before.toolkits == now.toolkits),
        ("with", before.with == now.with),
        ("ci.images", before.ci.images == now.ci.images),
        ("ci", (&before.ci.install, &before.ci.command) == (&now.ci.install, &now.ci.command)),
    ];
    let changed = tables.into_iter().filter(|(_, is_same)| !is_same);
    changed.map(|(name, _)| format!("[{name}] in gpubuild.toml changed")).collect()
}

/// Why the row differs from the row of that name at the commit.
fn changed_row(row: &CiRow, before: &Before<'_>, rows: &BTreeMap<&str, &CiRow>) -> Option<String> {
    match before {
        Before::Unknown(why) => Some(why.clone()),
        Before::Known(..) => match rows.get(row.name.as_str()) {
            None => Some("the job is new in gpubuild.toml".to_owned()),
            Some(other) => (*other != row).then(|| "gpubuild.toml changes its plan".to_owned()),
        },
    }
}

/// The first files and the number of others; `None` without files.
fn listed(start: &str, files: &[&str]) -> Option<String> {
    let shown: Vec<String> = files.iter().take(NAMED).map(|file| format!("`{file}`")).collect();
    let more = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!files.is_empty()).then(|| format!("{start}{}{more}", shown.join(", ")))
}

/// The project with the file of the commit, for [`super::rows()`]. What limits or caches a build does not change its result.
#[must_use]
pub fn project_before(now: &Project, mut before: Project) -> Project {
    before.file.limits = now.file.limits.clone();
    before.file.cache = now.file.cache.clone();
    before.file.ci = now.file.ci.clone();
    // A change of the table itself keeps every row.
    before.with.clone_from(&now.with);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> CiTable {
        gpubuild_toml::from_str(text).unwrap()
    }

    #[test]
    fn declared_globs_select_the_readers_of_a_file() {
        let table = table(
            "ignore = [\"docs/**\", \"*.md\", \"**/*.txt\", \"../more/**\"]\ninputs = { cuda = [\"src/*.cu\", \"src/both/**\"], rocm = [\"src/both/**\"] }",
        );
        let declared = Declared::new(&table).unwrap();
        let none = Some(Vec::new());
        for (file, readers) in [
            ("docs/a.md", none.clone()),
            ("docs/a/b/c.png", none.clone()),
            ("README.md", none.clone()),
            ("src/README.md", None),
            ("src/a.cu", Some(vec![Backend::Cuda])),
            ("src/more/a.cu", None),
            ("src/both/x/a.h", Some(vec![Backend::Cuda, Backend::Rocm])),
            ("../docs/a.md", None),
            ("src/a.c", None),
            ("src/a.txt", none.clone()),
            ("../a.txt", None),
            ("../more/a.txt", none),
        ] {
            assert_eq!(declared.readers(file), readers, "{file}");
        }
        let invalid = CiTable { ignore: vec!["a***".to_owned()], ..CiTable::default() };
        assert!(Declared::new(&invalid).is_err());
    }

    #[test]
    fn reasons_name_the_first_files() {
        assert_eq!(listed("x ", &[]), None);
        assert_eq!(listed("x ", &["a"]).unwrap(), "x `a`");
        assert_eq!(listed("x ", &["a", "b", "c", "d", "e"]).unwrap(), "x `a`, `b`, `c` and 2 more");
    }
}
