//! Reads a project: `gpubuild.toml`, its profile and its CMake scripts.

pub mod abi;
mod cache;
mod entries;
mod error;
pub mod features;
mod file;
mod linkage;
mod owner;
mod pack;
mod packages;
pub mod profile;
pub mod python_version;
mod scikit;
pub mod source;
mod sources;
pub mod together;
pub mod variant;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::secret;
use gpubuild_host::{HostPath, ReadFiles};
use serde::Deserialize;

use self::features::Features;
use self::profile::{Profile, declared};
use self::together::With;
use crate::target::Target;
pub use cache::{CacheAccess, CacheTable};
pub use error::{ForeignProject, ProjectError};
pub use file::{
    Archs, AuditTable, BackendList, BackendTable, BinaryTable, BuildTable, LauncherTable, LimitsTable, Patch,
    ProjectFile, ProjectTable, PythonTable, RuntimeWheels, ToolkitsTable, WheelVariants, WithTable,
};
pub use linkage::Linkage;
pub use owner::SAFE_FOLDERS;
pub use pack::{PackTable, check_preference};
pub use packages::BuiltWith;
pub use sources::{PlannedPatch, SourceCopy};

/// Name of the project file.
pub const FILE_NAME: &str = "gpubuild.toml";

/// Maximum length of a project's name in bytes: it is a part of file names, which most file systems limit to 255 bytes.
const MAX_NAME_LENGTH: usize = 100;

/// The highest schema that this version reads.
const SCHEMA: i64 = 1;

/// A loaded project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Folder that contains `gpubuild.toml`.
    pub root: HostPath,
    /// The parsed file.
    pub file: ProjectFile,
    /// The profile that the file selects.
    pub profile: Profile,
    /// Folder with the top-level `CMakeLists.txt`.
    pub source: HostPath,
    /// Options that the project's CMake scripts declare; empty if the profile does not list the scripts.
    pub known: BTreeSet<String>,
    /// Backends whose kernels the profile locates in the sources, but which this version of the project lacks.
    pub without_kernels: BTreeSet<Backend>,
    /// Cache entries with the CMake packages of the Python environment and the metadata of the Python package: `Torch_DIR`,
    /// `SKBUILD_PROJECT_VERSION`.
    pub packages: BTreeMap<String, String>,
    /// The toolkits that these CMake packages were built with.
    pub built_with: Vec<BuiltWith>,
    /// The build folder.
    pub build_root: HostPath,
    /// Other projects whose libraries are linked into the same program.
    pub with: Vec<With>,
    /// Cargo features of the program.
    pub features: Features,
}

impl Project {
    /// The paths of the headers that gpubuild.toml names.
    #[must_use]
    pub fn headers(&self) -> Vec<HostPath> {
        self.file.project.headers.iter().map(|header| self.root.join(header).normalized()).collect()
    }

    /// The copy of the sources to build from; `None` builds the sources in place.
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

/// The problem with a URL of shared storage, as the end of a sentence.
fn remote_problem(remote: &str) -> Option<&'static str> {
    let Some((_, rest)) = remote.split_once("://") else {
        return Some("is not a URL such as `s3://bucket/prefix` or `redis://build-cache:6379`");
    };
    let authority = rest.split('/').next().unwrap_or_default();
    authority.contains('@').then_some(
        "contains credentials, which do not belong in this file: use AWS_ACCESS_KEY_ID, ~/.netrc or `docker login` for a shared build \
                store, and CCACHE_REMOTE_STORAGE or SCCACHE_REDIS for a launcher",
    )
}

/// Finds `gpubuild.toml` in `start` or the nearest folder above it. A file of another user is refused, unless its folder is among
/// `safe` (paths, `DIR/*` or `*`) or allowed by the environment.
pub fn find(host: &dyn ReadFiles, start: &HostPath, safe: &[String]) -> Result<HostPath, ProjectError> {
    let mut folder = Some(start.clone());
    while let Some(here) = folder {
        let file = here.join(FILE_NAME);
        // Whatever has this name, even a link that leads nowhere: reading it reports what it is, if it is not a file.
        if host.exists(&file) || host.read_link(&file).is_ok() {
            owner::check(host, &file, safe)?;
            return Ok(file);
        }
        folder = here.parent();
    }
    Err(ProjectError::NotFound { start: start.to_string() })
}

