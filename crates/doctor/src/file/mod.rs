//! Checks project files for GPU problems: Dockerfiles, compose files, workflows, Kubernetes manifests, devcontainer.json, shell
//! scripts, CMake files and build scripts.
//!
//! The checks are pure: text in, finding drafts out. Each kind of file has a parser that keeps the line number of every value,
//! a model, and checks. The drafts have their own summary and fix, because a fix is usually a corrected line of the file.

pub mod building;
pub mod cmake;
pub mod compose;
pub mod container;
pub mod devcontainer;
pub mod dockerfile;
pub mod expand;
pub mod finding;
pub mod fix;
pub mod gitlab;
pub mod image;
pub mod kind;
pub mod kubernetes;
pub mod script;
pub mod shell;
pub mod tables;
pub mod tags;
pub mod text;
pub mod tools;
pub mod workflow;
pub mod yaml;
mod yaml_repair;

use std::collections::BTreeMap;
use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::{Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

pub use finding::to_finding;
pub use kind::InputKind;
use text::SourceText;

/// A file to check.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// The name that the user gave, for messages and for the kind of the file.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The limit of a file's size in bytes.
pub const MAX_FILE_SIZE: usize = 1 << 20;

/// Why a file can't be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableInput {
    /// The file is larger than [`MAX_FILE_SIZE`].
    #[error("`{0}` is larger than 1024 KiB")]
    Large(String),
    /// The content is not UTF-8 text.
    #[error("`{0}` is not a text file")]
    Binary(String),
    /// Neither the name nor the content shows a supported kind.
    #[error("`{0}` is not a supported kind of file")]
    Unknown(String),
    /// The text does not have the format of its kind.
    #[error("failed to parse `{name}` as a {}: {why}", kind.label())]
    Broken {
        /// The name of the file.
        name: String,
        /// The kind that the name or the content shows.
        kind: InputKind,
        /// The parser's message.
        why: String,
    },
}

impl UnreadableInput {
    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Large(name) | Self::Binary(name) | Self::Unknown(name) | Self::Broken { name, .. } => name,
        }
    }
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
            Self::Unknown(_) => "`--file` accepts Dockerfiles, compose files, GitHub and GitLab workflows, Kubernetes manifests, \
                devcontainer.json, shell scripts, CMake files and build scripts"
                .to_owned(),
            Self::Broken { why, .. } if why.contains("{{") => {
                "render the template first, for example with `helm template`".to_owned()
            }
            Self::Broken { .. } => {
                "correct the file, or rename it so that the name shows its kind".to_owned()
            }
            Self::Large(_) | Self::Binary(_) => {
                "pass the file that defines the container or the job".to_owned()
            }
        })
    }
}

/// The parsed content of a file.
enum FileContent {
    Dockerfile(dockerfile::model::Dockerfile),
    Yaml(Vec<Rc<yaml::YamlNode>>),
    /// A script or CMake file.
    Text(String),
}

struct CheckedFile {
    source: SourceText,
    name: String,
    kind: InputKind,
    content: FileContent,
}

/// The result of checking files.
#[derive(Debug, Default)]
pub struct Examination {
    /// All findings, in the order of the files; within a file by severity and line.
    pub drafts: Vec<FindingDraft>,
    /// The files that could not be checked.
    pub unreadable: Vec<UnreadableInput>,
}

/// The finding about a file that could not be checked, with the message and the hint of the error.
#[must_use]
pub fn not_checked(name: &str, why: &str, hint: Option<String>) -> FindingDraft {
    let place = text::sanitize(name);
    // A long path would displace the cause.
    let short = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let why = if why.chars().count() > 150 { why.replace(name, short) } else { why.to_owned() };
    FindingDraft::new(id!("file.not-checked"))
        .severity(Severity::Error)
        .value("file", place.clone())
        .evidence(Evidence::file(place, text::sanitize(&why)))
        .summary(text::sanitize(&why))
        .fix(hint.unwrap_or_else(|| "correct the file, or omit it".to_owned()))
}

/// Checks files. A file that can't be parsed or whose kind is not supported does not prevent the check of the others.
///
/// Files that refer to each other (compose files of a folder, and the Dockerfiles that they build) are checked together.
#[must_use]
pub fn examine(inputs: &[InputFile], cuda: &Description) -> Examination {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for input in inputs {
        match parse_input(input) {
            Ok(file) => files.push(file),
            Err(error) => unreadable.push(error),
        }
    }
    Examination { drafts: check_all(&files, cuda), unreadable }
}

fn check_all(files: &[CheckedFile], cuda: &Description) -> Vec<FindingDraft> {
    let mut dockerfiles: BTreeMap<String, Backend> = BTreeMap::new();
    for file in files {
        if let FileContent::Dockerfile(dockerfile) = &file.content
            && let Some(gpu) = dockerfile
                .stages
                .len()
                .checked_sub(1)
                .and_then(|last| dockerfile.image(last))
                .and_then(image::ImageName::gpu)
        {
            dockerfiles.insert(normalize(&file.name), gpu.backend);
        }
    }
    let mut all = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let mut drafts = match (&file.content, file.kind) {
            (FileContent::Dockerfile(dockerfile), _) => {
                dockerfile::check::check(&file.source, dockerfile, cuda)
            }
            (FileContent::Yaml(documents), InputKind::Kubernetes) => {
                kubernetes::check(&file.source, documents)
            }
            (FileContent::Yaml(documents), InputKind::Gitlab) => gitlab::check(&file.source, documents, cuda),
            (FileContent::Text(text), InputKind::Cmake) => cmake::check(&file.source, text, cuda),
            (FileContent::Text(text), InputKind::Shell) => script::check_shell(&file.source, text, cuda),
            (FileContent::Text(text), _) => script::check_text(&file.source, text),
            (FileContent::Yaml(documents), kind) => {
                let Some(document) = main_document(kind, documents) else { continue };
                let folder = folder(&file.name);
                match kind {
                    InputKind::Compose => {
                        let services_with_gpu = services_with_gpu(files, index);
                        let related =
                            compose::RelatedFiles { services_with_gpu, dockerfiles: dockerfiles.clone() };
                        compose::check(&file.source, document, &folder, &related)
                    }
                    InputKind::Devcontainer => {
                        devcontainer::check(&file.source, document, &folder, &dockerfiles)
                    }
                    _ => workflow::check(&file.source, document, cuda),
                }
            }
        };
        sort_and_dedup(&mut drafts);
        all.extend(drafts);
    }
    all
}

