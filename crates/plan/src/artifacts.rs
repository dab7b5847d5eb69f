//! The artifact manifest: every file that a build produced, with hash, symbols and provenance. `build` writes it; `link`,
//! `run`, `test` and build scripts read it.

use std::collections::BTreeMap;

use gpubuild_core::Os;
use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use crate::target::PlannedTarget;

/// Version of the format of [`Manifest`].
pub const SCHEMA: u32 = 1;

/// Name of the manifest in a project's build folder.
pub const FILE_NAME: &str = "manifest.json";

/// Path of the manifest in a build folder.
#[must_use]
pub fn manifest_path(root: &HostPath) -> HostPath {
    root.join(FILE_NAME)
}

/// Names of the project's C functions that load modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModuleLoader {
    /// `void f(const char *folder)` loads all modules in a folder.
    pub folder: String,
    /// `void *f(const char *file)` loads one module; null if it cannot be loaded.
    pub file: String,
    /// `size_t f(void)` returns the number of loaded backends.
    pub count: String,
}

/// `manifest.json` in the project's build folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Version of this format.
    pub schema: u32,
    /// Version of gpubuild that wrote it.
    pub gpubuild: String,
    /// Name of the project.
    pub project: String,
    /// The backends that were built.
    pub backends: Vec<Backend>,
    /// Functions of the project that load modules, if its backends are modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<ModuleLoader>,
    /// The platform that it was built for; absent for the build machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PlannedTarget>,
    /// Results by CMake tree.
    pub trees: Vec<BuiltTree>,
    /// How cargo links a program with the libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cargo: Option<CargoLink>,
}

/// Link directives for programs that cargo builds on this machine. `gpubuild-link` prints them in a build script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CargoLink {
    /// Directives without the `cargo::` prefix, in order.
    pub lines: Vec<String>,
    /// Run-time search path of a program that is not moved: the folders in which the shared libraries were built.
    pub search_path: Vec<String>,
    /// Run-time search path of a program with the shared libraries next to it.
    pub search_path_beside: Vec<String>,
    /// Run-time search path of a distributed program: its own folder and `../lib`.
    pub search_path_alone: Vec<String>,
    /// Files to copy next to the program.
    pub beside: Vec<PlacedLibrary>,
    /// Rust code that loads the backend modules, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<String>,
}

/// A file that is copied next to a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacedLibrary {
    /// Path of the built file.
    pub from: String,
    /// Path relative to the program's folder; includes the subfolder of its tree, if the tree has one.
    pub name: String,
}

/// A manifest that is missing or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The file does not exist.
    #[error("`{path}` does not exist: nothing was built yet")]
    Missing {
        /// Expected path.
        path: String,
    },
    /// The file cannot be read or parsed.
    #[error("failed to read `{path}`: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system or the parser.
        message: String,
    },
    /// A different version of gpubuild wrote the file.
    #[error("`{path}` has schema {found}, but this version of gpubuild reads schema {SCHEMA}")]
    OtherSchema {
        /// The file.
        path: String,
        /// Its schema.
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
    /// The operating system that it was built for; `host` is that of the build machine.
    #[must_use]
    pub fn os(&self, host: Os) -> Os {
        self.target.as_ref().map_or(host, |target| target.os)
    }

    /// Removes the libraries that `others` link from this manifest's link lines, so that a program links them only once.
    pub fn remove_linked_by(&mut self, others: &[BuiltTree]) {
        let theirs: Vec<&str> =
            others.iter().flat_map(|tree| &tree.link).filter_map(LinkItem::library).collect();
        for tree in &mut self.trees {
            tree.link.retain(|item| item.library().is_none_or(|path| !theirs.contains(&path)));
        }
    }

    /// Reads and parses a manifest file.
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

    /// Writes the manifest to a file, replacing it by a rename.
    pub fn write(&self, host: &dyn WriteFiles, path: &HostPath) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        text.push('\n');
        host.write(path, text.as_bytes())
    }

    /// Include folders and definitions for sources that use the libraries, merged over all trees.
    #[must_use]
    pub fn interface(&self) -> BuiltInterface {
        let mut merged = BuiltInterface::default();
        for tree in &self.trees {
            let lists = [
                (&mut merged.includes, &tree.interface.includes),
                (&mut merged.defines, &tree.interface.defines),
            ];
            for (all, own) in lists {
                for entry in own {
                    if !all.contains(entry) {
                        all.push(entry.clone());
                    }
                }
            }
        }
        merged
    }

    /// GPU code by target, for every library that contains any.
    #[must_use]
    pub fn device_code(&self) -> BTreeMap<String, Vec<DeviceCode>> {
        let files = self.trees.iter().flat_map(|tree| &tree.files);
        let with_code = files.filter(|file| file.kind != "executable" && !file.device_code.is_empty());
        with_code.map(|file| (file.target.clone(), file.device_code.clone())).collect()
    }
}

