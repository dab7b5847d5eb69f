//! `--changed-since` and `--changed-first`: asks git for the changed files and the gpubuild.toml of a commit.

use std::time::Duration;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::id;
use gpubuild_host::{CommandOutput, HostPath, RunError};
use gpubuild_plan::project::source::Source;
use gpubuild_plan::project::{self, Project, ProjectFile};
use gpubuild_release::ci::Rows;
use gpubuild_release::ci::changes::{self, Before, Changes, RowDecision};
use gpubuild_release::git;

use super::super::{CommandContext, Exit, Failure};

/// Time limit of one git command.
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// The rows that changed, and the decision on each row.
pub(super) struct ChangedRows {
    pub(super) commit: String,
    pub(super) decisions: Vec<RowDecision>,
}

/// Compares the working tree with a commit and decides on each row.
pub(super) fn since(
    revision: &str,
    context: &CommandContext<'_>,
    project: &Project,
    rows: &Rows,
) -> Result<ChangedRows, Failure> {
    let git = Git { context, folder: &project.root };
    // Also reports a folder that is not in a repository.
    let prefix = git.output(&["rev-parse", "--show-prefix"])?;
    let commit = git.commit(revision)?;
    let prefix = prefix.strip_suffix('\n').unwrap_or(&prefix);
    let files = git.changed_files(&commit, prefix)?;
    let undecided = match outside(project, prefix) {
        Some(reason) => vec![reason],
        None => git.ignored(project)?.into_iter().collect(),
    };
    let old = git.old_rows(&commit, prefix, project)?;
    let before = match &old {
        Ok((file, rows)) => Before::Known(file, rows),
        Err(why) => Before::Unknown(why.clone()),
    };
    let found = Changes { files: &files, before, undecided };
    let decisions = changes::decide(rows, &project.file, &found).map_err(|error| {
        Failure::usage(id!("ci.invalid-pattern"), error.to_string()).hint("correct [ci] in gpubuild.toml")
    })?;
    Ok(ChangedRows { commit, decisions })
}

struct Git<'a> {
    context: &'a CommandContext<'a>,
    folder: &'a HostPath,
}

impl Git<'_> {
    fn run(&self, arguments: &[&str]) -> Result<CommandOutput, Failure> {
        let command = git::command(self.folder, DEADLINE, arguments);
        self.context.host.run(&command).map_err(|error| match error {
            RunError::Interrupted => Failure {
                exit: Exit::Interrupted,
                ..Failure::negative(id!("run.interrupted"), "interrupted")
            },
            other => failed(&other.to_string()),
        })
    }

    fn output(&self, arguments: &[&str]) -> Result<String, Failure> {
        let output = self.run(arguments)?;
        if output.success() {
            return Ok(output.stdout);
        }
        let message = output.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(failed(&format!("`git {}` {}: {message}", arguments[0], output.ending())))
    }

    /// The hash of a commit. The name is never an option or a path.
    fn commit(&self, revision: &str) -> Result<String, Failure> {
        let name = format!("{revision}^{{commit}}");
        let output = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
        let commit = output.stdout.trim();
        let is_hash = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if output.success() && is_hash {
            return Ok(commit.to_owned());
        }
        Err(Failure::usage(
            id!("ci.unknown-revision"),
            format!("`{revision}` is not a commit of the repository of `{}`", self.folder),
        )
        .hint(
            "fetch it first: a shallow clone has only the newest commits (`fetch-depth: 0`, `GIT_DEPTH: 0`)",
        ))
    }

    /// The files that differ from the commit, and new ones, relative to the project's folder, without its gpubuild.toml.
    fn changed_files(&self, commit: &str, prefix: &str) -> Result<Vec<String>, Failure> {
        let diff = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let ends = ["--no-relative", "--end-of-options", commit, "--"];
        let tracked = self.output(&[&diff[..], &ends].concat())?;
        let top = top(self.folder, prefix);
        let others = Git { context: self.context, folder: &top };
        let new = others.output(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        let names = tracked.split('\0').chain(new.split('\0')).filter(|name| !name.is_empty());
        let mut files: Vec<String> = names.map(|name| from_project(prefix, name)).collect();
        files.retain(|file| file != project::FILE_NAME);
        files.sort_indirect();
        files.dedup();
        Ok(files)
    }

    /// The sources in the repository that git does not compare.
    fn ignored(&self, project: &Project) -> Result<Option<String>, Failure> {
        for folder in folders(project) {
            if self.run(&["check-ignore", "--quiet", "--", folder.as_str()])?.success() {
                return Ok(Some(format!("git ignores `{folder}`, so changes in it are unknown")));
            }
        }
        Ok(None)
    }

    /// gpubuild.toml of the commit and its rows, or why they are unknown.
    fn old_rows(
        &self,
        commit: &str,
        prefix: &str,
        project: &Project,
    ) -> Result<Result<(ProjectFile, Rows), String>, Failure> {
        let name = project::FILE_NAME;
        let object = format!("{commit}:{prefix}{name}");
        let output = self.run(&["cat-file", "blob", &object])?;
        if !output.success() {
            return Ok(Err(format!("the commit has no {name}")));
        }
        let path = project.root.join(name);
        let parsed = project::parse(path.as_str(), &output.stdout)
            .and_then(|(file, profile)| project::assemble(self.context.host, &path, file, profile));
        let Ok(old) = parsed else {
            return Ok(Err(format!("{name} of the commit cannot be read with the sources of today")));
        };
        let file = old.file.clone();
        let rows = super::rows_of(self.context, &changes::project_before(project, old))?;
        Ok(Ok((file, rows)))
    }
}