/// Sorts drafts by severity and line, and removes duplicates: the combinations of a matrix repeat findings.
fn sort_and_dedup(drafts: &mut Vec<FindingDraft>) {
    let line = |draft: &FindingDraft| {
        draft.values.get("line").and_then(|line| line.parse::<usize>().ok()).unwrap_or(0)
    };
    drafts.sort_indirect_by(|left, right| {
        let key = |draft: &FindingDraft| (draft.severity.unwrap_or(Severity::Error), line(draft));
        key(left).cmp(&key(right)).then_with(|| (&left.id, &left.summary).cmp(&(&right.id, &right.summary)))
    });
    drafts.dedup_by(|later, first| {
        later.id == first.id && line(later) == line(first) && later.summary == first.summary
    });
}

/// The services that get a GPU in other compose files in the same folder.
fn services_with_gpu(files: &[CheckedFile], own: usize) -> Vec<String> {
    let own_folder = folder(&files[own].name);
    let others = files.iter().enumerate().filter(|(index, _)| *index != own).map(|(_, file)| file);
    let siblings = others.filter(|file| file.kind == InputKind::Compose && folder(&file.name) == own_folder);
    siblings
        .filter_map(|file| match &file.content {
            FileContent::Yaml(documents) => main_document(file.kind, documents),
            FileContent::Dockerfile(_) | FileContent::Text(_) => None,
        })
        .flat_map(|document| compose::services_with_gpu(document))
        .collect()
}

fn parse_input(input: &InputFile) -> Result<CheckedFile, UnreadableInput> {
    let name = &input.name;
    if input.bytes.len() > MAX_FILE_SIZE {
        return Err(UnreadableInput::Large(name.clone()));
    }
    let bytes = input.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&input.bytes);
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
        InputKind::Shell | InputKind::Cmake | InputKind::BuildScript => FileContent::Text(text.to_owned()),
        _ => FileContent::Yaml(documents(text).map_err(broken)?),
    };
    if let FileContent::Yaml(documents) = &content {
        check_structure(kind, documents).map_err(broken)?;
    }
    Ok(CheckedFile { source: SourceText::new(name, text), name: name.clone(), kind, content })
}

fn documents(text: &str) -> Result<Vec<Rc<yaml::YamlNode>>, String> {
    let list = yaml::parse(text).map_err(|error| {
        let is_template = text.contains("{{") && !text.contains("${{");
        if is_template { format!("{error}; the file contains `{{{{`") } else { error.to_string() }
    })?;
    Ok(list)
}

/// Checks that the content has the top-level keys of its kind.
fn check_structure(kind: InputKind, documents: &[Rc<yaml::YamlNode>]) -> Result<(), String> {
    if documents.is_empty() {
        return Err("it is empty".to_owned());
    }
    if documents.iter().all(|document| document.pairs().is_empty()) {
        return Err("the top-level value is not an object".to_owned());
    }
    let keys = main_keys(kind);
    let is_extension =
        |document: &Rc<yaml::YamlNode>| document.pairs().iter().any(|pair| pair.key.starts_with("x-"));
    let is_match = keys.is_empty()
        || documents.iter().any(|document| keys.iter().any(|key| document.get(key).is_some()))
        || (kind == InputKind::Compose && documents.iter().any(is_extension));
    if is_match { Ok(()) } else { Err(format!("it has no `{}`", keys[0])) }
}

/// The top-level keys of a kind of file, of which at least one is required.
fn main_keys(kind: InputKind) -> &'static [&'static str] {
    match kind {
        InputKind::Compose => {
            &["services", "include", "networks", "volumes", "configs", "secrets", "models", "name"]
        }
        InputKind::Workflow => &["jobs", "runs"],
        InputKind::Kubernetes => &["kind"],
        _ => &[],
    }
}

/// The document with the content: the first one with a key of its kind, or else the first one that is not empty.
fn main_document(kind: InputKind, documents: &[Rc<yaml::YamlNode>]) -> Option<&Rc<yaml::YamlNode>> {
    let has_key = |document: &&Rc<yaml::YamlNode>| {
        main_keys(kind).iter().take(2).any(|key| document.get(key).is_some())
    };
    let is_filled = |document: &&Rc<yaml::YamlNode>| !document.pairs().is_empty();
    documents.iter().find(has_key).or_else(|| documents.iter().find(is_filled))
}

/// The folder of a path, normalized; empty for a bare file name.
fn folder(path: &str) -> String {
    normalize(path).rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

/// Joins a folder and a relative path. Absolute paths are not changed.
fn join(folder: &str, path: &str) -> String {
    let path = path.replace('\\', "/");
    if path.starts_with('/') || folder.is_empty() {
        normalize(&path)
    } else {
        normalize(&format!("{folder}/{path}"))
    }
}

/// A path with `/` as separator, and without `.` and `..`.
fn normalize(path: &str) -> String {
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
