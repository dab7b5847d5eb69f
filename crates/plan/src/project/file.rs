//! `gpubuild.toml` as it is written, table by table; docs/reference/project-file.md explains every key.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use serde::Deserialize;

use super::variant::{CiTable, VariantTable};
use super::{CacheTable, PackTable};
use crate::project::Linkage;
use crate::project::profile::WantedOption;
use crate::project::together::SameSymbols;

/// The file as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// Version of the form.
    pub schema: i64,
    /// What is built.
    pub project: ProjectTable,
    /// Settings per backend.
    #[serde(default)]
    pub backends: BTreeMap<Backend, BackendTable>,
    /// The Rust program that links the result.
    pub binary: Option<BinaryTable>,
    /// Toolkits that are missing.
    #[serde(default)]
    pub toolkits: ToolkitsTable,
    /// Python environment for run-time wheels.
    pub python: Option<PythonTable>,
    /// Limits on parallel work.
    #[serde(default)]
    pub limits: LimitsTable,
    /// Other projects whose libraries go into the same program.
    #[serde(default)]
    pub with: Vec<WithTable>,
    /// What the results have to keep to.
    #[serde(default)]
    pub audit: AuditTable,
    /// The build store, compiler caches and distributed compilers.
    #[serde(default)]
    pub cache: CacheTable,
    /// What is built for whom.
    #[serde(default)]
    pub variants: Vec<VariantTable>,
    /// How jobs of a service get gpubuild.
    #[serde(default)]
    pub ci: CiTable,
    /// What is packed beside the program.
    #[serde(default)]
    pub pack: PackTable,
}

/// `[project]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectTable {
    /// Name, used for folders and archives.
    pub name: String,
    /// Folder of the CMake project, relative to the file.
    pub source: String,
    /// `gk`, `ggml`, `llama`, `whisper`, `stable-diffusion`, `cmake`.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Backends to build where neither a flag nor the environment names any; `auto` without it.
    pub backends: Option<BackendWord>,
    /// Backends of the project that gpubuild has no toolkit for.
    #[serde(default)]
    pub extra: Vec<String>,
    /// Whether code may be built that only runs on processors like the build machine's.
    #[serde(default)]
    pub native: bool,
    /// CMake targets that a program links, in addition to those of the profile.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// Further cache entries.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// How its libraries come into a program; `static` without it.
    pub linkage: Option<Linkage>,
    /// Unified diffs for the sources, relative to the file; they are applied to a copy.
    #[serde(default)]
    pub patches: Vec<Patch>,
    /// Whether a copy of the sources is built, as with patches: for projects that write into their source folder.
    #[serde(default)]
    pub copy: bool,
    /// C headers to make bindings of.
    #[serde(default)]
    pub headers: Vec<String>,
}

/// A path, or a table with more about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "PatchForm")]
pub struct Patch {
    /// The diff, relative to the file.
    pub file: String,
    /// Whether it is passed over where it does not apply.
    pub optional: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PatchForm {
    Path(String),
    Table(PatchTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchTable {
    file: String,
    #[serde(default)]
    optional: bool,
}

impl From<PatchForm> for Patch {
    fn from(form: PatchForm) -> Self {
        match form {
            PatchForm::Path(file) => Self { file, optional: false },
            PatchForm::Table(table) => Self { file: table.file, optional: table.optional },
        }
    }
}

/// `"auto"`, `"all"`, or a list of ids.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum BackendWord {
    /// A selection by word.
    Word(String),
    /// Backends by id.
    List(Vec<String>),
}

/// `[backends.ID]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendTable {
    /// `auto`, `native` or a list.
    pub archs: Option<Archs>,
    /// Version requirement on the toolkit, `>=12.4`, `>=12.4, <13`.
    pub toolkit: Option<String>,
    /// Several such requirements: one module for each, in a tree of its own.
    #[serde(default)]
    pub toolkits: Vec<String>,
    /// Whether it is built once per level of processors.
    #[serde(default)]
    pub variants: bool,
    /// Further cache entries while this backend is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// Architectures to build for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Archs {
    /// `auto` or `native`, or one architecture.
    Word(String),
    /// Several.
    List(Vec<String>),
}

/// `[binary]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryTable {
    /// Folder of the cargo package, relative to the file.
    pub package: String,
    /// Cargo profile, `release` without it.
    pub profile: Option<String>,
    /// Arguments with which the program measures itself; it gets `--backend ID --json` too.
    #[serde(default)]
    pub bench: Vec<String>,
}

/// `[toolkits]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitsTable {
    /// Whether a build installs the toolkits that it lacks, as with `--provision`.
    #[serde(default)]
    pub provision: bool,
}

/// `[python]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonTable {
    /// Folder of the virtual environment, relative to the file.
    pub venv: String,
}

/// `[[with]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithTable {
    /// Folder with the gpubuild.toml of the other project, relative to this file.
    pub project: String,
    /// What to do with symbols that both define.
    #[serde(default)]
    pub same_symbols: SameSymbols,
    /// With `shared`: the library of the other project that this one uses; the profile knows it for ggml.
    pub library: Option<String>,
}

/// `[limits]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    /// Memory that one CUDA or HIP compiler may need, `2GiB`.
    pub memory_per_cuda_job: Option<String>,
    /// Compilers at once.
    pub jobs: Option<u32>,
}

/// `[audit]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditTable {
    /// A level or a processor that code for everybody keeps to: `x86-64-v3`, `haswell`, `armv8.2-a+dotprod`.
    pub cpu: Option<String>,
    /// The newest glibc that may be needed, `2.28`.
    pub glibc: Option<String>,
    /// The newest version of libstdc++'s symbols that may be needed, `3.4.25`.
    pub glibcxx: Option<String>,
    /// The same of the C++ ABI, `1.3.11`.
    pub cxxabi: Option<String>,
    /// The largest file, `200MiB`.
    pub max_size: Option<String>,
    /// Ids of findings that are accepted.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// `[cache.languages]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LauncherTable {
    /// For C.
    pub c: Option<String>,
    /// For C++.
    pub cxx: Option<String>,
    /// For CUDA.
    pub cuda: Option<String>,
    /// For HIP.
    pub hip: Option<String>,
}

fn default_profile() -> String {
    "cmake".to_owned()
}
