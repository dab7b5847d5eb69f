//! A recording in memory, with the content of format 1: parsed from a file or created by a recorder.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RecordingError;
use super::read::read;
use crate::{CommandOutput, Identity, Owner, Platform, ProbeAnswer, RegistryValue};

/// Everything that is recorded of a machine. Anything else does not exist on the recorded host.
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
    /// Results of child probes, with the backend id.
    pub probes: Vec<(String, ProbeAnswer)>,
    /// Windows registry keys and values.
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

/// A file system entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedEntry {
    /// A folder.
    Directory {
        /// The error code if listing it fails.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A regular file. A file without content exists but cannot be read.
    File {
        /// Its bytes.
        content: Option<Arc<[u8]>>,
        /// Whether this user may execute it.
        executable: bool,
        /// The error code if opening it fails.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A device node.
    Device {
        /// The error code if opening it for reading and writing fails.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A symbolic link. Its target is absolute or relative to the link's folder.
    Link(String),
}

impl RecordedEntry {
    /// A folder that can be listed.
    #[must_use]
    pub fn folder() -> Self {
        Self::Directory { open_error: None, owner: None }
    }

    /// A regular file.
    #[must_use]
    pub fn file(content: Option<&[u8]>) -> Self {
        Self::File { content: content.map(Arc::from), executable: false, open_error: None, owner: None }
    }

    /// An executable file.
    #[must_use]
    pub fn executable(content: Option<&[u8]>) -> Self {
        Self::File { content: content.map(Arc::from), executable: true, open_error: None, owner: None }
    }
}

/// A program with its arguments and result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommand {
    /// The program (an absolute path or a bare name) and its exact arguments.
    pub argv: Vec<String>,
    /// The result of running it.
    pub result: CommandResult,
}

/// The result of running a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandResult {
    /// The program ended.
    Ended(CommandOutput),
    /// The program never ends; running it always times out.
    Hangs,
}

/// A registry key, optionally with one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedKey {
    /// The key: `HKLM\SOFTWARE\…`.
    pub key: String,
    /// Name and value; the default value has an empty name.
    pub value: Option<(String, RegistryValue)>,
}

impl HostRecording {
    /// Parses a recording without checking its entries against each other. `file` is its name in messages.
    ///
    /// # Errors
    /// The first invalid entry, with line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        Ok(read(file, text)?.recording)
    }

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
