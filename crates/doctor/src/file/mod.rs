//! Files as patients: what is wrong for GPUs in a Dockerfile, a compose file, a workflow, a manifest.
//!
//! Pure: text in, findings out. Each kind has a parser that keeps the line of every piece, a model, and checks that hand
//! over drafts with their own words, because a fix is a corrected line of the file.

pub mod building;
pub mod compose;
pub mod container;
pub mod devcontainer;
pub mod dockerfile;
pub mod expand;
pub mod image;
pub mod kind;
pub mod kubernetes;
pub mod say;
pub mod shell;
pub mod tables;
pub mod tags;
pub mod tell;
pub mod text;
pub mod tools;
pub mod workflow;
pub mod yaml;

use std::collections::BTreeMap;
use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::{FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

pub use kind::InputKind;
pub use tell::tell;
use text::Sheet;

/// A file that is looked at.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// The name under which it was asked for.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The largest file that is read.
pub const LARGEST: usize = 1 << 20;

/// Why a file can't be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableInput {
    /// Too large.
    #[error("`{0}` is larger than 1024 KiB")]
    Large(String),
    /// No text.
    #[error("`{0}` is not a text file")]
    Binary(String),
    /// No kind that is known.
    #[error("`{0}` is no file that is known here")]
    Unknown(String),
    /// The text is not of its kind.
    #[error("`{name}` can't be read as a {}: {why}", kind.label())]
    Broken {
        /// The file.
        name: String,
        /// What it was taken for.
        kind: InputKind,
        /// What is wrong.
        why: String,
    },
}

impl Diagnostic for UnreadableInput {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Large(_) => id!("file.too-large"),
            Self::Binary(_) => id!("file.binary"),
            Self::Unknown(_) => id!("file.kind-unknown"),
            Self::Broken { .. } => id!("file.unreadable"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown(_) => "`--file` takes Dockerfiles, compose files, workflows and actions of GitHub, Kubernetes manifests and devcontainer.json".to_owned(),
            Self::Broken { why, .. } if why.contains("{{") => "render the template first, as `helm template` does".to_owned(),
            Self::Broken { .. } => "correct the line, or give the file a name that tells what it is".to_owned(),
            Self::Large(_) | Self::Binary(_) => "name the file that the container or the job is made from".to_owned(),
        })
    }
}

/// A file after it was read.
enum FileContent {
    Dockerfile(dockerfile::model::Dockerfile),
    Yaml(Vec<Rc<yaml::YamlNode>>),
}

struct Chart {
    sheet: Sheet,
    name: String,
    kind: InputKind,
    content: FileContent,
}

/// Every finding in the files, those of a file together: errors first, then by line.
///
/// # Errors
/// The first file that can't be read or whose kind is not known.
pub fn examine(patients: &[InputFile], cuda: &Description) -> Result<Vec<FindingDraft>, UnreadableInput> {
    let charts = patients.iter().map(read).collect::<Result<Vec<Chart>, UnreadableInput>>()?;
    let mut dockerfiles: BTreeMap<String, Backend> = BTreeMap::new();
    for chart in &charts {
        if let FileContent::Dockerfile(file) = &chart.content
            && let Some(gpu) = file
                .stages
                .len()
                .checked_sub(1)
                .and_then(|last| file.image(last))
                .and_then(image::ImageName::gpu)
        {
            dockerfiles.insert(normal(&chart.name), gpu.backend);
        }
    }
    let mut all = Vec::new();
    for (index, chart) in charts.iter().enumerate() {
        let mut drafts = match (&chart.content, chart.kind) {
            (FileContent::Dockerfile(file), _) => dockerfile::check::check(&chart.sheet, file, cuda),
            (FileContent::Yaml(documents), InputKind::Kubernetes) => {
                kubernetes::check(&chart.sheet, documents)
            }
            (FileContent::Yaml(documents), kind) => {
                let Some(document) = documents.first() else { continue };
                let folder = folder(&chart.name);
                match kind {
                    InputKind::Compose => {
                        let served = served(&charts, index);
                        let others = compose::Others { served, dockerfiles: dockerfiles.clone() };
                        compose::check(&chart.sheet, document, &folder, &others)
                    }
                    InputKind::Devcontainer => {
                        devcontainer::check(&chart.sheet, document, &folder, &dockerfiles)
                    }
                    _ => workflow::check(&chart.sheet, document, cuda),
                }
            }
        };
        settle(&mut drafts);
        all.extend(drafts);
    }
    Ok(all)
}

