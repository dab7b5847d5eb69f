//! The tables of `gpubuild.toml`. The comments of fields are descriptions in its JSON schema and in docs/reference/project-file-keys.md.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use serde::Deserialize;

use super::source::Source;
use super::variant::{CiTable, VariantTable};
use super::{CacheTable, PackTable};
use crate::project::Linkage;
use crate::project::profile::WantedOption;
use crate::project::together::SameSymbols;

/// The project file of gpubuild: how a native GPU project is built, tested and packed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// Version of the file format: 1.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 1)))]
    pub schema: i64,
    /// The CMake project.
    pub project: ProjectTable,
    /// Settings of a backend: `[backends.cuda]`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "by_backend::<BackendTable>"))]
    pub backends: BTreeMap<Backend, BackendTable>,
    /// Defaults of builds.
    #[serde(default)]
    pub build: BuildTable,
    /// The Rust program that links the result.
    pub binary: Option<BinaryTable>,
    /// Installation of missing toolkits.
    #[serde(default)]
    pub toolkits: ToolkitsTable,
    /// The Python package of the project, and the environment for wheels with run-time libraries.
    pub python: Option<PythonTable>,
    /// Limits on parallel compilers.
    #[serde(default)]
    pub limits: LimitsTable,
    /// Other projects whose libraries are linked into the same program.
    #[serde(default)]
    pub with: Vec<WithTable>,
    /// Requirements on the build outputs, which `gpubuild audit` checks.
    #[serde(default)]
    pub audit: AuditTable,
    /// The build store and compiler launchers.
    #[serde(default)]
    pub cache: CacheTable,
    /// Packaged builds, for CI and releases: `gpubuild build --variant NAME`.
    #[serde(default)]
    pub variants: Vec<VariantTable>,
    /// How CI jobs install and run gpubuild.
    #[serde(default)]
    pub ci: CiTable,
    /// Content of a release, for `gpubuild pack`.
    #[serde(default)]
    pub pack: PackTable,
}

/// `[project]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProjectTable {
    /// Name of the project, used for folders and archives: up to 100 letters, digits, `-`, `_` and `.`.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$")))]
    pub name: String,
    /// Folder with the top-level CMakeLists.txt, relative to gpubuild.toml, or a table of sources that `gpubuild fetch` downloads.
    #[cfg_attr(feature = "schema", schemars(with = "super::source::SourceForm"))]
    pub source: Source,
    /// Folder with copies of downloaded sources, relative to gpubuild.toml. `gpubuild fetch` keeps it up to date.
    pub vendor: Option<String>,
    /// Id of the profile, which describes the options and targets of the project; `cmake` for projects without one.
    #[serde(default = "default_profile")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "profile_id"))]
    pub profile: String,
    /// Backends to build, unless a flag or an environment variable selects others: `auto`, `all`, or a list of ids.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "auto")))]
    pub backends: Option<BackendList>,
    /// Ids of backends of the project that gpubuild has no toolkit for, such as `rpc`.
    #[serde(default)]
    pub extra: Vec<String>,
    /// Whether to compile only for the kind of processor that the build machine has, as with `--native`.
    #[serde(default)]
    pub native: bool,
    /// Additional CMake targets that a program links. `a | b` selects the first that exists; `c?` may be missing.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// Additional CMake cache entries; `true` is `ON`, `false` is `OFF`. An entry that CMake does not use is an error.
    #[serde(default, deserialize_with = "super::entries::cache_entries")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, super::entries::Entry>"))]
    pub options: BTreeMap<String, String>,
    /// How a program links the project's libraries.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "static")))]
    pub linkage: Option<Linkage>,
    /// Unified diffs to apply to a copy of the sources: paths relative to gpubuild.toml, or `{ file = "PATH", optional = true }`.
    #[serde(default)]
    pub patches: Vec<Patch>,
    /// Whether to build from a copy of the sources even without patches, for projects that write into their source folder.
    #[serde(default)]
    pub copy: bool,
    /// C headers to generate Rust bindings for, relative to gpubuild.toml.
    #[serde(default)]
    pub headers: Vec<String>,
}

/// A patch: a path, or a table `{ file, optional }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "PatchForm")]
pub struct Patch {
    /// The diff, relative to gpubuild.toml.
    pub file: String,
    /// Whether to skip it if it does not apply.
    pub optional: bool,
}

/// A unified diff: a path, or a table with more settings.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum PatchForm {
    /// Path of the diff, relative to gpubuild.toml.
    Path(String),
    /// A path with more settings.
    Table(PatchTable),
}

/// A diff with more settings.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct PatchTable {
    /// Path of the diff, relative to gpubuild.toml.
    file: String,
    /// Whether to skip the diff, with a note, if it does not apply.
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

/// Value of `backends`: `"auto"`, `"all"`, or a list of ids.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum BackendList {
    /// `auto`, `all`, or ids separated by commas.
    Keyword(String),
    /// A list of ids.
    List(Vec<String>),
}

/// `[backends.ID]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackendTable {
    /// GPU architectures to build for: `auto`, `native`, `all`, `all-major`, or a list such as `["80", "90a", "120f-virtual"]`.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "auto")))]
    pub archs: Option<Archs>,
    /// Version requirement on the toolkit: `>=12.4, <13`, or a release such as `12`.
    pub toolkit: Option<String>,
    /// Version requirements on several toolkits, instead of `toolkit`. With `linkage = "dynamic"`, each builds one module.
    #[serde(default)]
    pub toolkits: Vec<String>,
    /// Whether to build one module per processor level, with `linkage = "dynamic"`; for `cpu`.
    #[serde(default)]
    pub variants: bool,
    /// Additional CMake cache entries that are set if this backend is built; `true` is `ON`, `false` is `OFF`.
    #[serde(default, deserialize_with = "super::entries::cache_entries")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, super::entries::Entry>"))]
    pub options: BTreeMap<String, String>,
}

