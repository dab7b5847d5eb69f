//! What a job runs on.

use std::collections::BTreeMap;

use gpubuild_detect::finding::{FindingDraft, Severity};
use gpubuild_detect::id;

use super::WorkflowRun;
use super::expression::only_name;
use super::matrix;
use crate::file::say;
use crate::file::tables::{RetiredRow, tables};
use crate::file::text::{Sheet, shown};
use crate::file::yaml::YamlNode;

/// Operating systems of runners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunnerOs {
    Linux,
    Windows,
    Macos,
}

impl RunnerOs {
    /// As `runner.os` says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::Macos => "macOS",
        }
    }
}

/// A runner.
#[derive(Debug, Default)]
pub(super) struct Runner {
    labels: Vec<(String, usize)>,
    /// Whether it is one of GitHub's standard machines, which have no GPU for CUDA or ROCm.
    pub(super) is_hosted: bool,
    pub(super) os: Option<RunnerOs>,
    /// The line that names it.
    pub(super) line: usize,
}

impl Runner {
    pub(super) fn new(node: Option<&YamlNode>, run: &WorkflowRun<'_>) -> Self {
        let Some(node) = node else { return Self::default() };
        let values = node.get("labels").unwrap_or(node).one_or_many();
        let mut runner = Self { line: node.line, ..Self::default() };
        for value in values {
            let Some(text) = value.text() else { continue };
            // A matrix may give a list of labels.
            let path = only_name(text).and_then(|name| name.strip_prefix("matrix."));
            let from_matrix = path.and_then(|path| matrix::value(run.combination, path));
            match from_matrix {
                Some(node) => {
                    let labels = node.one_or_many();
                    runner
                        .labels
                        .extend(labels.iter().filter_map(|one| Some((one.text()?.to_owned(), one.line))));
                }
                None => runner.labels.push((run.fill(text), value.line)),
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

    /// Its labels for people.
    pub(super) fn label(&self) -> String {
        let labels: Vec<&str> = self.labels.iter().map(|(label, _)| label.as_str()).collect();
        crate::file::text::shown(&labels.join(", "))
    }

    /// The label, if it is only one.
    pub(super) fn only_label(&self) -> Option<&str> {
        match self.labels.as_slice() {
            [(label, _)] => Some(label),
            _ => None,
        }
    }

    /// Adds the labels whose machines are gone.
    pub(super) fn retired(&self, list: &mut Retired) {
        let is_own = self.labels.iter().any(|(label, _)| label == "self-hosted");
        for (label, line) in self.labels.iter().filter(|_| !is_own) {
            if let Some(row) = tables().retired.iter().find(|row| row.labels.contains(label)) {
                list.entry(*line).or_default().insert(label.clone(), row);
            }
        }
    }
}

/// Labels whose machines are gone, by line: a matrix often has several in one.
pub(super) type Retired = BTreeMap<usize, BTreeMap<String, &'static RetiredRow>>;

/// One finding per line.
pub(super) fn told(sheet: &Sheet, retired: &Retired) -> Vec<FindingDraft> {
    let tell = |(line, labels): (&usize, &BTreeMap<String, &'static RetiredRow>)| {
        let names: Vec<String> = labels.keys().map(|label| format!("`{}`", shown(label))).collect();
        let since: Vec<&str> = labels.values().map(|row| row.until.as_str()).collect();
        let changes = labels.iter().map(|(label, row)| (label.as_str(), row.instead.as_str()));
        sheet
            .draft(id!("file.runner-retired"), Severity::Error, *line)
            .summary(format!(
                "GitHub has no machines for {} since {}: the job waits and never starts",
                names.join(", "),
                since.join(", ")
            ))
            .fix(say::replace_all(sheet, *line, changes))
    };
    retired.iter().map(tell).collect()
}

/// `ubuntu-latest`, `windows-2022`, `macos-15-intel`, `ubuntu-24.04-arm`: not `ubuntu-22.04-gpu-t4`.
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
    fn standard_machines_are_known() {
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
