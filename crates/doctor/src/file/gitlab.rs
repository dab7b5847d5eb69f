//! Checks GitLab CI files.

use std::collections::BTreeSet;
use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::building::{self, ArtifactUse, BuildPlace, CommandChecker};
use super::container::{self, ContainerVariable};
use super::expand::expand;
use super::image::ImageName;
use super::shell::{self, Dialect, ShellCommand, ShellWord};
use super::text::{ScriptText, SourceText};
use super::tools::{build, gpu, packages};
use super::yaml::{YamlNode, YamlPair, YamlValue};
use super::{fix, script};

/// Top-level keys that are not jobs.
const KEYWORDS: &[&str] = &[
    "default",
    "include",
    "stages",
    "variables",
    "workflow",
    "image",
    "services",
    "cache",
    "before_script",
    "after_script",
    "spec",
    "pages",
];

/// The limit of templates that a job may extend, directly or through others.
const MAX_TEMPLATES: usize = 50;
/// Values of this length or more are not substituted.
const MAX_VALUE_LENGTH: usize = 400;

/// All findings in the documents of a GitLab CI file.
#[must_use]
pub fn check(source: &SourceText, documents: &[Rc<YamlNode>], cuda: &Description) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    // With `spec:`, the first document only declares inputs.
    for document in documents {
        for pair in document.pairs() {
            let is_job = !pair.key.starts_with('.') && !KEYWORDS.contains(&pair.key.as_str());
            if (is_job || pair.key == "pages") && !pair.node.pairs().is_empty() {
                GitlabJob::new(source, document, pair).check(cuda, &mut drafts);
            }
        }
        check_templates(source, document, &mut drafts);
    }
    drafts
}

/// Checks the images of templates and defaults: jobs in other files use them.
fn check_templates(source: &SourceText, document: &YamlNode, drafts: &mut Vec<FindingDraft>) {
    let of_default = document.get("default").into_iter().chain([document]);
    let templates = document.pairs().iter().filter(|pair| pair.key.starts_with('.')).map(|pair| &*pair.node);
    let variables = declared(document);
    for node in of_default.chain(templates) {
        if let Some((image, written, line)) = node.get("image").and_then(|node| read_image(node, &variables))
        {
            drafts.extend(container::image(source, &written, &image, line));
        }
    }
}

/// The variables of a node: plain values, or maps with `value`.
fn declared(node: &YamlNode) -> Vec<ContainerVariable> {
    let pairs = node.get("variables").map(YamlNode::pairs).unwrap_or_default();
    let of_pair = |pair: &YamlPair| {
        let value = pair.node.text().or_else(|| pair.node.text_of("value"))?;
        let is_short = value.len() < MAX_VALUE_LENGTH;
        is_short.then(|| ContainerVariable {
            name: pair.key.clone(),
            value: Some(value.to_owned()),
            line: pair.line,
        })
    };
    pairs.iter().filter_map(of_pair).collect()
}

fn substitute(text: &str, variables: &[ContainerVariable]) -> String {
    let lookup = |name: &str| container::find(variables, name).and_then(|variable| variable.value.clone());
    let once = expand(text, &lookup).text;
    // Values may refer to other variables.
    if once.contains('$') { expand(&once, &lookup).text } else { once }
}

/// The image of a node, as written and as parsed, and its line.
fn read_image(node: &YamlNode, variables: &[ContainerVariable]) -> Option<(ImageName, String, usize)> {
    let node = node.get("name").unwrap_or(node);
    let written = node.text()?;
    let image = ImageName::parse(&substitute(written, variables))?;
    Some((image, written.to_owned(), node.line))
}

/// A job with the templates that it extends.
struct GitlabJob<'a> {
    source: &'a SourceText,
    document: &'a YamlNode,
    /// The job first, then its templates: the first value of a key counts.
    chain: Vec<&'a YamlNode>,
    /// Whether it extends a template of another file.
    is_incomplete: bool,
    variables: Vec<ContainerVariable>,
}

impl<'a> GitlabJob<'a> {
    fn new(source: &'a SourceText, document: &'a YamlNode, job: &'a YamlPair) -> Self {
        let mut chain: Vec<&YamlNode> = Vec::new();
        let mut is_incomplete = document.get("include").is_some();
        let mut known = BTreeSet::new();
        collect(document, &job.node, &mut chain, &mut known, &mut is_incomplete);
        let mut variables = declared(document);
        for node in chain.iter().rev() {
            variables.extend(declared(node));
        }
        // The matrix gives a variable another value in each job.
        for node in chain.iter().filter_map(|node| node.at(&["parallel", "matrix"])) {
            let names: Vec<&String> =
                node.items().iter().flat_map(|entry| entry.pairs()).map(|pair| &pair.key).collect();
            variables.retain(|variable| !names.contains(&&variable.name));
        }
        Self { source, document, chain, is_incomplete, variables }
    }

