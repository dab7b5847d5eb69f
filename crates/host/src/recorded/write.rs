//! From the value of a recording to its text in format 1.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde::Serialize;

use super::format::SCHEMA;
use super::{CommandResult, Entry, RecordedCommand, RecordedFile, RecordedKey, Recording};
use crate::{Owner, Platform, ProbeAnswer, ProbeStatus, RegistryType};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    platform: Platform,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    file: Vec<File<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<Command<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    probe: Vec<Probe<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    registry: Vec<Registry<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    groups: &'a [u32],
}

#[derive(Default, Serialize)]
struct File<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize)]
struct OwnerTable {
    uid: u32,
    gid: u32,
}

#[derive(Serialize)]
struct Command<'a> {
    argv: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    stdout: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stderr: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hang: Option<bool>,
}

#[derive(Serialize)]
struct Probe<'a> {
    id: &'a str,
    status: ProbeStatus,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    answer: &'a str,
}

#[derive(Serialize)]
struct Registry<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<RegistryType>,
}

impl Recording {
    /// The text of a file in format 1.
    ///
    /// # Panics
    /// Never: everything in a recording has a form in TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let process = (self.identity.uid.is_some() || !self.identity.groups.is_empty())
            .then(|| Process { uid: self.identity.uid, groups: &self.identity.groups });
        let document = Document {
            schema: SCHEMA,
            platform: self.platform,
            env: &self.env,
            process,
            file: self.files.iter().map(file).collect(),
            command: self.commands.iter().map(command).collect(),
            probe: self.probes.iter().map(probe).collect(),
            registry: self.registry.iter().map(registry).collect(),
        };
        toml::to_string_pretty(&document).expect("texts, numbers and tables")
    }
}

fn file(recorded: &RecordedFile) -> File<'_> {
    let table = File { path: &recorded.path, ..File::default() };
    let owner = |owner: &Option<Owner>| owner.map(|Owner { uid, gid }| OwnerTable { uid, gid });
    match &recorded.entry {
        Entry::Link(target) => File { link: Some(target), ..table },
        Entry::Directory { open_error, owner: by } => {
            File { kind: Some("directory"), open_error: open_error.as_deref(), owner: owner(by), ..table }
        }
        Entry::Device { open_error, owner: by } => {
            File { kind: Some("device"), open_error: open_error.as_deref(), owner: owner(by), ..table }
        }
        Entry::File { content, executable, open_error, owner: by } => {
            let text = content.as_deref().and_then(as_text);
            let bytes = content.as_deref().filter(|_| text.is_none());
            File {
                kind: executable.then_some("executable"),
                open_error: open_error.as_deref(),
                owner: owner(by),
                text,
                base64: bytes.map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
                ..table
            }
        }
    }
}

/// Content that TOML can hold and give back unchanged: it may normalise a lone `\r`.
pub(crate) fn as_text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')).then_some(text)
}

fn command(recorded: &RecordedCommand) -> Command<'_> {
    let table =
        Command { argv: &recorded.argv, stdout: "", stderr: "", exit: None, signal: None, hang: None };
    match &recorded.result {
        CommandResult::Hangs => Command { hang: Some(true), ..table },
        CommandResult::Ended(output) => Command {
            stdout: &output.stdout,
            stderr: &output.stderr,
            exit: output.exit.filter(|_| output.signal.is_none()),
            signal: output.signal,
            ..table
        },
    }
}

fn probe((id, answer): &(String, ProbeAnswer)) -> Probe<'_> {
    Probe { id, status: answer.status, error: &answer.error, answer: &answer.answer }
}

fn registry(recorded: &RecordedKey) -> Registry<'_> {
    let (name, value) =
        recorded.value.as_ref().map_or((None, None), |(name, value)| (Some(name), Some(value)));
    Registry {
        key: &recorded.key,
        name: name.map(String::as_str),
        value: value.map(|value| value.text.as_str()),
        kind: value.map(|value| value.kind).filter(|kind| *kind != RegistryType::Sz),
    }
}
