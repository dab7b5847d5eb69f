//! The table `[project]` of pyproject.toml (PEP 621), and the metadata of a wheel (PEP 643, version 2.4). Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_core::text::python_package;
use serde::Deserialize;

use super::WheelError;
use super::fields::{self, FieldKind};
use super::variant::LabelledVariant;

/// Name of the file with the metadata.
pub const FILE_NAME: &str = "pyproject.toml";
/// Keys of [project] that may be dynamic: a build may add to requirements, and a file may contain the version.
const DYNAMIC: [&str; 3] = ["dependencies", "optional-dependencies", "version"];
/// The version of the metadata format.
const METADATA_VERSION: &str = "2.4";

#[derive(Deserialize)]
struct PyProject {
    project: Option<PythonProject>,
}

/// The table `[project]`. Other tables and keys belong to other tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PythonProject {
    /// Name on the package index.
    pub name: String,
    version: Option<String>,
    description: Option<String>,
    /// The description's file or text.
    pub readme: Option<Readme>,
    /// The supported versions of Python: `>=3.9`.
    pub requires_python: Option<String>,
    license: Option<License>,
    /// Patterns of licence files, relative to the project.
    pub license_files: Option<Vec<String>>,
    #[serde(default)]
    authors: Vec<Person>,
    #[serde(default)]
    maintainers: Vec<Person>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    classifiers: Vec<String>,
    #[serde(default)]
    urls: BTreeMap<String, String>,
    #[serde(default)]
    scripts: BTreeMap<String, String>,
    #[serde(default)]
    gui_scripts: BTreeMap<String, String>,
    #[serde(default)]
    entry_points: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) dependencies: Vec<String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    dynamic: Vec<String>,
}

/// `readme`: a file, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Readme {
    /// A file, whose ending denotes its type.
    File(String),
    /// A file or a text with its type.
    Table(ReadmeTable),
}

/// `readme` as a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReadmeTable {
    file: Option<String>,
    text: Option<String>,
    content_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum License {
    /// An SPDX expression.
    Expression(String),
    /// The older form.
    Table(LicenseTable),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct LicenseTable {
    text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Person {
    name: Option<String>,
    email: Option<String>,
}

/// What a wheel adds to the metadata of its project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedMetadata {
    /// The variant, if its wheel is distinguished from others.
    pub variant: Option<Distinction>,
    /// Lines for `Requires-Dist`.
    pub requires: Vec<String>,
    /// More of them for an extra, which is declared even without requirements.
    pub extra: Option<(&'static str, Vec<String>)>,
    /// Fields that another wheel of the same source distribution may have more of, for its `PKG-INFO`.
    pub dynamic: &'static [&'static str],
    /// Paths of licence files.
    pub licences: Vec<String>,
    /// The text of the description's file.
    pub readme: Option<String>,
}

/// How the wheel of a variant differs from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distinction {
    /// In its local version.
    Version(String),
    /// In its name.
    Name(String),
    /// In the label of a variant wheel.
    Label(LabelledVariant),
}

/// Reads the table of a project. `version` is the one of a project whose version is dynamic.
///
/// # Errors
/// The file is invalid, or name or version are missing.
pub fn parse(text: &str, path: &str, version: Option<String>) -> Result<PythonProject, WheelError> {
    let invalid = |what: String| WheelError::Metadata { path: path.to_owned(), what };
    let file: PyProject = gpubuild_toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let mut project = file.project.ok_or_else(|| invalid("the table [project] is missing".to_owned()))?;
    if let Some(key) = project.dynamic.iter().find(|key| !DYNAMIC.contains(&key.as_str())) {
        return Err(invalid(format!("`{key}` is dynamic, which is not supported")));
    }
    if project.is_dynamic("version") && project.version.is_some() {
        return Err(invalid("`version` has a value, and `dynamic` lists it".to_owned()));
    }
    project.version = project.version.or(version);
    project.checked().map_err(invalid)
}

impl PythonProject {
    fn checked(self) -> Result<Self, String> {
        if self.version.as_deref().unwrap_or_default().is_empty() {
            return Err("`version` is missing".to_owned());
        }
        for (kind, text) in self.fields() {
            kind.check(text)?;
        }
        Ok(self)
    }

