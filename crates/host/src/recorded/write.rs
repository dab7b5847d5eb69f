//! Writes a recording as text in format 1.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde::Serialize;

use super::format::SCHEMA;
use super::visible::visible;
use super::{CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedKey};
use crate::{Owner, Platform, ProbeAnswer, ProbeStatus, RegistryType};

#[derive(Serialize)]
struct WrittenHost<'a> {
    schema: &'static str,
    platform: Platform,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<WrittenProcess<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    file: Vec<WrittenFile<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<WrittenCommand<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    probe: Vec<Probe<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    registry: Vec<WrittenRegistry<'a>>,
}

#[derive(Serialize)]
struct WrittenProcess<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    groups: &'a [u32],
}

#[derive(Default, Serialize)]
struct WrittenFile<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<WrittenOwner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize)]
struct WrittenOwner {
    uid: u32,
    gid: u32,
}

#[derive(Serialize)]
struct WrittenCommand<'a> {
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
struct WrittenRegistry<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<RegistryType>,
}

impl HostRecording {
    /// Serializes the recording in format 1, without hidden characters and commands of CI services.
    ///
    /// # Panics
    /// Never: every recording can be represented as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let process = (self.identity.uid.is_some() || !self.identity.groups.is_empty())
            .then(|| WrittenProcess { uid: self.identity.uid, groups: &self.identity.groups });
        let document = WrittenHost {
            schema: SCHEMA,
            platform: self.platform,
            env: &self.env,
            process,
            file: self.files.iter().map(file).collect(),
            command: self.commands.iter().map(command).collect(),
            probe: self.probes.iter().map(probe).collect(),
            registry: self.registry.iter().map(registry).collect(),
        };
        let text = toml::to_string_pretty(&document);
        visible(&text.expect("a recording consists of strings, numbers and tables"))
    }
}

fn file(recorded: &RecordedFile) -> WrittenFile<'_> {
    let table = WrittenFile { path: &recorded.path, ..WrittenFile::default() };
    let owner = |owner: &Option<Owner>| owner.map(|Owner { uid, gid }| WrittenOwner { uid, gid });
    match &recorded.entry {
        RecordedEntry::Link(target) => WrittenFile { link: Some(target), ..table },
        RecordedEntry::Directory { open_error, owner: by } => WrittenFile {
            kind: Some("directory"),
            open_error: open_error.as_deref(),
            owner: owner(by),
            ..table
        },
        RecordedEntry::Device { open_error, owner: by } => {
            WrittenFile { kind: Some("device"), open_error: open_error.as_deref(), owner: owner(by), ..table }
        }
        RecordedEntry::File { content, executable, open_error, owner: by } => {
            let text = content.as_deref().and_then(as_text);
            let bytes = content.as_deref().filter(|_| text.is_none());
            WrittenFile {
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

/// The content as text, if TOML preserves it. TOML may normalize `\r`, so such content is encoded as base64.
pub(crate) fn as_text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')).then_some(text)
}

fn command(recorded: &RecordedCommand) -> WrittenCommand<'_> {
    let table =
        WrittenCommand { argv: &recorded.argv, stdout: "", stderr: "", exit: None, signal: None, hang: None };
    match &recorded.result {
        CommandResult::Hangs => WrittenCommand { hang: Some(true), ..table },
        CommandResult::Ended(output) => WrittenCommand {
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

fn registry(recorded: &RecordedKey) -> WrittenRegistry<'_> {
    let (name, value) =
        recorded.value.as_ref().map_or((None, None), |(name, value)| (Some(name), Some(value)));
    WrittenRegistry {
        key: &recorded.key,
        name: name.map(String::as_str),
        value: value.map(|value| value.text.as_str()),
        kind: value.map(|value| value.kind).filter(|kind| *kind != RegistryType::Sz),
    }
}