/// Whether a command needs the sources of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceNeed {
    /// It plans or builds.
    Required,
    /// It uses the settings or the outputs of the project. Sources that were not fetched are not an error.
    Optional,
}

/// Loads a project with its sources, and the projects under `[[with]]`.
pub fn load(host: &dyn ReadFiles, path: &HostPath) -> Result<Project, ProjectError> {
    load_for(host, path, SourceNeed::Required)
}

/// Loads a project and the projects under `[[with]]`.
pub fn load_for(host: &dyn ReadFiles, path: &HostPath, need: SourceNeed) -> Result<Project, ProjectError> {
    let mut project = load_alone(host, path, need)?;
    let interface =
        |project: &Project| together::interface(host, &project.source, project.profile.abi.as_ref());
    for table in &project.file.with {
        let file = project.root.join(&table.project).join(FILE_NAME).normalized();
        let other = load_alone(host, &file, need)?;
        project.with.push(With {
            name: other.file.project.name.clone(),
            manifest: crate::artifacts::manifest_path(&other.build_root),
            differences: together::differences(&interface(&project), &interface(&other)),
            folder: other.root,
            same_symbols: table.same_symbols,
            library: table.library.clone(),
        });
    }
    Ok(project)
}

/// Loads a project without the projects under `[[with]]`.
fn load_alone(host: &dyn ReadFiles, path: &HostPath, need: SourceNeed) -> Result<Project, ProjectError> {
    let text = host
        .read_text(path)
        .map_err(|error| ProjectError::Unreadable { path: path.to_string(), message: error.to_string() })?;
    let (file, profile) = parse(path.as_str(), &text)?;
    if need == SourceNeed::Optional {
        let root = path.parent().unwrap_or_else(|| host.path("."));
        if let Err(ProjectError::SourceNotFetched { .. }) = source::locate::folder(host, &root, &file.project)
        {
            let source = root.join("sources-not-fetched");
            return Ok(assemble_at(host, root, file, profile, source));
        }
    }
    let project = assemble(host, path, file, profile)?;
    refuse_inside_build(path, &project)?;
    Ok(project)
}

/// Checks that `gpubuild clean` deletes nothing that the project consists of.
fn refuse_inside_build(path: &HostPath, project: &Project) -> Result<(), ProjectError> {
    let (file, build) = (&project.file, project.build_root.normalized());
    let package = file.binary.as_ref().map(|binary| ("binary.package", binary.package.as_str()));
    let python = file.python.as_ref().and_then(|python| Some(("python.package", python.package.as_deref()?)));
    let vendor = file.project.vendor.as_deref().map(|vendor| ("project.vendor", vendor));
    let named = [package, python, vendor].into_iter().flatten();
    let folders = named.map(|(key, folder)| (key, project.root.join(folder)));
    for (key, folder) in folders.chain([("project.source", project.source.clone())]) {
        if folder.normalized().is_inside(&build) {
            let (path, folder, build) =
                (path.to_string(), folder.normalized().to_string(), build.to_string());
            return Err(ProjectError::InsideBuild { path, key, folder, build });
        }
    }
    Ok(())
}

/// Completes a parsed file to a [`Project`]: checks that the sources exist, and reads the CMake scripts and Cargo.toml.
pub fn assemble(
    host: &dyn ReadFiles,
    path: &HostPath,
    file: ProjectFile,
    profile: Profile,
) -> Result<Project, ProjectError> {
    let root = path.parent().unwrap_or_else(|| host.path("."));
    let source = source::locate::folder(host, &root, &file.project)?;
    if !host.is_file(&source.join("CMakeLists.txt")) {
        return Err(ProjectError::NoSource {
            path: path.to_string(),
            source_folder: source.normalized().to_string(),
        });
    }
    Ok(assemble_at(host, root, file, profile, source))
}