fn failed(message: &str) -> Failure {
    Failure::negative(id!("ci.git-failed"), message)
        .hint("`--changed-since` and `--changed-first` need git and a clone of the repository")
}

/// The top folder of the repository, as the path of the project's folder names it.
fn top(folder: &HostPath, prefix: &str) -> HostPath {
    let depth = prefix.matches('/').count();
    (0..depth).fold(folder.clone(), |folder, _| folder.parent().unwrap_or(folder))
}

/// The folders of the sources, without those that gpubuild.lock pins.
fn folders(project: &Project) -> impl Iterator<Item = HostPath> + '_ {
    let source = match project.file.project.source {
        Source::Fetched(_) => None,
        Source::Folder(_) => Some(&project.source),
    };
    source.into_iter().chain(project.with.iter().map(|with| &with.folder)).map(HostPath::normalized)
}

/// The sources that git cannot compare because they are outside of the repository.
fn outside(project: &Project, prefix: &str) -> Option<String> {
    let top = top(&project.root, prefix).normalized();
    let found = folders(project).find(|folder| !folder.is_inside(&top))?;
    Some(format!("`{found}` is outside of the repository, so changes in it are unknown"))
}

/// A path of the repository relative to the project's folder.
fn from_project(prefix: &str, path: &str) -> String {
    let mut rest = path;
    let mut folders = prefix.split_terminator('/').peekable();
    while let Some(folder) = folders.peek() {
        match rest.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
            Some(inner) => rest = inner,
            None => break,
        }
        folders.next();
    }
    format!("{}{rest}", "../".repeat(folders.count()))
}

#[cfg(test)]
mod tests {
    use super::from_project;

    #[test]
    fn paths_are_relative_to_the_project() {
        for (prefix, path, expected) in [
            ("", "a/b.c", "a/b.c"),
            ("a/b/", "a/b/c.c", "c.c"),
            ("a/b/", "a/c/d.c", "../c/d.c"),
            ("a/b/", "ab/c.c", "../../ab/c.c"),
            ("a/b/", "x.c", "../../x.c"),
            ("a/b/", "a/b", "../b"),
        ] {
            assert_eq!(from_project(prefix, path), expected, "{prefix} {path}");
        }
    }
}
