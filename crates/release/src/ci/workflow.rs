//! Generates the workflow file of a CI service from a template, and compares an existing file with it.

use serde::Serialize;
use std::fmt::Write as _;

use gpubuild_plan::project::variant::CiTable;

use super::image::Images;
use super::row::CiRow;
use super::rows::Rows;
use super::test_row::CiTestRow;

/// The maximum number of jobs in a matrix at GitHub (docs.github.com, "Usage limits").
pub const GITHUB_MAX_JOBS: usize = 256;
/// The maximum number of jobs in a `parallel:matrix` at GitLab (docs.gitlab.com, "parallel:matrix").
pub const GITLAB_MAX_JOBS: usize = 200;

/// The beginning of a file that gpubuild generated.
pub const MARK: &str = "# Written by `gpubuild ci init`.";

/// A CI service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CiService {
    /// GitHub Actions.
    Github,
    /// GitLab CI/CD.
    Gitlab,
}

impl CiService {
    /// The path of the generated file in a repository.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Github => ".github/workflows/gpubuild.yml",
            Self::Gitlab => ".gitlab/gpubuild.yml",
        }
    }

    /// An instruction for the user that the generated file cannot cover.
    #[must_use]
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Github => None,
            Self::Gitlab => Some("add to .gitlab-ci.yml: `include: [{ local: .gitlab/gpubuild.yml }]`"),
        }
    }

    /// The maximum number of jobs in a matrix.
    #[must_use]
    pub fn max_jobs(self) -> usize {
        match self {
            Self::Github => GITHUB_MAX_JOBS,
            Self::Gitlab => GITLAB_MAX_JOBS,
        }
    }
}

/// The command that installs this version of gpubuild.
pub(super) fn default_install() -> String {
    format!("cargo install --locked gpubuild --version {}", env!("CARGO_PKG_VERSION"))
}

/// The content of the workflow file.
#[must_use]
pub fn text(service: CiService, table: &CiTable, rows: &Rows, images: &Images) -> String {
    let install = table.install.clone().unwrap_or_else(default_install);
    let command = table.command.clone().unwrap_or_else(|| "gpubuild".to_owned());
    let packs = |is_included: fn(&CiRow) -> bool| {
        rows.include.iter().any(|row| row.pack.is_some() && is_included(row))
    };
    match service {
        CiService::Github => {
            let tests = rows.tests.iter().any(|test| test.os.is_some());
            let (packed_if, after) = if tests {
                ("(github.ref_type == 'tag' || matrix.tested)", ", test")
            } else {
                ("github.ref_type == 'tag'", "")
            };
            select_lines(gpubuild_templates::GITHUB, packs(|row| row.os.is_some()), tests)
                .replace("@packed-if@", packed_if)
                .replace("@after-test@", after)
                .split_inclusive('\n')
                .map(|line| with_commands(line, &install, &command))
                .collect()
        }
        CiService::Gitlab => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.gitlab.is_some()).collect();
            let tests: Vec<&CiTestRow> = rows.tests.iter().filter(|test| test.gitlab.is_some()).collect();
            let mut prepare: Vec<&str> = Vec::new();
            for line in images.iter().filter_map(|image| images.prepare_always(image)).flatten() {
                if !prepare.contains(&line.as_str()) {
                    prepare.push(line);
                }
            }
            let lines: Vec<String> = prepare.iter().map(|line| format!("    - '{}'", quoted(line))).collect();
            select_lines(gpubuild_templates::GITLAB, packs(|row| row.gitlab.is_some()), !tests.is_empty())
                .replace("@prepare@", &lines.join("\n"))
                .replace("'@install@'", &gitlab_install(&install))
                .replace("@gpubuild@", &quoted(&command))
                .replace("@tested@", if tests.is_empty() { "" } else { "$TESTED" })
                .replace("@tests@\n", &gitlab_tests(tests.iter().copied(), "  "))
                .replace("@jobs@\n", &gitlab_jobs(&jobs, &rows.tests))
        }
    }
}

/// The content of a string of YAML in single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

/// The string of YAML with the commands that install gpubuild. Line breaks in single quotes would become spaces.
fn gitlab_install(commands: &str) -> String {
    if commands.contains('\n') { json(commands) } else { format!("'{}'", quoted(commands)) }
}

/// A string of JSON, which is one of YAML too.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A line of the workflow with commands. A command that YAML would not read as plain text becomes a quoted string.
fn with_commands(line: &str, install: &str, command: &str) -> String {
    let replaced = |text: &str| text.replace("@install@", install).replace("@gpubuild@", command);
    let Some((key, script)) = line.trim_end().split_once("run: ").filter(|(_, script)| script.contains('@'))
    else {
        return replaced(line);
    };
    let script = replaced(script);
    let starts_as_text =
        script.starts_with(|first: char| first.is_ascii_alphanumeric() || "./_~$".contains(first));
    let is_plain = starts_as_text
        && script == script.trim()
        && !script.contains('\n')
        && !script.ends_with(':')
        && [": ", " #"].iter().all(|mark| !script.contains(mark));
    let script = if is_plain { script } else { json(&script) };
    format!("{key}run: {script}\n")
}