/// The results of one CMake tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuiltTree {
    /// Id of the tree in the plan.
    pub id: String,
    /// The backends built in it.
    pub backends: Vec<Backend>,
    /// Subfolder for its modules, if another tree has modules of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Hash over all inputs: options, compilers, environment.
    pub key: String,
    /// Folder with the top-level `CMakeLists.txt`.
    pub source: String,
    /// CMake's binary folder.
    pub build: String,
    /// CMake generator.
    pub generator: String,
    /// Version of CMake.
    pub cmake: String,
    /// The cache entries passed to CMake.
    pub cache: BTreeMap<String, String>,
    /// The built files; libraries are in link order.
    pub files: Vec<Artifact>,
    /// The link line of a program that uses the tree, in order, as computed by CMake.
    pub link: Vec<LinkItem>,
    /// Compilers by language, as identified by CMake.
    pub compilers: BTreeMap<String, Compiler>,
    /// Instruction set flags by group of sources. `gpubuild audit` compares the machine code with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compile: Vec<CompileGroup>,
    /// Entries of CMake's cache that declare instruction sets, including those with the project's default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub promises: BTreeMap<String, String>,
    /// Extra backends built in it: those of the project that gpubuild has no toolkit for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// Properties that must be equal in two copies of a library before both may be in one program: definitions with their
    /// values, hashes of headers, the version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub abi: BTreeMap<String, String>,
    /// Include folders and definitions for sources that use the libraries, as computed by CMake.
    #[serde(default, skip_serializing_if = "BuiltInterface::is_empty")]
    pub interface: BuiltInterface,
}

/// The interface of a tree's libraries: how sources that use them are compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuiltInterface {
    /// Absolute include folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub includes: Vec<String>,
    /// Definitions: `NAME` or `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defines: Vec<String>,
}

impl BuiltInterface {
    /// Whether it has neither include folders nor definitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.includes.is_empty() && self.defines.is_empty()
    }
}

/// Sources of a target that were compiled with the same flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompileGroup {
    /// CMake target.
    pub target: String,
    /// Language: `C`, `CXX`, `CUDA`.
    pub language: String,
    /// The flags that select instruction sets: `-mavx2`, `/arch:AVX2`.
    pub flags: Vec<String>,
    /// File names of the sources, without folders. Object files have the same names.
    pub sources: Vec<String>,
}

/// A built file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Artifact {
    /// CMake target.
    pub target: String,
    /// Kind of file: `static`, `shared`, `module`, `executable`.
    pub kind: String,
    /// Absolute path.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// sha256 in hexadecimal.
    pub sha256: String,
    /// Number of global symbols that a static library defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<u64>,
    /// The GPU code in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_code: Vec<DeviceCode>,
}

/// The code for one GPU architecture in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceCode {
    /// Architecture: `sm_90`, `compute_90`, `gfx90a`.
    pub arch: String,
    /// Kind of code: `sass`, `ptx`, `lto`, `code-object`.
    pub kind: String,
    /// Size in the file in bytes, compressed if the file stores it compressed.
    pub bytes: u64,
}

/// One item of a link line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LinkItem {
    /// A static library, by path.
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
        /// Name without `lib` and suffix.
        name: String,
    },
    /// An Apple framework.
    Framework {
        /// Its name.
        name: String,
    },
    /// Any other linker argument: `-fopenmp`.
    Argument {
        /// The argument as written.
        text: String,
    },
    /// A folder to search for libraries that are given by name.
    Search {
        /// Absolute path.
        path: String,
    },
}

impl LinkItem {
    /// The path of a library that is given by path.
    fn library(&self) -> Option<&str> {
        match self {
            Self::Static { path } | Self::Shared { path } => Some(path),
            _ => None,
        }
    }
}

/// A compiler as identified by CMake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compiler {
    /// CMake's compiler id: `GNU`, `Clang`, `NVIDIA`, `MSVC`.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Its path.
    pub path: String,
}