/// Completes a parsed file to a project whose sources are in this folder, if it exists.
fn assemble_at(
    host: &dyn ReadFiles,
    root: HostPath,
    file: ProjectFile,
    profile: Profile,
    source: HostPath,
) -> Project {
    let has_sources = host.is_dir(&source);
    let without_kernels = profile
        .backends
        .iter()
        .filter(|(_, row)| {
            let kernels = row.kernels.as_ref();
            has_sources && kernels.is_some_and(|place| !host.exists(&source.join(place)))
        })
        .map(|(backend, _)| *backend)
        .collect();
    let scripts = profile.scripts.iter().filter_map(|script| host.read_text(&source.join(script)).ok());
    let mut known: BTreeSet<String> = scripts.flat_map(|script| declared(&script)).collect_set();
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
    let venv = file.python.as_ref().and_then(|python| python.venv.as_deref());
    let found = packages::find(host, venv.map(|venv| root.join(venv)).as_ref(), &profile.packages);
    let (mut packages, built_with) = (found.entries, found.toolkits);
    if let Some(package) = file.python.as_ref().and_then(|python| python.package.as_deref()) {
        packages.extend(scikit::entries(host, (&root, package), &source));
    }
    Project {
        root,
        file,
        profile,
        source,
        known,
        without_kernels,
        packages,
        built_with,
        build_root,
        with: Vec::new(),
        features,
    }
}

