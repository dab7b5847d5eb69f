//! The parts of `gpubuild build`'s manifest (`docs/reference/json.md`) that this crate reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::{self, LinkStamp};

/// The schema version that this crate reads.
const SCHEMA: u64 = 1;

/// The result of a build.
pub(crate) struct LinkManifest {
    pub(crate) project: String,
    pub(crate) backends: Vec<String>,
    pub(crate) files: Vec<ManifestFile>,
    /// Constants and versions that affect the structures of known libraries.
    pub(crate) interface: BTreeMap<String, String>,
    pub(crate) cargo: Cargo,
    /// The build folders of its CMake trees.
    builds: Vec<PathBuf>,
}

/// A file of the build.
pub(crate) struct ManifestFile {
    pub(crate) path: PathBuf,
    pub(crate) is_static: bool,
    bytes: u64,
    sha256: String,
}

/// How cargo links a program.
#[derive(Default)]
pub(crate) struct Cargo {
    /// Directives without the `cargo::` prefix, in order.
    pub(crate) lines: Vec<String>,
    /// Folders with the project's shared libraries, for the program's run-time search path.
    pub(crate) search_path: Vec<String>,
    /// The same, if the libraries are copied beside the program.
    pub(crate) search_path_beside: Vec<String>,
    /// The same, if no other folder is known.
    pub(crate) search_path_alone: Vec<String>,
    /// Files that a program needs beside it: the built file, and its name beside the program.
    pub(crate) beside: Vec<(PathBuf, String)>,
    /// Rust code that opens the backend modules.
    pub(crate) modules: Option<String>,
}

/// Why the manifest cannot be used.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file does not exist: nothing was built yet.
    Missing,
    /// It cannot be read.
    Unreadable(String),
    /// Another version of gpubuild wrote it, with an incompatible schema.
    Version(String),
}

impl ReadError {
    pub(crate) fn id(&self) -> &'static str {
        match self {
            Self::Missing => "manifest.missing",
            Self::Unreadable(_) => "manifest.unreadable",
            Self::Version(_) => "manifest.other-schema",
        }
    }

    pub(crate) fn message(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Missing => format!("`{path}` does not exist: nothing was built yet"),
            Self::Unreadable(message) => format!("failed to read `{path}`: {message}"),
            Self::Version(message) => format!("`{path}` {message}"),
        }
    }
}

impl LinkManifest {
    pub(crate) fn read(path: &Path) -> Result<Self, ReadError> {
        let manifest = Self::read_any(path)?;
        match manifest {
            (manifest, true) => Ok(manifest),
            (_, false) => {
                Err(ReadError::Version("has no lines for cargo: an older gpubuild wrote it".to_owned()))
            }
        }
    }

    /// The manifest, and whether it has lines for cargo. The manifest of a `Build` in another crate may lack them.
    pub(crate) fn read_any(path: &Path) -> Result<(Self, bool), ReadError> {
        let bytes = files::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Unreadable(error.to_string()),
        })?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))?;
        let found = value["schema"].as_u64();
        if found != Some(SCHEMA) {
            let found = found.map_or("(none)".to_owned(), |found| found.to_string());
            return Err(ReadError::Version(format!(
                "has schema {found}, but this gpubuild-link reads schema {SCHEMA}"
            )));
        }
        Self::parse(&value).ok_or_else(|| ReadError::Unreadable("it is not a manifest".to_owned()))
    }

    fn parse(value: &Value) -> Option<(Self, bool)> {
        let mut manifest = Self {
            project: value["project"].as_str()?.to_owned(),
            backends: strings(&value["backends"])?,
            files: Vec::new(),
            interface: BTreeMap::new(),
            cargo: Cargo::default(),
            builds: Vec::new(),
        };
        for tree in value["trees"].as_array()? {
            manifest.builds.push(tree["build"].as_str()?.into());
            for (name, value) in tree["abi"].as_object().into_iter().flatten() {
                // Names with a dot are headers, with their hashes as values.
                if !name.contains('.') {
                    manifest.interface.insert(name.clone(), value.as_str()?.to_owned());
                }
            }
            for file in tree["files"].as_array()? {
                manifest.files.push(ManifestFile {
                    path: file["path"].as_str()?.into(),
                    is_static: file["kind"] == "static",
                    bytes: file["bytes"].as_u64()?,
                    sha256: file["sha256"].as_str()?.to_owned(),
                });
            }
        }
        let cargo = &value["cargo"];
        if cargo.is_object() {
            manifest.cargo = Cargo::parse(cargo)?;
        }
        Some((manifest, cargo.is_object()))
    }

    /// The first file that is missing or whose content changed since the build. A file whose size and times are those that the
    /// build recorded is not read.
    pub(crate) fn changed(&self) -> Option<&Path> {
        let stamps: Vec<Value> = self.builds.iter().filter_map(|build| stamps(build)).collect();
        let is_intact = |file: &ManifestFile| {
            let Some(now) = files::stamp(&file.path) else { return false };
            let name = file.path.to_str().unwrap_or_default();
            let left = stamps.iter().find_map(|stamps| stamp(&stamps["outputs"][name]));
            left == Some(now) || (now.size == file.bytes && files::has_hash(&file.path, &file.sha256))
        };
        self.files.iter().find(|file| !is_intact(file)).map(|file| file.path.as_path())
    }
}

/// The sizes and times that the build recorded in a tree's folder.
fn stamps(build: &Path) -> Option<Value> {
    serde_json::from_slice(&files::read(&build.join("gpubuild/stamp.json")).ok()?).ok()
}

fn stamp(value: &Value) -> Option<LinkStamp> {
    let number = |name: &str| value[name].as_u64();
    Some(LinkStamp {
        size: number("size")?,
        modified: number("modified")?.into(),
        changed: number("changed")?.into(),
    })
}

impl Cargo {
    fn parse(value: &Value) -> Option<Self> {
        let beside = value["beside"]
            .as_array()?
            .iter()
            .map(|file| Some((PathBuf::from(file["from"].as_str()?), file["name"].as_str()?.to_owned())));
        Some(Self {
            lines: strings(&value["lines"])?,
            search_path: strings(&value["search_path"])?,
            search_path_beside: strings(&value["search_path_beside"])?,
            search_path_alone: strings(&value["search_path_alone"])?,
            beside: beside.collect::<Option<_>>()?,
            modules: value["modules"].as_str().map(str::to_owned),
        })
    }
}

pub(crate) fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}
