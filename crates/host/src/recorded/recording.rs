//! A recording as a value: what format 1 says, before it is made into a host and after one was recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Identity, Output, Owner, Platform, ProbeAnswer, RegistryValue};

/// Everything that is known of a recorded machine. What is not in it does not exist there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Operating system and architecture.
    pub platform: Platform,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Who asks.
    pub identity: Identity,
    /// Files, folders, links and devices. Folders above them exist by implication.
    pub files: Vec<RecordedFile>,
    /// Programs with what they answered.
    pub commands: Vec<RecordedCommand>,
    /// By backend id: what its child probe answered.
    pub probes: Vec<(String, ProbeAnswer)>,
    /// Windows registry.
    pub registry: Vec<RecordedKey>,
}

/// Something at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    /// Absolute.
    pub path: String,
    /// What stands there.
    pub entry: Entry,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Directory {
        /// What listing it answers, if not its names.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A regular file. Without content it is there but can't be read.
    File {
        /// Its bytes.
        content: Option<Arc<[u8]>>,
        /// Whether this user may execute it.
        executable: bool,
        /// What opening it answers, if not its content.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A device node.
    Device {
        /// What opening it for reading and writing answers, if it does not open.
        open_error: Option<String>,
        /// Its owner.
        owner: Option<Owner>,
    },
    /// A link with its target, absolute or relative to its own folder.
    Link(String),
}

impl Entry {
    /// A folder without anything particular.
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

/// A program with its arguments and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommand {
    /// The program, absolute or a bare name, and its exact arguments.
    pub argv: Vec<String>,
    /// What came of it.
    pub result: CommandResult,
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandResult {
    /// It ended.
    Ended(Output),
    /// It never ends.
    Hangs,
}

/// A key of the registry, with one of its values if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedKey {
    /// `HKLM\SOFTWARE\…`.
    pub key: String,
    /// Name and value; the default value has an empty name.
    pub value: Option<(String, RegistryValue)>,
}

impl Recording {
    /// An empty machine.
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