/// Value of `archs`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Archs {
    /// `auto`, `native`, `all`, `all-major`, or one architecture.
    Keyword(String),
    /// Several architectures.
    List(Vec<String>),
}

/// `[build]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BuildTable {
    /// Platform to build for, unless `--target` names another one: `aarch64-unknown-linux-gnu`, `x86_64-unknown-linux-gnu.2.28`, or
    /// `host` for this machine. Build scripts build for the target of cargo instead.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "host")))]
    pub target: Option<String>,
}

/// `[binary]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BinaryTable {
    /// Folder of the cargo package, relative to gpubuild.toml.
    pub package: String,
    /// Cargo profile to build it with.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "release")))]
    pub profile: Option<String>,
    /// Arguments with which the program measures itself. `--backend ID --json` and the arguments of `gpubuild bench` are appended.
    #[serde(default)]
    pub bench: Vec<String>,
}

/// `[toolkits]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolkitsTable {
    /// Whether builds install missing toolkits, as with `--provision`.
    #[serde(default)]
    pub provision: bool,
}

/// `[python]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PythonTable {
    /// Folder of the virtual environment, relative to gpubuild.toml. `gpubuild build` installs the run-time libraries into it
    /// that the build needs.
    pub venv: Option<String>,
    /// Table of wheels to use instead of the built-in one, relative to gpubuild.toml.
    pub wheels: Option<String>,
    /// Folder of the Python package, relative to gpubuild.toml, for `gpubuild pack --format wheel`. Its metadata is in pyproject.toml.
    pub package: Option<String>,
    /// Folder in the package for the built libraries and extension modules. By default the package's own folder.
    pub libraries: Option<String>,
    /// How the wheel of a variant differs from others: in its version, `demo 1.0+cuda`, in its name, `demo-cuda 1.0`, or in its variant
    /// label.
    #[serde(default)]
    pub variants: WheelVariants,
    /// Whether a wheel requires those with NVIDIA's libraries, or only its extra `cuda` does: `pip install demo[cuda]`.
    #[serde(default)]
    pub runtime: RuntimeWheels,
}

/// When the wheels with NVIDIA's libraries are installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeWheels {
    /// With the package.
    #[default]
    Require,
    /// With the extra `cuda` of the package.
    Extra,
}

/// How the wheels of variants differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WheelVariants {
    /// In the local version, which PyPI does not accept.
    #[default]
    Version,
    /// In the name of the project.
    Name,
    /// In the variant label (PEP 825), so that installers select the variant for a machine.
    Label,
}

/// `[[with]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WithTable {
    /// Folder with the gpubuild.toml of the other project, relative to this file.
    pub project: String,
    /// How to handle symbols that both projects define.
    #[serde(default)]
    pub same_symbols: SameSymbols,
    /// CMake package of the library that this project uses from the other one, with `same_symbols = "shared"`.
    pub library: Option<String>,
}

/// `[limits]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    /// Memory that one CUDA or HIP compiler may need: `2GiB`. Limits how many run in parallel. The profile sets the default, else
    /// `2GiB`.
    pub memory_per_cuda_job: Option<String>,
    /// Maximum number of parallel compilers; by default cargo's `-j` in a build script, else the number of processor threads.
    pub jobs: Option<u32>,
}

/// `[audit]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditTable {
    /// Processor level or processor that code without run-time dispatch may require: `x86-64-v3`, `haswell`, `armv8.2-a+dotprod`.
    /// By default what the options of the project select.
    pub cpu: Option<String>,
    /// The newest glibc version that outputs may require: `2.28`.
    pub glibc: Option<String>,
    /// The newest `GLIBCXX` symbol version that outputs may require: `3.4.25`.
    pub glibcxx: Option<String>,
    /// The newest `CXXABI` symbol version that outputs may require: `1.3.11`.
    pub cxxabi: Option<String>,
    /// Maximum size of an output file: `200MiB`.
    pub max_size: Option<String>,
    /// Ids of findings to accept, or groups such as `audit.rpath.*`.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// `[cache.languages]`: compiler launchers by language, in the notation of `launcher`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LauncherTable {
    /// Launcher for C.
    pub c: Option<String>,
    /// Launcher for C++.
    pub cxx: Option<String>,
    /// Launcher for CUDA.
    pub cuda: Option<String>,
    /// Launcher for HIP.
    pub hip: Option<String>,
}

/// The schema of a table with a key per backend. `hip` is an alias of `rocm`.
#[cfg(feature = "schema")]
pub(super) fn by_backend<T: schemars::JsonSchema>(
    generator: &mut schemars::SchemaGenerator,
) -> schemars::Schema {
    let property = |id: &str| {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("description".to_owned(), format!("For the backend `{id}`.").into());
        (id.to_owned(), schema.to_value())
    };
    let ids = Backend::ALL.into_iter().map(Backend::id).chain(["hip"]);
    let properties: serde_json::Map<String, serde_json::Value> = ids.map(property).collect();
    schemars::json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema of a profile's id.
#[cfg(feature = "schema")]
fn profile_id(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let ids: Vec<&str> = super::profile::Profile::names().collect();
    schemars::json_schema!({ "type": "string", "enum": ids })
}

fn default_profile() -> String {
    "cmake".to_owned()
}