    /// The value of a key: of the job, of its templates, of `default`, or of the file.
    fn get(&self, key: &str) -> Option<&'a YamlNode> {
        let own = self.chain.iter().find_map(|node| node.get(key));
        own.or_else(|| self.document.at(&["default", key])).or_else(|| {
            matches!(key, "image" | "before_script" | "after_script")
                .then(|| self.document.get(key))
                .flatten()
        })
    }

    /// Whether the job runs on one of GitLab's own machines without a GPU.
    fn is_hosted_without_gpu(&self) -> bool {
        let tags = self.get("tags").map(YamlNode::one_or_many).unwrap_or_default();
        let text = |tag: &&YamlNode| tag.text().unwrap_or_default().to_ascii_lowercase();
        let is_hosted = tags.iter().any(|tag| text(tag).starts_with("saas-"));
        is_hosted && !tags.iter().any(|tag| text(tag).contains("gpu") || text(tag).contains('$'))
    }

    fn check(&self, cuda: &Description, drafts: &mut Vec<FindingDraft>) {
        let image = self.get("image").and_then(|node| read_image(node, &self.variables));
        if let Some((image, written, line)) = &image {
            drafts.extend(container::image(self.source, written, image, *line));
        }
        let gpu = image.as_ref().and_then(|(image, ..)| image.gpu());
        let gpu = gpu.filter(|gpu| gpu.backend == Backend::Cuda);
        let mut has_compiler = gpu.as_ref().and_then(|gpu| gpu.has_toolkit);
        let mut release: Option<Version> = gpu.and_then(|gpu| gpu.version);
        let is_hosted = self.is_hosted_without_gpu();
        let place = if is_hosted { BuildPlace::Job(ArtifactUse::Discarded) } else { BuildPlace::Elsewhere };
        let lookup = |name: &str| {
            let variable = container::find(&self.variables, name)?;
            Some(ShellWord { text: variable.value.clone()?, line: variable.line })
        };
        let origin = |value: &str| {
            let of_value = |one: &&ContainerVariable| one.value.as_deref() == Some(value);
            self.variables.iter().rfind(of_value).map(|one| one.line)
        };
        for command in self.commands() {
            if let Some(toolkit) = packages::toolkit(&command) {
                has_compiler = Some(true);
                release = toolkit.version.filter(|_| !toolkit.is_distribution).or(release);
            } else if matches!(
                command.program(),
                "sh" | "bash" | "source" | "." | "dpkg" | "rpm" | "spack" | "conda"
            ) {
                has_compiler = has_compiler.filter(|has| *has);
            }
            let configuration = build::configuration(&command, &lookup);
            if let (Some(false), Some((image, _, line)), Some(word)) =
                (has_compiler, &image, build::needs_nvcc(&command, configuration.as_ref()))
                && !command.tolerated
            {
                drafts.push(self.missing_compiler(image, *line, &word));
                has_compiler = None;
            }
            let checker = CommandChecker {
                source: self.source,
                cuda,
                place,
                release: release.as_ref(),
                origin: &origin,
            };
            checker.check_command(&command, configuration.as_ref(), &lookup, drafts);
            script::check_docker(self.source, &command, drafts);
            if is_hosted && !self.is_incomplete {
                self.check_gpu_use(&command, drafts);
                if let Some(driver) = packages::driver(&command) {
                    drafts.push(building::driver(self.source, &driver, place));
                }
            }
        }
    }

    /// The commands of all scripts, in the order in which they run. Each script is one shell.
    fn commands(&self) -> Vec<ShellCommand> {
        let mut whole = ScriptText::default();
        for key in ["before_script", "script", "after_script"] {
            if let Some(node) = self.get(key) {
                push_lines(node, &mut whole, 0);
            }
        }
        let lookup =
            |name: &str| container::find(&self.variables, name).and_then(|variable| variable.value.clone());
        shell::commands(&whole, Dialect::Posix, &lookup)
    }

    fn missing_compiler(&self, image: &ImageName, line: usize, word: &ShellWord) -> FindingDraft {
        let flavour = if self.source.line(line).contains("runtime") { "runtime" } else { "base" };
        self.source
            .draft(id!("cuda.toolkit.runtime-only"), Severity::Error, word.line)
            .evidence(self.source.evidence(line))
            .backend(Backend::Cuda)
            .affects(Affects::Build)
            .summary(format!(
                "line {} needs the CUDA compiler, but `{image}` contains only the libraries",
                word.line
            ))
            .fix(fix::replace(self.source, line, flavour, "devel"))
    }

    fn check_gpu_use(&self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let Some(needed) = gpu::gpu_use(command).filter(|one| !command.tolerated && one.is_certain) else {
            return;
        };
        let line = self.get("tags").map_or(command.line, |node| node.line);
        drafts.push(
            self.source
                .draft(id!("file.runner-no-gpu"), Severity::Error, command.line)
                .evidence(self.source.evidence(line))
                .affects(Affects::Run)
                .summary(format!("{} needs a GPU, but the runner of this job does not have one", needed.what))
                .fix(format!("use the tag of a runner with a GPU in line {line}, for example `saas-linux-medium-amd64-gpu-standard`")),
        );
    }
}

/// Collects a job and the templates that it extends. Later templates take precedence over earlier ones.
fn collect<'a>(
    document: &'a YamlNode,
    node: &'a YamlNode,
    chain: &mut Vec<&'a YamlNode>,
    known: &mut BTreeSet<&'a str>,
    is_incomplete: &mut bool,
) {
    chain.push(node);
    let names = node.get("extends").map(YamlNode::one_or_many).unwrap_or_default();
    for name in names.iter().rev().filter_map(|name| name.text()) {
        if chain.len() >= MAX_TEMPLATES || !known.insert(name) {
            continue;
        }
        match document.get(name) {
            Some(template) => collect(document, template, chain, known, is_incomplete),
            None => *is_incomplete = true,
        }
    }
}

/// Appends the lines of a script: a text, or a list of texts and lists.
fn push_lines(node: &YamlNode, script: &mut ScriptText, depth: usize) {
    match &node.value {
        YamlValue::Text { script: text, .. } => {
            for (piece, line) in text.pieces() {
                script.push(line, piece);
            }
            script.push(node.line, "\n");
        }
        // GitLab allows ten levels.
        YamlValue::List(items) if depth < 10 => {
            for item in items {
                push_lines(item, script, depth + 1);
            }
        }
        _ => {}
    }
}
