//! A recording as a value, with the content of format 1: parsed from a file or made by a recorder.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{CommandOutput, Identity, Owner, Platform, ProbeAnswer, RegistryValue};

/// Everything that is recorded of a machine. What it does not contain does not exist there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecording {
    /// Operating system and architecture.
    pub platform: Platform,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// The user and groups.
    pub identity: Identity,
    /// Files, folders, links and devices. Their parent folders are implied.
    pub files: Vec<RecordedFile>,
    /// Programs with their output.
    pub commands: Vec<RecordedCommand>,
    /// The answers of child probes, by backend id.
    pub probes: Vec<(String, ProbeAnswer)>,
    /// Keys and values of the Windows registry.
    pub registry: Vec<RecordedKey>,
}

/// An entry and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    /// The absolute path.
    pub path: String,
    /// The entry at this path.
    pub entry: RecordedEntry,
}

/// What exists at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedEntry {
    /// A folder.
    Directory {
        /// The error when it is listed, if any.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A regular file. Without content it exists but cannot be read.
    File {
        /// Its bytes.
        content: Option<Arc<[u8]>>,
        /// Whether this user may execute it.
        executable: bool,
        /// The error when it is opened, if any.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A device node.
    Device {
        /// The error when it is opened for reading and writing, if any.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A link with its target, absolute or relative to the link's folder.
    Link(String),
}

impl RecordedEntry {
    /// A folder without further properties.
    #[must_use]
    pub fn folder() -> Self {
        Self::Directory { open_error: None, owner: None }
    }

    /// A regular file.
    #[must_use]
    pub fn file(content: Option<&[u8]>) -> Self {
        Self::File { content: content.map(Arc::from), executable: false, open_error: None, owner: None }
    }

    /// A program.
    #[must_use]
    pub fn executable(content: Option<&[u8]>) -> Self {
        Self::File { content: content.map(Arc::from), executable: true, open_error: None, owner: None }
    }
}

/// A program with its arguments and result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommand {
    /// The program, absolute or a name without a folder, and its exact arguments.
    pub argv: Vec<String>,
    /// The result of running it.
    pub result: CommandResult,
}

/// The result of running a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandResult {
    /// It ended.
    Ended(CommandOutput),
    /// It never ends.
    Hangs,
}

/// A registry key, optionally with one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedKey {
    /// The path: `HKLM\SOFTWARE\…`.
    pub key: String,
    /// Name and value; the default value has an empty name.
    pub value: Option<(String, RegistryValue)>,
}

impl HostRecording {
    /// An empty recording.
    #[must_use]
    pub fn new(platform: Platform) -> Self {
        Self {
            platform,
            env: BTreeMap::new(),
            identity: Identity::default(),
            files: Vec::new(),
            commands: Vec::new(),
            probes: Vec::new(),
            registry: Vec::new(),
        }
    }
}
