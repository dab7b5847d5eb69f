//! `gpubuild.toml`: what a project consists of, read with errors that show the line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::backend::Backend;
use crate::ci::variant::{self, CiTable, VariantTable};
use crate::dist::table::PackTable;
use crate::host::{Host, HostPath};
use crate::plan::features::Features;
use crate::plan::profile::{Profile, Wanted, declared};
use crate::plan::together::{self, SameSymbols, With};
use crate::plan::{Linkage, PlannedPatch, SourceCopy};
use crate::store::settings::CacheTable;

/// Name of the file.
pub const FILE_NAME: &str = "gpubuild.toml";

/// The highest schema that this version reads.
const SCHEMA: i64 = 1;

/// A project: its file, the profile that it names, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Folder with `gpubuild.toml`.
    pub root: HostPath,
    /// What the file says.
    pub file: ProjectFile,
    /// Names of options and targets.
    pub profile: Profile,
    /// The folder with the top `CMakeLists.txt`.
    pub source: HostPath,
    /// Options that the project's own scripts declare, as far as the profile says where.
    pub known: BTreeSet<String>,
    /// Backends for which the profile says where kernels lie and nothing lies there.
    pub without_kernels: BTreeSet<Backend>,
    /// Folder that everything is built into.
    pub build_root: HostPath,
    /// Other projects whose libraries go into the same program.
    pub with: Vec<With>,
    /// Cargo features of the program.
    pub features: Features,
}

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
    pub backends: Option<Request>,
    /// Backends of the project that gpubuild has no toolkit for.
    #[serde(default)]
    pub extra: Vec<String>,
    /// Whether code may be built that only runs on processors like the build machine's.
    #[serde(default)]
    pub native: bool,
    /// CMake targets that a program links, in addition to those of the profile.
    #[serde(default)]
    pub targets: Vec<Wanted>,
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

impl Project {
    /// The copy of the sources that is built, where it is not the sources themselves.
    #[must_use]
    pub fn copy(&self) -> Option<SourceCopy> {
        let table = &self.file.project;
        (table.copy || !table.patches.is_empty()).then(|| SourceCopy {
            from: self.source.clone(),
            to: self.build_root.join("source"),
            patches: table
                .patches
                .iter()
                .map(|patch| PlannedPatch { path: self.root.join(&patch.file), optional: patch.optional })
                .collect(),
        })
    }
}

/// `"auto"`, `"all"`, or a list of ids.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Request {
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

/// What is wrong with an address of a shared storage, if anything.
fn remote_problem(remote: &str) -> Option<&'static str> {
    let Some((_, rest)) = remote.split_once("://") else {
        return Some("is no address such as `redis://build-cache:6379`");
    };
    let authority = rest.split('/').next().unwrap_or_default();
    authority.contains('@').then_some(
        "carries a password, which everybody who reads the file would know: set CCACHE_REMOTE_STORAGE or SCCACHE_REDIS \
         in the environment instead",
    )
}

fn default_profile() -> String {
    "cmake".to_owned()
}

/// Why there is no project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// No file here or above.
    #[error("no `{FILE_NAME}` in `{start}` or any folder above it")]
    NotFound {
        /// Where the search began.
        start: String,
    },
    /// It cannot be read.
    #[error("failed to read `{path}`: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
    /// It is not what it should be; the message shows line and column.
    #[error("`{path}` is not valid: {message}")]
    Invalid {
        /// The file.
        path: String,
        /// The parser's message, with the line and a caret.
        message: String,
    },
    /// Written for a later version.
    #[error("`{path}` has schema {found}, and this gpubuild reads up to {SCHEMA}")]
    Newer {
        /// The file.
        path: String,
        /// The number in it.
        found: i64,
    },
    /// No such profile.
    #[error("`{path}` names the unknown profile `{name}`; known are {}", .known.join(", "))]
    UnknownProfile {
        /// The file.
        path: String,
        /// As written.
        name: String,
        /// The ones that exist.
        known: Vec<String>,
    },
    /// The CMake project is not there.
    #[error("`{path}` names the source folder `{source_folder}`, and there is no CMakeLists.txt in it")]
    NoSource {
        /// The file.
        path: String,
        /// The folder.
        source_folder: String,
    },
}