    /// The texts that become lines of metadata.
    fn fields(&self) -> Vec<(FieldKind, &str)> {
        use FieldKind::{
            Conditions, ContentType, EntryGroup, EntryName, EntryTarget, Licence, Name, Requirement, Text,
            Version,
        };
        let mut fields: Vec<(FieldKind, &str)> = vec![(Name, &self.name)];
        fields.extend(of(Version, self.version.iter()));
        fields.extend(of(Conditions, self.requires_python.iter()));
        fields.extend(of(Text, self.description.iter().chain(&self.keywords).chain(&self.classifiers)));
        fields.extend(of(Text, self.urls.iter().flat_map(|(name, url)| [name, url])));
        let people = self.authors.iter().chain(&self.maintainers);
        fields.extend(of(Text, people.flat_map(|person| [&person.name, &person.email]).flatten()));
        let optional = &self.optional_dependencies;
        fields.extend(of(Name, optional.keys()));
        fields.extend(of(Requirement, self.dependencies.iter().chain(optional.values().flatten())));
        fields.extend(of(EntryGroup, self.entry_points.keys()));
        for (name, target) in self.entry_points.values().chain([&self.scripts, &self.gui_scripts]).flatten() {
            fields.extend([(EntryName, name.as_str()), (EntryTarget, target.as_str())]);
        }
        if let Some(License::Expression(text)) = &self.license {
            fields.push((Licence, text));
        }
        if let Some(Readme::Table(ReadmeTable { content_type: Some(text), .. })) = &self.readme {
            fields.push((ContentType, text));
        }
        fields
    }

    /// The name of a wheel's project.
    #[must_use]
    pub fn name_of(&self, variant: Option<&Distinction>) -> String {
        match variant {
            Some(Distinction::Name(label)) => format!("{}-{}", self.name, label.replace(['_', '.'], "-")),
            _ => self.name.clone(),
        }
    }

    /// The version of a wheel.
    #[must_use]
    pub fn version_of(&self, variant: Option<&Distinction>) -> String {
        let version = normalized(self.version.as_deref().unwrap_or_default());
        match variant {
            Some(Distinction::Version(label)) => {
                let separator = if version.contains('+') { '.' } else { '+' };
                format!("{version}{separator}{}", label.replace('_', "."))
            }
            _ => version,
        }
    }

    /// Name and version as they begin the names of files: `llama_cpp-1.0`.
    #[must_use]
    pub fn file_stem(&self, variant: Option<&Distinction>) -> String {
        let name = python_package(&self.name_of(variant)).replace('-', "_");
        format!("{name}-{}", self.version_of(variant))
    }

    /// The file of the description.
    #[must_use]
    pub fn readme_file(&self) -> Option<&str> {
        match self.readme.as_ref()? {
            Readme::File(file) => Some(file),
            Readme::Table(table) => table.file.as_deref(),
        }
    }

    /// The text of `METADATA` or `PKG-INFO`.
    #[must_use]
    pub fn metadata(&self, added: &AddedMetadata) -> String {
        let variant = added.variant.as_ref();
        let mut lines = vec![
            ("Metadata-Version", METADATA_VERSION.to_owned()),
            ("Name", self.name_of(variant)),
            ("Version", self.version_of(variant)),
        ];
        let mut add = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
        add("Summary", self.description.clone());
        add("Keywords", (!self.keywords.is_empty()).then(|| self.keywords.join(",")));
        people(&self.authors, ("Author", "Author-email"), &mut add);
        people(&self.maintainers, ("Maintainer", "Maintainer-email"), &mut add);
        match &self.license {
            Some(License::Expression(text)) => add("License-Expression", Some(text.clone())),
            // Continuation lines are indented, as in mails.
            Some(License::Table(table)) => {
                add("License", table.text.as_ref().map(|text| fields::lines(text).join("\n        ")));
            }
            None => {}
        }
        added.licences.iter().for_each(|path| add("License-File", Some(path.clone())));
        self.classifiers.iter().for_each(|text| add("Classifier", Some(text.clone())));
        self.urls.iter().for_each(|(name, url)| add("Project-URL", Some(format!("{name}, {url}"))));
        add("Requires-Python", self.requires_python.clone());
        self.dependencies
            .iter()
            .chain(&added.requires)
            .for_each(|text| add("Requires-Dist", Some(text.clone())));
        for (extra, dependencies) in self.extras(added) {
            add("Provides-Extra", Some(extra.clone()));
            for text in dependencies {
                add("Requires-Dist", Some(of_extra(text, &extra)));
            }
        }
        added.dynamic.iter().for_each(|field| add("Dynamic", Some((*field).to_owned())));
        let text = self.description_text(added);
        add("Description-Content-Type", text.as_ref().map(|(kind, _)| kind.clone()));
        let mut metadata = String::new();
        for (name, value) in lines {
            let _ = writeln!(metadata, "{name}: {value}");
        }
        if let Some((_, text)) = text {
            let _ = write!(metadata, "\n{text}");
        }
        metadata
    }