/// Parses and validates the text of a project file. `path` is used in errors only.
pub fn parse(path: &str, text: &str) -> Result<(ProjectFile, Profile), ProjectError> {
    #[derive(Deserialize)]
    struct ProjectSchema {
        schema: Option<i64>,
    }
    // The parser quotes the line, which may contain a URL with a password.
    let invalid = |error: &gpubuild_toml::TomlError| ProjectError::Invalid {
        path: path.to_owned(),
        message: secret::redact(error.to_string().trim_end()).text.into_owned(),
    };
    // Check the schema first, so that a file for a later version is not reported as invalid.
    let found = gpubuild_toml::from_str::<ProjectSchema>(text).map_err(|error| invalid(&error))?.schema;
    if let Some(found) = found.filter(|found| *found > SCHEMA) {
        return Err(ProjectError::Newer { path: path.to_owned(), found });
    }
    let file: ProjectFile = gpubuild_toml::from_str(text).map_err(|error| invalid(&error))?;
    let name_is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if file.project.name.is_empty()
        || file.project.name.starts_with('.')
        || file.project.name.len() > MAX_NAME_LENGTH
        || !file.project.name.chars().all(name_is_plain)
    {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: format!(
                "`project.name` is `{}`: use up to {MAX_NAME_LENGTH} letters, digits, `-`, `_` and `.`",
                clean::short(&file.project.name, 2 * MAX_NAME_LENGTH)
            ),
        });
    }
    let vendor = file.project.vendor.as_deref();
    // A final slash is common after the name of a folder.
    if let Some(vendor) =
        vendor.filter(|vendor| !source::is_inner(vendor.strip_suffix('/').unwrap_or(vendor)))
    {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: format!(
                "`project.vendor` is `{vendor}`: use a folder of the project, such as `third_party`"
            ),
        });
    }
    if let Some(Err(reason)) = file.build.target.as_deref().map(Target::select) {
        let hint = reason.hint.unwrap_or_default();
        let message = format!("`build.target`: {}; {hint}", reason.text);
        return Err(ProjectError::Invalid { path: path.to_owned(), message });
    }
    if let Some(problem) = file.cache.remote.as_deref().and_then(remote_problem) {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: format!("`cache.remote` {problem}"),
        });
    }
    if file.cache.folder.as_deref() == Some("") {
        return Err(ProjectError::Invalid {
            path: path.to_owned(),
            message: "`cache.folder` is empty: name a folder, or omit it for the default".to_owned(),
        });
    }
    if let Some(message) =
        variant::problem(&file.variants).or_else(|| variant::image_problem(&file.ci.images))
    {
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
    fn quoted_line_has_no_password() {
        let text = "schema = 1\n[project]\nname = \"x\"\nsource = { git = \"https://me:hunter22@host/x\", rev = \"0\" }\n";
        let message = message(text);
        assert!(message.contains("host/x") && !message.contains("hunter22"), "{message}");
    }

    #[test]
    fn documented_file_is_parsed() {
        let text = format!(
            "{GOOD}backends = [\"cpu\", \"cuda\"]\n[backends.cuda]\narchs = [\"80\", \"90a\"]\ntoolkit = \">=12.4\"\n\
             [binary]\npackage = \"examples/infer\"\n[python]\nvenv = \".venv\"\n[limits]\nmemory_per_cuda_job = \"2GiB\"\n"
        );
        let (file, profile) = parse("gpubuild.toml", &text).unwrap();
        assert_eq!(profile.id, "gk");
        assert_eq!(file.project.backends, Some(BackendList::List(vec!["cpu".into(), "cuda".into()])));
        assert_eq!(file.backends[&Backend::Cuda].archs, Some(Archs::List(vec!["80".into(), "90a".into()])));
    }

    #[test]
    fn cache_entries_are_text_booleans_or_integers() {
        let entry = |value: &str| {
            format!("{GOOD}options = {{ X = {value} }}\n[backends.cuda.options]\nX = {value}\n")
        };
        for (value, text) in [("true", "ON"), ("false", "OFF"), ("-8", "-8"), ("\"a;b\"", "a;b")] {
            let (file, _) = parse("gpubuild.toml", &entry(value)).unwrap();
            assert_eq!(file.project.options["X"], text);
            assert_eq!(file.backends[&Backend::Cuda].options["X"], text);
        }
        for value in ["8.6", "[1]", "{ A = 1 }"] {
            let shown = message(&entry(value));
            assert!(shown.contains("is a string, a boolean or an integer") && shown.contains('^'), "{shown}");
        }
    }

    #[test]
    fn errors_show_the_line_and_a_caret() {
        let shown = message(&GOOD.replace("source", "sauce"));
        assert!(shown.contains("line 4") && shown.contains("sauce") && shown.contains('^'), "{shown}");
        let shown = message("schema = 1\n[project\n");
        assert!(shown.contains("line 2") && shown.contains('^'), "{shown}");
    }

    #[test]
    fn newer_schema_is_reported_before_unknown_keys() {
        let error = parse("gpubuild.toml", &format!("{}\n[future]\nx = 1\n", GOOD.replace("= 1", "= 2")))
            .unwrap_err();
        assert_eq!(error, ProjectError::Newer { path: "gpubuild.toml".into(), found: 2 });
    }

    #[test]
    fn shared_storage_is_a_url_without_credentials() {
        let cache = |remote: &str| format!("{GOOD}[cache]\nlauncher = \"ccache\"\nremote = {remote:?}\n");
        let (file, _) = parse("gpubuild.toml", &cache("redis://cache:6379")).unwrap();
        assert_eq!(file.cache.remote.as_deref(), Some("redis://cache:6379"));
        let shown = message(&cache("redis://:hunter2@cache:6379"));
        assert!(shown.contains("CCACHE_REMOTE_STORAGE") && !shown.contains("hunter2"), "{shown}");
        assert!(message(&cache("cache:6379")).contains("is not a URL"));
        assert!(message(&format!("{GOOD}[cache.languages]\nrust = \"sccache\"\n")).contains("rust"));
    }

    #[test]
    fn empty_folder_of_the_store_is_refused() {
        assert!(message(&format!("{GOOD}[cache]\nfolder = \"\"\n")).contains("`cache.folder` is empty"));
        assert!(parse("gpubuild.toml", &format!("{GOOD}[cache]\nfolder = \"store\"\n")).is_ok());
    }

    #[test]
    fn default_target_is_a_known_platform() {
        let of = |target: &str| parse("gpubuild.toml", &format!("{GOOD}[build]\ntarget = {target:?}\n"));
        for name in ["host", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu.2.28"] {
            assert_eq!(of(name).unwrap().0.build.target.as_deref(), Some(name));
        }
        for name in ["", "aarch64", "../x-linux-gnu"] {
            let shown = of(name).unwrap_err().to_string();
            assert!(shown.contains("`build.target`: ") && shown.contains("use one of"), "{shown}");
        }
    }

    #[test]
    fn unknown_profiles_and_unsafe_names_are_refused() {
        assert!(message(&GOOD.replace("\"gk\"", "\"gkk\"")).contains("known profiles: cmake, ggml, gk"));
        let longest = "n".repeat(MAX_NAME_LENGTH);
        assert!(parse("gpubuild.toml", &GOOD.replace("infer", &longest)).is_ok());
        let too_long = longest + "n";
        for name in ["", "../up", ".hidden", "a/b", "a b", too_long.as_str()] {
            assert!(
                message(&GOOD.replace("\"infer\"", &format!("{name:?}"))).contains("project.name"),
                "{name}"
            );
        }
    }
}