/// Selects the conditional lines of a template: those with `@pack@` if any row packs, otherwise those with `@else@`, and those with
/// `@test@` if there are tests.
fn select_lines(template: &str, packs: bool, tests: bool) -> String {
    let marks = [("@pack@", packs), ("@else@", !packs), ("@test@", tests)];
    let select =
        |line| match marks.iter().find_map(|(mark, keep)| Some((str::strip_prefix(line, mark)?, keep))) {
            Some((rest, keep)) => keep.then_some(rest),
            None => Some(line),
        };
    template.split_inclusive('\n').filter_map(select).collect()
}

/// The GitLab jobs, each with at most [`GITLAB_MAX_JOBS`] rows.
fn gitlab_jobs(rows: &[&CiRow], tests: &[CiTestRow]) -> String {
    let several = rows.len() > GITLAB_MAX_JOBS;
    let mut text = String::new();
    for (part, rows) in rows.chunks(GITLAB_MAX_JOBS).enumerate() {
        let name = if several { format!("gpubuild-{}", part + 1) } else { "gpubuild".to_owned() };
        let _ = write!(text, "\n{name}:\n  extends: .gpubuild\n");
        text += &gitlab_matrix(rows.iter().copied(), tests, "  ");
    }
    text
}

/// The `parallel:matrix` of some rows.
#[must_use]
pub fn gitlab_matrix<'a>(rows: impl Iterator<Item = &'a CiRow>, tests: &[CiTestRow], indent: &str) -> String {
    let mut text = format!("{indent}parallel:\n{indent}  matrix:\n");
    for (row, job) in rows.filter_map(|row| Some((row, row.gitlab.as_ref()?))) {
        let values =
            [("ROW", &row.name), ("IMAGE", &job.image), ("TAG", &job.tag), ("CACHE_KEY", &row.cache_key)];
        for (index, (key, value)) in values.into_iter().enumerate() {
            let lead = if index == 0 { "- " } else { "  " };
            let _ = writeln!(text, "{indent}    {lead}{key}: \"{value}\"");
        }
        if row.pack.is_some() {
            let _ = writeln!(text, "{indent}      PACK: \"yes\"");
        }
        if tests.iter().any(|test| test.of == row.name && test.gitlab.is_some()) {
            let _ = writeln!(text, "{indent}      TESTED: \"yes\"");
        }
    }
    text
}

/// The `parallel:matrix` of the job for tests.
#[must_use]
pub fn gitlab_tests<'a>(tests: impl Iterator<Item = &'a CiTestRow>, indent: &str) -> String {
    let mut text = format!("{indent}parallel:\n{indent}  matrix:\n");
    for (test, job) in tests.filter_map(|test| Some((test, test.gitlab.as_ref()?))) {
        let _ = write!(
            text,
            "{indent}    - ROW: \"{}\"\n{indent}      OF: \"{}\"\n{indent}      IMAGE: \"{}\"\n{indent}      TAG: \"{}\"\n",
            test.name, test.of, job.image, job.tag
        );
    }
    text
}

/// The number of lines up to which a difference is shown. The time for one grows with the square of the number.
const MAX_DIFF: usize = 10_000;

/// A unified diff from an existing file to the generated one; `None` if they are equal except for line endings.
#[must_use]
pub fn drift(found: &str, wanted: &str) -> Option<String> {
    let found = found.replace("\r\n", "\n");
    if found == wanted {
        return None;
    }
    let (lines, expected) = (found.lines().count(), wanted.lines().count());
    if lines + expected > MAX_DIFF {
        return Some(format!("it has {lines} lines instead of {expected}\n"));
    }
    Some(diffy::create_patch(&found, wanted).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_compared_in_a_short_time() {
        assert_eq!(drift("a\r\n", "a\n"), None);
        assert!(drift("a\n", "b\n").unwrap().contains("-a\n+b\n"));
        let difference = drift(&"\n".repeat(1 << 20), "b\n").unwrap();
        assert_eq!(difference, "it has 1048576 lines instead of 1\n");
    }

    /// Every pair of characters that YAML gives a meaning, at the start, in the middle and at the end of a command.
    #[test]
    fn commands_remain_one_string_of_yaml() {
        let marks = " :#-?,[]{}&*!|>'\"%@`\\\n=~x";
        let pairs = marks.chars().flat_map(|one| marks.chars().map(move |other| format!("{one}{other}")));
        for pair in pairs {
            for command in [format!("{pair}x"), format!("x{pair}y"), format!("x{pair}"), pair.clone()] {
                let line = with_commands("      - run: @install@\n", &command, "gpubuild");
                let script =
                    line.strip_prefix("      - run: ").and_then(|rest| rest.strip_suffix('\n')).unwrap();
                if script.starts_with('"') {
                    assert_eq!(serde_json::from_str::<String>(script).unwrap(), command);
                } else {
                    assert_eq!(script, command);
                    assert!(script.starts_with(['x', '~']) && !script.ends_with([' ', ':']), "{script}");
                    assert!([": ", " #", "\n"].iter().all(|mark| !script.contains(mark)), "{script}");
                }
            }
        }
        assert_eq!(with_commands("  run: @gpubuild@ ci verify\n", "", "a: b"), "  run: \"a: b ci verify\"\n");
        assert_eq!(gitlab_install("a\n'b'"), "\"a\\n'b'\"");
        assert_eq!(gitlab_install("'b'"), "'''b'''");
    }
}
