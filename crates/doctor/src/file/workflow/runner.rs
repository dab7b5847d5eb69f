//! The runner of a job.

use std::collections::BTreeMap;

use gpubuild_detect::finding::{FindingDraft, Severity};
use gpubuild_detect::id;

use super::WorkflowRun;
use super::expression::only_name;
use super::matrix;
use crate::file::fix;
use crate::file::tables::{RetiredRow, tables};
use crate::file::text::{SourceText, sanitize};
use crate::file::yaml::YamlNode;

/// Operating systems of runners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunnerOs {
    Linux,
    Windows,
    Macos,
}

impl RunnerOs {
    /// The value of `runner.os`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::Macos => "macOS",
        }
    }
}

/// The runner of a job, from `runs-on`.
#[derive(Debug, Default)]
pub(super) struct Runner {
    /// Labels and their lines.
    labels: Vec<(String, usize)>,
    /// Whether it is a standard GitHub-hosted runner, which has no GPU for CUDA or ROCm.
    pub(super) is_hosted: bool,
    pub(super) os: Option<RunnerOs>,
    /// The line of its label.
    pub(super) line: usize,
}

impl Runner {
    pub(super) fn new(node: Option<&YamlNode>, run: &WorkflowRun<'_>) -> Self {
        let Some(node) = node else { return Self::default() };
        let values = node.get("labels").unwrap_or(node).one_or_many();
        let mut runner = Self { line: node.line, ..Self::default() };
        for value in values {
            let Some(text) = value.text() else { continue };
            // A matrix value may be a list of labels.
            let path = only_name(text).and_then(|name| name.strip_prefix("matrix."));
            let from_matrix = path.and_then(|path| matrix::value(run.combination, path));
            match from_matrix {
                Some(node) => {
                    let labels = node.one_or_many();
                    runner
                        .labels
                        .extend(labels.iter().filter_map(|one| Some((one.text()?.to_owned(), one.line))));
                }
                None => runner.labels.push((run.substitute(text), value.line)),
            }
        }
        let has = |start: &str| {
            runner.labels.iter().any(|(label, _)| label.to_ascii_lowercase().starts_with(start))
        };
        runner.os = match (has("windows"), has("macos"), has("ubuntu") || has("linux")) {
            (true, false, false) => Some(RunnerOs::Windows),
            (false, true, false) => Some(RunnerOs::Macos),
            (false, false, true) => Some(RunnerOs::Linux),
            _ => None,
        };
        let is_group = node.get("group").is_some();
        runner.is_hosted = !is_group && runner.labels.len() == 1 && is_hosted(&runner.labels[0].0);
        if let [(_, line)] = runner.labels.as_slice() {
            runner.line = *line;
        }
        runner
    }

    /// The labels, for messages.
    pub(super) fn label(&self) -> String {
        let labels: Vec<&str> = self.labels.iter().map(|(label, _)| label.as_str()).collect();
        crate::file::text::sanitize(&labels.join(", "))
    }

    /// The label, if there is exactly one.
    pub(super) fn only_label(&self) -> Option<&str> {
        match self.labels.as_slice() {
            [(label, _)] => Some(label),
            _ => None,
        }
    }

    /// Adds the retired labels of the runner to `list`.
    pub(super) fn collect_retired(&self, list: &mut Retired) {
        let is_self_hosted = self.labels.iter().any(|(label, _)| label == "self-hosted");
        for (label, line) in self.labels.iter().filter(|_| !is_self_hosted) {
            if let Some(row) = tables().retired.iter().find(|row| row.labels.contains(label)) {
                list.entry(*line).or_default().insert(label.clone(), row);
            }
        }
    }
}

/// Retired labels by line. A line of a matrix often contains several.
pub(super) type Retired = BTreeMap<usize, BTreeMap<String, &'static RetiredRow>>;

/// One finding per line with retired labels.
pub(super) fn retired_findings(source: &SourceText, retired: &Retired) -> Vec<FindingDraft> {
    let draft = |(line, labels): (&usize, &BTreeMap<String, &'static RetiredRow>)| {
        let names: Vec<String> = labels
            .iter()
            .map(|(label, row)| format!("`{}` (since {})", sanitize(label), row.until))
            .collect();
        let changes = labels.iter().map(|(label, row)| (label.as_str(), row.instead.as_str()));
        source
            .draft(id!("file.runner-retired"), Severity::Error, *line)
            .summary(format!(
                "GitHub no longer provides {}: the job waits and never starts",
                names.join(", ")
            ))
            .fix(fix::replace_all(source, *line, changes))
    };
    retired.iter().map(draft).collect()
}

/// Whether a label names a standard runner: `ubuntu-latest`, `windows-2022`, `macos-15-intel`, `ubuntu-24.04-arm`, but not
/// `ubuntu-22.04-gpu-t4`.
fn is_hosted(label: &str) -> bool {
    let mut parts = label.split('-');
    let system = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or_default();
    let is_version =
        matches!(version, "latest" | "slim") || version.starts_with(|c: char| c.is_ascii_digit());
    let known_rest = ["arm", "arm64", "intel", "large", "xlarge", "vs2026"];
    matches!(system, "ubuntu" | "windows" | "macos")
        && is_version
        && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        && parts.all(|part| known_rest.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::is_hosted;

    #[test]
    fn standard_runners_are_recognized() {
        for label in [
            "ubuntu-latest",
            "ubuntu-24.04",
            "ubuntu-24.04-arm",
            "windows-2022",
            "windows-11-arm",
            "macos-15-intel",
            "macos-13",
        ] {
            assert!(is_hosted(label), "{label}");
        }
        for label in [
            "self-hosted",
            "ubuntu-22.04-gpu-t4",
            "gpu",
            "windows-gpu",
            "ubuntu",
            "linux-x64",
            "ubuntu-latest-16-cores",
            "",
        ] {
            assert!(!is_hosted(label), "{label}");
        }
    }
}