impl ProjectError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "project.not-found",
            Self::Unreadable { .. } => "project.unreadable",
            Self::Invalid { .. } => "project.invalid",
            Self::Newer { .. } => "project.newer-schema",
            Self::UnknownProfile { .. } => "project.unknown-profile",
            Self::NoSource { .. } => "project.source-missing",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => {
                format!("run it inside a project, or name one with `--project DIR` ({FILE_NAME})")
            }
            Self::Unreadable { .. } => "check that the file is there and that you may read it".to_owned(),
            Self::Invalid { .. } => {
                "correct the marked place; docs/project-file.md lists every key".to_owned()
            }
            Self::Newer { .. } => "update gpubuild: `cargo install gpubuild`".to_owned(),
            Self::UnknownProfile { .. } => "use `cmake` for any other CMake project".to_owned(),
            Self::NoSource { .. } => {
                "correct `source`, or fetch the submodule that should be there".to_owned()
            }
        }
    }
}

/// Finds `gpubuild.toml` in `start` or the nearest folder above it.
pub fn find(host: &dyn Host, start: &HostPath) -> Result<HostPath, ProjectError> {
    let mut folder = Some(start.clone());
    while let Some(here) = folder {
        let file = here.join(FILE_NAME);
        if host.is_file(&file) {
            return Ok(file);
        }
        folder = here.parent();
    }
    Err(ProjectError::NotFound { start: start.to_string() })
}

/// Reads a project and looks whether its parts are there.
pub fn load(host: &dyn Host, path: &HostPath) -> Result<Project, ProjectError> {
    let mut project = load_alone(host, path)?;
    let interface =
        |project: &Project| together::interface(host, &project.source, project.profile.abi.as_ref());
    for table in &project.file.with {
        let other = load_alone(host, &project.root.join(&table.project).join(FILE_NAME).normalized())?;
        project.with.push(With {
            name: other.file.project.name.clone(),
            manifest: crate::exec::manifest_path(&other.build_root),
            differences: together::differences(&interface(&project), &interface(&other)),
            folder: other.root,
            same_symbols: table.same_symbols,
            library: table.library.clone(),
        });
    }
    Ok(project)
}

/// The same without a look at the projects that go with it.
fn load_alone(host: &dyn Host, path: &HostPath) -> Result<Project, ProjectError> {
    let text = host
        .read_text(path)
        .map_err(|error| ProjectError::Unreadable { path: path.to_string(), message: error.to_string() })?;
    let (file, profile) = parse(path.as_str(), &text)?;
    assemble(host, path, file, profile)
}

/// The part of [`load`] after the file is read: looks whether the parts are there.
pub fn assemble(
    host: &dyn Host,
    path: &HostPath,
    file: ProjectFile,
    profile: Profile,
) -> Result<Project, ProjectError> {
    let root = path.parent().unwrap_or_else(|| host.path("."));
    let source = root.join(&file.project.source);
    if !host.is_file(&source.join("CMakeLists.txt")) {
        return Err(ProjectError::NoSource { path: path.to_string(), source_folder: source.to_string() });
    }
    let without_kernels = profile
        .backends
        .iter()
        .filter(|(_, row)| row.kernels.as_ref().is_some_and(|place| !host.exists(&source.join(place))))
        .map(|(backend, _)| *backend)
        .collect();
    let scripts = profile.scripts.iter().filter_map(|script| host.read_text(&source.join(script)).ok());
    let mut known: BTreeSet<String> = scripts.flat_map(|script| declared(&script)).collect();
    if !profile.scripts.is_empty() {
        known.extend(
            host.read_text(&source.join("CMakeLists.txt")).iter().flat_map(|script| declared(script)),
        );
    }
    let build_root = if host.is_file(&root.join("Cargo.toml")) {
        root.join("target/gpubuild").join(&file.project.name)
    } else {
        root.join(".gpubuild").join(&file.project.name)
    };
    let binary = file.binary.as_ref().map(|binary| root.join(&binary.package).join("Cargo.toml"));
    let features = binary.and_then(|path| host.read_text(&path).ok());
    let features = features.map(|text| Features::parse(&text)).unwrap_or_default();
    Ok(Project {
        root,
        file,
        profile,
        source,
        known,
        without_kernels,
        build_root,
        with: Vec::new(),
        features,
    })
}

