//! Checks actions that install toolkits.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::WorkflowRun;
use super::runner::RunnerOs;
use crate::file::tables::{ActionRow, tables};
use crate::file::text::sanitize;
use crate::file::yaml::YamlNode;

/// The CUDA toolkit that an action installs.
#[derive(Debug, Default)]
pub(super) struct ActionToolkit {
    /// Whether the action installs a CUDA toolkit.
    pub(super) is_cuda: bool,
    /// The release, if known.
    pub(super) release: Option<Version>,
    /// The line of a `sub-packages` list without the Visual Studio integration.
    pub(super) without_studio: Option<usize>,
}

/// Checks a step and returns the toolkit that it installs.
pub(super) fn check(run: &WorkflowRun<'_>, step: &YamlNode, drafts: &mut Vec<FindingDraft>) -> ActionToolkit {
    let Some(node) = step.get("uses") else { return ActionToolkit::default() };
    let Some((name, reference)) = node.text().and_then(|text| text.split_once('@')) else {
        return ActionToolkit::default();
    };
    let Some(row) = tables().action.iter().find(|row| row.name.eq_ignore_ascii_case(name)) else {
        return ActionToolkit::default();
    };
    drafts.extend(unpinned(run, row, reference, node.line));
    let input = |name: &str| {
        step.at(&["with", name])
            .map(|node| (run.substitute(node.text().unwrap_or_default()), run.line_of(node)))
    };
    let version = input(&row.input);
    drafts.extend(missing_version(run, row, version.as_ref(), node.line));
    let release = version.and_then(|(text, _)| text.trim().trim_start_matches('v').parse().ok());
    let is_cuda = row.backend == Backend::Cuda;
    let mut installed = ActionToolkit { is_cuda, release: release.filter(|_| is_cuda), without_studio: None };
    if is_cuda && let Some((parts, line)) = input("sub-packages").filter(|(parts, _)| parts.contains('"')) {
        let method = input("method").map_or_else(|| "local".to_owned(), |(method, _)| method);
        if run.runner.os == Some(RunnerOs::Linux) && method == "local" {
            drafts.push(
                run.source
                    .draft(id!("file.action-method"), Severity::Error, line)
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary("on Linux, `sub-packages` requires the method `network`")
                    .fix(format!("add `method: network` to the inputs in line {line}")),
            );
        }
        if run.is_windows() && !parts.contains("visual_studio_integration") {
            installed.without_studio = Some(line);
        }
    }
    installed
}

/// Reports a branch or tag as reference: both can move.
fn unpinned(run: &WorkflowRun<'_>, row: &ActionRow, reference: &str, line: usize) -> Option<FindingDraft> {
    let is_commit = reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        return None;
    }
    let is_branch = matches!(reference, "master" | "main" | "develop" | "dev" | "latest" | "HEAD");
    let severity = if is_branch { Severity::Warning } else { Severity::Info };
    let kind = if is_branch { "branch" } else { "tag" };
    let reference = sanitize(reference);
    Some(
        run.source
            .draft(id!("file.action-unpinned"), severity, line)
            .backend(row.backend)
            .affects(Affects::Build)
            .summary(format!("`{}@{reference}` is a {kind}: its content can change at any time", row.name))
            .fix(format!(
                "replace `{reference}` in line {line} with the commit hash and add the release as a comment; `git ls-remote https://github.com/{} {reference}` prints the hash",
                row.name
            )),
    )
}

/// Reports an action without a fixed toolkit version.
fn missing_version(
    run: &WorkflowRun<'_>,
    row: &ActionRow,
    version: Option<&(String, usize)>,
    line: usize,
) -> Option<FindingDraft> {
    let is_unset = version.is_none_or(|(text, _)| text.trim().is_empty() || text.trim() == "latest");
    if !is_unset {
        return None;
    }
    let fix = match version {
        Some((_, line)) => format!("change line {line} to `{}: '{}'`", row.input, row.example),
        None => format!("add `{}: '{}'` to the inputs in line {line}", row.input, row.example),
    };
    Some(
        run.source
            .draft(id!("file.action-version"), Severity::Warning, version.map_or(line, |(_, line)| *line))
            .backend(row.backend)
            .affects(Affects::Build)
            .summary(format!("`{}` has no fixed version and installs its newest release", row.name))
            .fix(fix),
    )
}
