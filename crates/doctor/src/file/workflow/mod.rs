//! Checks GitHub Actions workflows and composite actions.

mod actions;
pub mod expression;
pub mod matrix;
mod runner;
mod steps;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::building::ArtifactUse;
use super::container::{self, ContainerVariable};
use super::image::ImageName;
use super::text::SourceText;
use super::yaml::YamlNode;
use expression::ExpressionValue;
use matrix::Combination;
use runner::{Runner, RunnerOs};

/// Values of this length or more are not substituted, so that a file can't expand without bound.
const MAX_VALUE_LENGTH: usize = 400;

/// All findings in a workflow.
#[must_use]
pub fn check(source: &SourceText, document: &YamlNode, cuda: &Description) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut retired = runner::Retired::new();
    for job in document.get("jobs").map(YamlNode::pairs).unwrap_or_default() {
        let steps = job.node.get("steps");
        let combinations = matrix::combinations(job.node.at(&["strategy", "matrix"]));
        // Limit the work: large jobs are checked for fewer combinations.
        let size = steps.map_or(1, script_size).max(1);
        for combination in combinations.iter().take((4_000_000 / size).max(1)) {
            let run = WorkflowRun::new(source, cuda, document, &job.node, combination);
            run.runner.collect_retired(&mut retired);
            run.check(&mut drafts);
        }
    }
    drafts.extend(runner::retired_findings(source, &retired));
    if let Some(runs) = document.get("runs") {
        let combination = Combination::new();
        let run = WorkflowRun::new(source, cuda, document, runs, &combination);
        run.check(&mut drafts);
    }
    drafts
}

fn script_size(steps: &YamlNode) -> usize {
    steps.items().iter().filter_map(|step| step.text_of("run")).map(str::len).sum()
}

/// A job with one combination of its matrix values.
struct WorkflowRun<'a> {
    source: &'a SourceText,
    cuda: &'a Description,
    job: &'a YamlNode,
    combination: &'a Combination,
    runner: Runner,
    /// The environment variables of the workflow and the job.
    env: Vec<ContainerVariable>,
    container: Option<JobContainer>,
}

/// The container that a job runs in.
struct JobContainer {
    image: ImageName,
    line: usize,
    /// The value of `options`, and its line.
    options: Option<(String, usize)>,
}

impl<'a> WorkflowRun<'a> {
    fn new(
        source: &'a SourceText,
        cuda: &'a Description,
        document: &'a YamlNode,
        job: &'a YamlNode,
        combination: &'a Combination,
    ) -> Self {
        let mut run = Self {
            source,
            cuda,
            job,
            combination,
            runner: Runner::default(),
            env: Vec::new(),
            container: None,
        };
        run.runner = Runner::new(job.get("runs-on"), &run);
        for node in [document, job].into_iter().filter_map(|node| node.get("env")) {
            let own = run.variables(node);
            run.env.extend(own);
        }
        run.container = run.read_container();
        run
    }

    fn read_container(&self) -> Option<JobContainer> {
        let node = self.job.get("container")?;
        let image = node.get("image").unwrap_or(node);
        let options = node.get("options").and_then(|node| Some((self.substitute(node.text()?), node.line)));
        let text = self.substitute(image.text()?);
        Some(JobContainer { image: ImageName::parse(&text)?, line: self.line_of(image), options })
    }

    fn variables(&self, node: &YamlNode) -> Vec<ContainerVariable> {
        let mut list = container::variables(node);
        for variable in &mut list {
            variable.value = variable
                .value
                .take()
                .map(|value| self.substitute(&value))
                .filter(|value| !value.contains("${{"));
        }
        list
    }

