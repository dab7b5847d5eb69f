//! The artifact manifest: every file that a build produced, with hash, symbols and provenance. Written by `build`, read by
//! `link`, `run`, `test` and build scripts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

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
    /// One per CMake tree.
    pub trees: Vec<BuiltTree>,
}

/// What one CMake tree produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltTree {
    /// Id of the tree in the plan.
    pub id: String,
    /// Backends in it.
    pub backends: Vec<Backend>,
    /// Hash over everything that went in: options, compilers, environment.
    pub key: String,
    /// Files built, in link order where that matters.
    pub files: Vec<Artifact>,
    /// What a program puts on its link line, in order, as CMake worked it out.
    pub link: Vec<LinkItem>,
    /// Compilers by language, as CMake identified them.
    pub compilers: BTreeMap<String, Compiler>,
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