    /// The requirements by extra.
    fn extras<'a>(&'a self, added: &'a AddedMetadata) -> BTreeMap<String, Vec<&'a String>> {
        let own = self.optional_dependencies.iter().map(|(extra, list)| (extra.as_str(), list));
        let added = added.extra.iter().map(|(extra, list)| (*extra, list));
        let mut extras: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for (extra, list) in own.chain(added) {
            extras.entry(python_package(extra)).or_default().extend(list);
        }
        extras
    }

    /// Whether the builds of the project may add to a key of `project`.
    #[must_use]
    pub fn is_dynamic(&self, key: &str) -> bool {
        self.dynamic.iter().any(|other| other == key)
    }

    /// The description with its type.
    fn description_text(&self, added: &AddedMetadata) -> Option<(String, String)> {
        let (text, kind) = match self.readme.as_ref()? {
            Readme::File(file) => (added.readme.clone()?, kind_of(file)),
            Readme::Table(table) => {
                let text = table.text.clone().or_else(|| added.readme.clone())?;
                let kind = table.content_type.clone();
                (text, kind.unwrap_or_else(|| kind_of(table.file.as_deref().unwrap_or_default())))
            }
        };
        Some((kind, text))
    }

    /// The text of `entry_points.txt`; `None` without entry points.
    #[must_use]
    pub fn entry_points_text(&self) -> Option<String> {
        let scripts = [("console_scripts", &self.scripts), ("gui_scripts", &self.gui_scripts)];
        let others = self.entry_points.iter().map(|(group, entries)| (group.as_str(), entries));
        let groups: Vec<_> =
            scripts.into_iter().chain(others).filter(|(_, entries)| !entries.is_empty()).collect();
        let mut text = String::new();
        for (group, entries) in &groups {
            let _ = writeln!(text, "[{group}]");
            for (name, target) in *entries {
                let _ = writeln!(text, "{name} = {target}");
            }
        }
        (!groups.is_empty()).then_some(text)
    }

    /// The oldest supported minor version of Python 3, from `requires-python`.
    #[must_use]
    pub fn oldest_python(&self) -> Option<u64> {
        let parts = self.requires_python.as_deref()?.split(',');
        parts
            .filter_map(|part| {
                part.trim().strip_prefix(">=")?.trim().strip_prefix("3.")?.split('.').next()?.parse().ok()
            })
            .max()
    }
}

fn of<'a>(
    kind: FieldKind,
    texts: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = (FieldKind, &'a str)> {
    texts.map(move |text| (kind, text.as_str()))
}

/// Names without an address and addresses have separate keys.
fn people(
    list: &[Person],
    (name, email): (&'static str, &'static str),
    add: &mut impl FnMut(&'static str, Option<String>),
) {
    let join = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join(", "));
    let names = list.iter().filter(|person| person.email.is_none()).filter_map(|person| person.name.clone());
    let emails = list.iter().filter_map(|person| {
        let address = person.email.as_ref()?;
        Some(person.name.as_ref().map_or_else(|| address.clone(), |name| format!("{name} <{address}>")))
    });
    add(name, join(names.collect()));
    add(email, join(emails.collect()));
}

/// A requirement that applies to an extra only.
fn of_extra(requirement: &str, extra: &str) -> String {
    // In a URL, only a semicolon after a space begins the condition.
    let split =
        if requirement.contains('@') { requirement.split_once(" ;") } else { requirement.split_once(';') };
    match split {
        Some((what, condition)) => format!("{}; ({}) and extra == '{extra}'", what.trim(), condition.trim()),
        None => format!("{}; extra == '{extra}'", requirement.trim()),
    }
}

fn kind_of(file: &str) -> String {
    let ending = file.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let kind = match ending.as_str() {
        "md" => "text/markdown",
        "rst" => "text/x-rst",
        _ => "text/plain",
    };
    kind.to_owned()
}

/// The version without leading zeros, as installers write it: `2024.1.5` for `2024.01.5`.
fn normalized(version: &str) -> String {
    let part = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let short = text.trim_start_matches('0');
        if is_number {
            if short.is_empty() { "0".to_owned() } else { short.to_owned() }
        } else {
            text.to_owned()
        }
    };
    version.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