    /// The value of a context name in an expression: `matrix.os`, `env.X`, `runner.os`.
    fn lookup(&self, name: &str) -> ExpressionValue {
        if let Some(path) = name.strip_prefix("matrix.") {
            return match matrix::value(self.combination, path) {
                Some(node) => node.text().filter(|text| text.len() < MAX_VALUE_LENGTH).map_or(
                    ExpressionValue::Unknown,
                    |text| match text {
                        "true" => ExpressionValue::Bool(true),
                        "false" => ExpressionValue::Bool(false),
                        "" | "null" => ExpressionValue::Null,
                        text => ExpressionValue::Text(text.to_owned()),
                    },
                ),
                None if self.combination.is_empty() => ExpressionValue::Unknown,
                None => ExpressionValue::Null,
            };
        }
        if let Some(name) = name.strip_prefix("env.") {
            let value = container::find(&self.env, name).and_then(|variable| variable.value.clone());
            return value
                .filter(|value| value.len() < MAX_VALUE_LENGTH)
                .map_or(ExpressionValue::Unknown, ExpressionValue::Text);
        }
        match (name, self.runner.os) {
            ("runner.os", Some(os)) => ExpressionValue::Text(os.name().to_owned()),
            _ => ExpressionValue::Unknown,
        }
    }

    /// Substitutes the expressions in a text.
    fn substitute(&self, text: &str) -> String {
        expression::substitute(text, &|name| self.lookup(name))
    }

    /// The line of a value; its line in the matrix if the value is a matrix expression.
    fn line_of(&self, node: &YamlNode) -> usize {
        let name = node.text().and_then(expression::only_name);
        let path = name.and_then(|name| name.strip_prefix("matrix."));
        path.and_then(|path| matrix::value(self.combination, path)).map_or(node.line, |node| node.line)
    }

    /// The line of a value in the matrix.
    fn origin(&self, value: &str) -> Option<usize> {
        let of_node = |node: &std::rc::Rc<YamlNode>| {
            let own = (node.text() == Some(value)).then_some(node.line);
            own.or_else(|| {
                node.pairs().iter().find(|pair| pair.node.text() == Some(value)).map(|pair| pair.line)
            })
        };
        self.combination.values().find_map(of_node)
    }

    fn check(&self, drafts: &mut Vec<FindingDraft>) {
        let condition = self.job.text_of("if").filter(|text| !text.is_empty());
        if condition.and_then(|text| expression::holds(text, &|name| self.lookup(name))) == Some(false) {
            return;
        }
        if let Some(container) = &self.container {
            self.check_container(container, drafts);
        }
        steps::Steps::new(self).check(drafts);
    }

    fn check_container(&self, container: &JobContainer, drafts: &mut Vec<FindingDraft>) {
        let tag = container.image.tag.as_deref().unwrap_or_default();
        let written = if tag.is_empty() { container.image.repository.as_str() } else { tag };
        let name = container.image.to_string();
        let line = self.source.line(container.line);
        let written = if line.contains(&name) { name.as_str() } else { written };
        drafts.extend(container::image(self.source, written, &container.image, container.line));
        let Some((options, line)) = &container.options else { return };
        if self.runner.is_hosted && (options.contains("--gpus") || options.contains("--runtime=nvidia")) {
            drafts.push(
                self.source
                    .draft(id!("file.runner-no-gpu"), Severity::Error, *line)
                    .evidence(self.source.evidence(self.runner.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Run)
                    .summary(format!(
                        "`{}` has no GPU, but the container options request one",
                        self.runner.label()
                    ))
                    .fix(format!(
                        "run the job on a machine with a GPU: change line {} to `runs-on: [self-hosted, gpu]`",
                        self.runner.line
                    )),
            );
        }
    }

    /// What happens to the files that the job builds.
    fn artifact_use(&self) -> ArtifactUse {
        let steps = self.job.get("steps").map(YamlNode::items).unwrap_or_default();
        let of_step = |step: &std::rc::Rc<YamlNode>| {
            let uses = step.text_of("uses").unwrap_or_default();
            let run = step.text_of("run").unwrap_or_default();
            let publishers = [
                "gh-release",
                "release-action",
                "build-push-action",
                "gh-action-pypi-publish",
                "upload-release",
            ];
            let commands = ["gh release", "twine upload", "docker push", "uv publish"];
            if publishers.iter().any(|name| uses.contains(name))
                || commands.iter().any(|text| run.contains(text))
            {
                ArtifactUse::Published
            } else if uses.contains("upload-artifact") {
                ArtifactUse::Kept
            } else {
                ArtifactUse::Discarded
            }
        };
        steps.iter().map(of_step).max().unwrap_or(ArtifactUse::Discarded)
    }

    fn is_windows(&self) -> bool {
        self.runner.os == Some(RunnerOs::Windows)
    }
}