/// Every draft once, in order. A matrix makes the same one many times.
fn settle(drafts: &mut Vec<FindingDraft>) {
    let line = |draft: &FindingDraft| {
        draft.values.get("line").and_then(|line| line.parse::<usize>().ok()).unwrap_or(0)
    };
    drafts.sort_by(|left, right| {
        let key = |draft: &FindingDraft| (draft.severity.unwrap_or(Severity::Error), line(draft));
        key(left).cmp(&key(right)).then_with(|| (&left.id, &left.summary).cmp(&(&right.id, &right.summary)))
    });
    drafts.dedup_by(|later, first| {
        later.id == first.id && line(later) == line(first) && later.summary == first.summary
    });
}

/// The services that other compose files of the same folder give a GPU to.
fn served(charts: &[Chart], own: usize) -> Vec<String> {
    let here = folder(&charts[own].name);
    let others = charts.iter().enumerate().filter(|(index, _)| *index != own).map(|(_, chart)| chart);
    let near = others.filter(|chart| chart.kind == InputKind::Compose && folder(&chart.name) == here);
    near.filter_map(|chart| match &chart.content {
        FileContent::Yaml(documents) => documents.first(),
        FileContent::Dockerfile(_) => None,
    })
    .flat_map(|document| compose::served(document))
    .collect()
}

fn read(patient: &InputFile) -> Result<Chart, UnreadableInput> {
    let name = &patient.name;
    if patient.bytes.len() > LARGEST {
        return Err(UnreadableInput::Large(name.clone()));
    }
    let bytes = patient.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&patient.bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| UnreadableInput::Binary(name.clone()))?;
    if text.contains('\0') {
        return Err(UnreadableInput::Binary(name.clone()));
    }
    let kind = kind::by_name(name)
        .or_else(|| kind::by_content(text))
        .ok_or_else(|| UnreadableInput::Unknown(name.clone()))?;
    let broken = |why: String| UnreadableInput::Broken { name: name.clone(), kind, why };
    let content = match kind {
        InputKind::Dockerfile => {
            let instructions = dockerfile::parse::parse(text).map_err(|error| broken(error.to_string()))?;
            FileContent::Dockerfile(dockerfile::model::Dockerfile::new(&instructions))
        }
        InputKind::Devcontainer => {
            FileContent::Yaml(documents(&devcontainer::without_comments(text)).map_err(broken)?)
        }
        _ => FileContent::Yaml(documents(text).map_err(broken)?),
    };
    if let FileContent::Yaml(documents) = &content {
        expect(kind, documents).map_err(broken)?;
    }
    Ok(Chart { sheet: Sheet::new(name, text), name: name.clone(), kind, content })
}

fn documents(text: &str) -> Result<Vec<Rc<yaml::YamlNode>>, String> {
    let list = yaml::parse(text).map_err(|error| {
        let is_template = text.contains("{{") && !text.contains("${{");
        if is_template { format!("{error}; it has `{{{{` in it") } else { error.to_string() }
    })?;
    Ok(list)
}

/// A name that promises a kind which the content is not.
fn expect(kind: InputKind, documents: &[Rc<yaml::YamlNode>]) -> Result<(), String> {
    let Some(first) = documents.first() else { return Err("it is empty".to_owned()) };
    if first.pairs().is_empty() {
        return Err("it is no object".to_owned());
    }
    let keys: &[&str] = match kind {
        InputKind::Compose => &["services", "include", "networks", "volumes"],
        InputKind::Workflow => &["jobs", "runs"],
        InputKind::Kubernetes => &["kind"],
        InputKind::Devcontainer | InputKind::Dockerfile => &[],
    };
    let is_there = keys.is_empty()
        || documents.iter().any(|document| keys.iter().any(|key| document.get(key).is_some()));
    if is_there { Ok(()) } else { Err(format!("it has no `{}`", keys[0])) }
}

/// The folder of a path as it was given.
fn folder(path: &str) -> String {
    normal(path).rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

/// A path below a folder.
fn join(folder: &str, path: &str) -> String {
    let path = path.replace('\\', "/");
    if path.starts_with('/') || folder.is_empty() {
        normal(&path)
    } else {
        normal(&format!("{folder}/{path}"))
    }
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| *last != ".." && !last.is_empty()) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
