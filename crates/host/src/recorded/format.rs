//! The serialized types of format 1. The other modules interpret them.

use serde::Deserialize;
use toml::Spanned;

use super::RecordingError;
use crate::{Arch, Identity, Os, ProbeStatus, RegistryType};

/// The supported format.
pub(super) const SCHEMA: &str = "gpubuild.host/1";
const SCHEMA_FAMILY: &str = "gpubuild.host/";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedHostFile {
    #[serde(rename = "schema")]
    pub(super) _schema: String,
    pub(super) platform: PlatformTable,
    #[serde(default)]
    pub(super) env: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub(super) file: Vec<Spanned<FileTable>>,
    #[serde(default)]
    pub(super) command: Vec<Spanned<CommandTable>>,
    #[serde(default)]
    pub(super) probe: Vec<Spanned<ProbeTable>>,
    #[serde(default)]
    pub(super) registry: Vec<Spanned<RegistryTable>>,
    pub(super) process: Option<IdentityTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlatformTable {
    pub(super) os: Os,
    pub(super) arch: Arch,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileTableKind {
    #[default]
    File,
    Executable,
    Directory,
    Device,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnerTable {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub(super) path: Spanned<String>,
    pub(super) kind: Option<FileTableKind>,
    pub(super) text: Option<String>,
    pub(super) base64: Option<Spanned<String>>,
    pub(super) link: Option<String>,
    pub(super) open_error: Option<String>,
    pub(super) owner: Option<OwnerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    pub(super) argv: Spanned<Vec<String>>,
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
    pub(super) exit: Option<i32>,
    #[serde(default)]
    pub(super) hang: bool,
    pub(super) signal: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeTable {
    pub(super) id: Spanned<String>,
    pub(super) status: ProbeStatus,
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) answer: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryTable {
    pub(super) key: Spanned<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) value: Option<Spanned<RegistryText>>,
    #[serde(default, rename = "type")]
    pub(super) kind: RegistryType,
}

/// A registry value: a string, or for convenience a TOML integer or array of strings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RegistryText {
    Text(String),
    Number(u64),
    Texts(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityTable {
    pub(super) uid: Option<u32>,
    #[serde(default)]
    pub(super) groups: Vec<u32>,
}

impl From<IdentityTable> for Identity {
    fn from(table: IdentityTable) -> Self {
        Self { uid: table.uid, groups: table.groups }
    }
}

/// Parses a file. The schema is checked first, because keys of a newer format would otherwise be reported as unknown.
pub(super) fn parse(file: &str, text: &str) -> Result<RecordedHostFile, RecordingError> {
    #[derive(Deserialize)]
    struct RecordingSchema {
        schema: Option<Spanned<String>>,
    }
    const HINT: &str = "docs/reference/recorded-hosts.md describes every key; `gpubuild host record FILE` writes a complete recording";
    let from_toml = |error: &gpubuild_toml::TomlError| {
        RecordingError::new(file, text, error.span(), lowercase_start(error.message()), HINT)
    };
    let schema: RecordingSchema = gpubuild_toml::from_str(text).map_err(|error| from_toml(&error))?;
    let Some(schema) = schema.schema else {
        let hint = format!("write `schema = \"{SCHEMA}\"` on the first line");
        return Err(RecordingError::new(
            file,
            text,
            Some(0..0),
            "`schema` is missing, so this is not a recorded host",
            hint,
        ));
    };
    if schema.get_ref() != SCHEMA {
        let number =
            schema.get_ref().strip_prefix(SCHEMA_FAMILY).and_then(|number| number.parse::<u32>().ok());
        let (what, hint) = match number {
            Some(number) if number > 1 => (
                format!("recorded-host format {number} is too new: this version of gpubuild reads format 1"),
                "update gpubuild, or record the host again with this version".to_owned(),
            ),
            _ => (
                format!("`{}` is not a recorded-host format", schema.get_ref()),
                format!("this version of gpubuild reads `{SCHEMA}`"),
            ),
        };
        return Err(RecordingError::new(file, text, Some(schema.span()), what, hint));
    }
    gpubuild_toml::from_str(text).map_err(|error| from_toml(&error))
}

/// Converts the first letter to lowercase, as in gpubuild's own messages.
fn lowercase_start(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
