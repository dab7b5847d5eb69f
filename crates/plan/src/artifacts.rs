//! The artifact manifest: every file that a build produced, with hash, symbols and provenance. Written by `build`, read by
//! `link`, `run`, `test` and build scripts.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

/// Version of the form of [`Manifest`].
pub const SCHEMA: u32 = 1;

/// Name of the manifest in a project's build folder.
pub const FILE_NAME: &str = "manifest.json";

/// Where a build root keeps its manifest.
#[must_use]
pub fn manifest_path(root: &HostPath) -> HostPath {
    root.join(FILE_NAME)
}

/// Functions with which a program opens modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleLoader {
    /// `void f(const char *folder)` opens all in a folder.
    pub folder: String,
    /// `void *f(const char *file)` opens one; null if it cannot be.
    pub file: String,
    /// `size_t f(void)` counts those that are open.
    pub count: String,
}

/// `manifest.json` in the project's build folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this form.
    pub schema: u32,
    /// Version of gpubuild that wrote it.
    pub gpubuild: String,
    /// Name of the project.
    pub project: String,
    /// The backends whose libraries are in it.
    pub backends: Vec<Backend>,
    /// Functions of the project that open modules, where its backends are modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<ModuleLoader>,
    /// One per CMake tree.
    pub trees: Vec<BuiltTree>,
    /// How cargo links a program with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cargo: Option<CargoLink>,
}

/// What a program that cargo builds on this machine is linked with: `gpubuild-link` prints it in a build script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CargoLink {
    /// Directives without `cargo::`, in order.
    pub lines: Vec<String>,
    /// Folders in which a program finds the project's shared libraries.
    pub search_path: Vec<String>,
    /// The same for a program beside which they lie.
    pub search_path_beside: Vec<String>,
    /// The same where no other folder is known.
    pub search_path_alone: Vec<String>,
    /// What a program needs beside it.
    pub beside: Vec<PlacedLibrary>,
    /// Rust code that opens the backends that are modules, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<String>,
}

/// A file that a program looks for, and its name in the folder of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedLibrary {
    /// Where it was built.
    pub from: String,
    /// Its name there, with the sub-folder of its tree where that has one.
    pub name: String,
}

/// Why there is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Nothing was built yet.
    #[error("there is no `{path}`: nothing was built yet")]
    Missing {
        /// Where it would be.
        path: String,
    },
    /// It cannot be read.
    #[error("failed to read `{path}`: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// A later version wrote it.
    #[error("`{path}` has schema {found}, and this gpubuild reads {SCHEMA}")]
    OtherSchema {
        /// The file.
        path: String,
        /// The number in it.
        found: u32,
    },
}

impl Diagnostic for ManifestError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Missing { .. } => id!("manifest.missing"),
            Self::Unreadable { .. } => id!("manifest.unreadable"),
            Self::OtherSchema { .. } => id!("manifest.other-schema"),
        }
    }
}

impl Manifest {
    /// Takes the libraries of other trees out of its link lines, where those are linked by somebody else.
    pub fn forget(&mut self, others: &[BuiltTree]) {
        let theirs: Vec<&str> =
            others.iter().flat_map(|tree| &tree.link).filter_map(LinkItem::library).collect();
        for tree in &mut self.trees {
            tree.link.retain(|item| item.library().is_none_or(|path| !theirs.contains(&path)));
        }
    }

    /// The manifest in a file.
    pub fn read(host: &dyn ReadFiles, path: &HostPath) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct ManifestHead {
            schema: u32,
        }
        let unreadable = |message: String| ManifestError::Unreadable { path: path.to_string(), message };
        let bytes = host.read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ManifestError::Missing { path: path.to_string() },
            _ => unreadable(error.to_string()),
        })?;
        let head: ManifestHead =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if head.schema != SCHEMA {
            return Err(ManifestError::OtherSchema { path: path.to_string(), found: head.schema });
        }
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))
    }

    /// Publishes it by one rename.
    pub fn write(&self, host: &dyn WriteFiles, path: &HostPath) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        text.push('\n');
        host.write(path, text.as_bytes())
    }

    /// What sources that use the libraries are compiled with, over all trees.
    #[must_use]
    pub fn interface(&self) -> BuiltInterface {
        let mut whole = BuiltInterface::default();
        for tree in &self.trees {
            let lists = [
                (&mut whole.includes, &tree.interface.includes),
                (&mut whole.defines, &tree.interface.defines),
            ];
            for (all, own) in lists {
                for entry in own {
                    if !all.contains(entry) {
                        all.push(entry.clone());
                    }
                }
            }
        }
        whole
    }

    /// Code for GPUs by library, of those that have any.
    #[must_use]
    pub fn device_code(&self) -> BTreeMap<String, Vec<DeviceCode>> {
        let files = self.trees.iter().flat_map(|tree| &tree.files);
        let with_code = files.filter(|file| file.kind != "executable" && !file.device_code.is_empty());
        with_code.map(|file| (file.target.clone(), file.device_code.clone())).collect()
    }
}