/// The pure part of [`load`]: text to values.
pub fn parse(path: &str, text: &str) -> Result<(ProjectFile, Profile), ProjectError> {
    #[derive(Deserialize)]
    struct SchemaOnly {
        schema: Option<i64>,
    }
    let invalid = |error: &toml::de::Error| ProjectError::Invalid {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    };
    // The schema first: a file of a later version should be called that, not wrong.
    let found = toml::from_str::<SchemaOnly>(text).map_err(|error| invalid(&error))?.schema;
    if let Some(found) = found.filter(|found| *found > SCHEMA) {
        return Err(ProjectError::Newer { path: path.to_owned(), found });
    }
    let file: ProjectFile = toml::from_str(text).map_err(|error| invalid(&error))?;
    let name_is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if file.project.name.is_empty()
        || file.project.name.starts_with('.')
        || !file.project.name.chars().all(name_is_plain)
    {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: format!(
                "`project.name` is `{}`: use letters, digits, `-`, `_` and `.`",
                file.project.name
            ),
        });
    }
    if let Some(problem) = file.cache.remote.as_deref().and_then(remote_problem) {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: format!("`cache.remote` {problem}"),
        });
    }
    if let Some(message) = variant::problem(&file.variants) {
        return Err(ProjectError::Invalid { path: path.to_owned(), message });
    }
    let Some(profile) = Profile::builtin(&file.project.profile) else {
        return Err(ProjectError::UnknownProfile {
            path: path.to_owned(),
            name: file.project.profile.clone(),
            known: Profile::names().map(str::to_owned).collect(),
        });
    };
    Ok((file, profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "schema = 1\n[project]\nname = \"infer\"\nsource = \"vendor/gk\"\nprofile = \"gk\"\n";

    fn message(text: &str) -> String {
        parse("gpubuild.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_file_is_read() {
        let text = format!(
            "{GOOD}backends = [\"cpu\", \"cuda\"]\n[backends.cuda]\narchs = [\"80\", \"90a\"]\ntoolkit = \">=12.4\"\n\
             [binary]\npackage = \"examples/infer\"\n[python]\nvenv = \".venv\"\n[limits]\nmemory_per_cuda_job = \"2GiB\"\n"
        );
        let (file, profile) = parse("gpubuild.toml", &text).unwrap();
        assert_eq!(profile.id, "gk");
        assert_eq!(file.project.backends, Some(Request::List(vec!["cpu".into(), "cuda".into()])));
        assert_eq!(file.backends[&Backend::Cuda].archs, Some(Archs::List(vec!["80".into(), "90a".into()])));
    }

    #[test]
    fn errors_show_the_line_and_a_caret() {
        let shown = message(&GOOD.replace("source", "sauce"));
        assert!(shown.contains("line 4") && shown.contains("sauce") && shown.contains('^'), "{shown}");
        let shown = message("schema = 1\n[project\n");
        assert!(shown.contains("line 2") && shown.contains('^'), "{shown}");
    }

    #[test]
    fn a_newer_file_is_called_newer_even_if_it_has_unknown_keys() {
        let error = parse("gpubuild.toml", &format!("{}\n[future]\nx = 1\n", GOOD.replace("= 1", "= 2")))
            .unwrap_err();
        assert_eq!(error, ProjectError::Newer { path: "gpubuild.toml".into(), found: 2 });
    }

    #[test]
    fn a_shared_storage_is_an_address_without_a_password() {
        let cache = |remote: &str| format!("{GOOD}[cache]\nlauncher = \"ccache\"\nremote = {remote:?}\n");
        let (file, _) = parse("gpubuild.toml", &cache("redis://cache:6379")).unwrap();
        assert_eq!(file.cache.remote.as_deref(), Some("redis://cache:6379"));
        let shown = message(&cache("redis://:hunter2@cache:6379"));
        assert!(shown.contains("CCACHE_REMOTE_STORAGE") && !shown.contains("hunter2"), "{shown}");
        assert!(message(&cache("cache:6379")).contains("is no address"));
        assert!(message(&format!("{GOOD}[cache.languages]\nrust = \"sccache\"\n")).contains("rust"));
    }

    #[test]
    fn unknown_profiles_and_hostile_names_are_refused() {
        assert!(message(&GOOD.replace("\"gk\"", "\"gkk\"")).contains("known are cmake, ggml, gk"));
        for name in ["", "../up", ".hidden", "a/b", "a b"] {
            assert!(
                message(&GOOD.replace("\"infer\"", &format!("{name:?}"))).contains("project.name"),
                "{name}"
            );
        }
    }
}