/// What one CMake tree produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltTree {
    /// Id of the tree in the plan.
    pub id: String,
    /// Backends in it.
    pub backends: Vec<Backend>,
    /// Folder of its modules inside the folder of all modules, where another tree has one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Hash over everything that went in: options, compilers, environment.
    pub key: String,
    /// Folder with its top `CMakeLists.txt`.
    pub source: String,
    /// Folder that it was built in.
    pub build: String,
    /// Generator.
    pub generator: String,
    /// Version of CMake.
    pub cmake: String,
    /// The cache entries that it was configured with.
    pub cache: BTreeMap<String, String>,
    /// Files built, in link order where that matters.
    pub files: Vec<Artifact>,
    /// What a program puts on its link line, in order, as CMake worked it out.
    pub link: Vec<LinkItem>,
    /// Compilers by language, as CMake identified them.
    pub compilers: BTreeMap<String, Compiler>,
    /// Which sources were compiled for which instruction set: what `gpubuild audit` holds the machine code against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compile: Vec<CompileGroup>,
    /// The entries of the configured cache that promise instruction sets, those with a project's own defaults as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub promises: BTreeMap<String, String>,
    /// Backends of the project in it that gpubuild has no toolkit for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// What has to agree with another copy of the same library before both may meet in one program: definitions with their
    /// values, hashes of headers, the version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub abi: BTreeMap<String, String>,
    /// What sources of others are compiled with to use it, as CMake worked it out.
    #[serde(default, skip_serializing_if = "BuiltInterface::is_empty")]
    pub interface: BuiltInterface,
}

/// What sources that use a tree's libraries are compiled with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltInterface {
    /// Folders with headers, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub includes: Vec<String>,
    /// `NAME` or `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defines: Vec<String>,
}

impl BuiltInterface {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.includes.is_empty() && self.defines.is_empty()
    }
}

/// Sources of a target that were compiled with the same flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileGroup {
    /// CMake target.
    pub target: String,
    /// `C`, `CXX`, `CUDA`.
    pub language: String,
    /// Those of the flags that decide which instructions may be used: `-mavx2`, `/arch:AVX2`.
    pub flags: Vec<String>,
    /// Names of the source files, without their folders: object files are named after them.
    pub sources: Vec<String>,
}

/// A file that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// CMake target.
    pub target: String,
    /// `static`, `shared`, `module`, `executable`.
    pub kind: String,
    /// Absolute path.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// For static libraries, how many global symbols they define.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<u64>,
    /// Code for GPUs in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_code: Vec<DeviceCode>,
}

/// Code for one architecture of GPUs in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCode {
    /// `sm_90`, `compute_90`, `gfx90a`.
    pub arch: String,
    /// `sass`, `ptx`, `lto`, `code-object`.
    pub kind: String,
    /// Bytes that it takes in the file, compressed as it is.
    pub bytes: u64,
}

/// One thing on a link line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LinkItem {
    /// A static library that was built, by path.
    Static {
        /// Absolute path.
        path: String,
    },
    /// A shared library, by path.
    Shared {
        /// Absolute path.
        path: String,
    },
    /// A system library by name: `m`, `dl`, `stdc++`.
    System {
        /// Without `lib` and suffix.
        name: String,
    },
    /// An Apple framework.
    Framework {
        /// Its name.
        name: String,
    },
    /// Anything else that the linker has to get: `-fopenmp`.
    Argument {
        /// As it is written.
        text: String,
    },
    /// A folder for libraries that are named without one.
    Search {
        /// Absolute path.
        path: String,
    },
}

impl LinkItem {
    /// The path of a library that was built.
    fn library(&self) -> Option<&str> {
        match self {
            Self::Static { path } | Self::Shared { path } => Some(path),
            _ => None,
        }
    }
}

/// A compiler as CMake identified it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// `GNU`, `Clang`, `NVIDIA`, `MSVC`.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Its path.
    pub path: String,
}
