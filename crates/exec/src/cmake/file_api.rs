//! CMake's file API: the query that gpubuild writes, and a reader for CMake's reply.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::{CollectSorted as _, SortIndirect as _};
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::artifacts::Compiler;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The content of the query file, which must exist before CMake configures.
pub const QUERY: &str = r#"{"requests":[{"kind":"codemodel","version":2},{"kind":"toolchains","version":1},{"kind":"cache","version":2},{"kind":"cmakeFiles","version":1}]}
"#;

/// The path of the query file in a build tree.
#[must_use]
pub fn query_path(build: &HostPath) -> HostPath {
    build.join(".cmake/api/v1/query/client-gpubuild/query.json")
}

/// Why CMake's reply could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileApiError {
    /// CMake wrote no reply.
    #[error("CMake wrote no file API reply to `{folder}`")]
    NoReply {
        /// The reply folder.
        folder: String,
    },
    /// CMake wrote an error file instead of a reply.
    #[error("CMake's file API reported an error: {message}")]
    Refused {
        /// The content of the error file, on one line.
        message: String,
    },
    /// A reply file is missing or malformed.
    #[error("failed to read CMake's file API reply `{path}`: {message}")]
    Broken {
        /// The file.
        path: String,
        /// The I/O or JSON error.
        message: String,
    },
}

/// The parts of CMake's reply for a configured tree that gpubuild uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileApiReply {
    /// The targets of the requested configuration.
    pub targets: Vec<CmakeTarget>,
    /// Compilers by language.
    pub compilers: BTreeMap<String, CmakeToolchain>,
    /// Cache entries by name.
    pub cache: BTreeMap<String, String>,
    /// Names of the `FILEPATH` cache entries that end in `-NOTFOUND`, without those of CMake itself.
    pub unfound: Vec<String>,
    /// Names of the entries that scripts of the project keep in the cache: options, and what they found.
    pub kept: Vec<String>,
    /// Absolute paths of all files that CMake read while configuring, without generated files.
    pub inputs: Vec<String>,
    /// The files of `inputs` that are not part of CMake.
    pub scripts: Vec<String>,
    /// Version of the CMake that wrote the reply.
    pub cmake_version: String,
}

/// A target of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmakeTarget {
    /// Its name.
    pub name: String,
    /// `STATIC_LIBRARY`, `SHARED_LIBRARY`, `MODULE_LIBRARY`, `EXECUTABLE`, `INTERFACE_LIBRARY`, …
    pub kind: String,
    /// Files that it produces, absolute.
    pub artifacts: Vec<String>,
    /// Fragments of its link line in order; empty for libraries that are archives.
    pub link: Vec<Fragment>,
    /// Language that drives its linker.
    pub link_language: Option<String>,
    /// Its sources, grouped by compiler flags.
    pub compile: Vec<Compile>,
    /// Include folders, absolute, in search order.
    pub includes: Vec<String>,
    /// Preprocessor definitions: `NAME` or `NAME=value`.
    pub defines: Vec<String>,
}

/// Sources that are compiled with the same flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compile {
    /// `C`, `CXX`, `CUDA`.
    pub language: String,
    /// Fragments of the command line.
    pub flags: Vec<String>,
    /// Include folders, absolute, in search order.
    pub includes: Vec<IncludeFolder>,
    /// Preprocessor definitions: `NAME` or `NAME=value`.
    pub defines: Vec<String>,
    /// The language standard that the project requires: `17`. CMake adds no flag if it is the compiler's default.
    pub standard: Option<String>,
    /// The root folder of the target system's headers and libraries, if the project sets one.
    pub sysroot: Option<String>,
    /// Paths, absolute or relative to the top source folder.
    pub sources: Vec<String>,
}

/// A folder in which a compiler searches headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncludeFolder {
    /// The folder.
    pub path: String,
    /// Whether its headers cause no warnings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system: bool,
}

/// A fragment of a link line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fragment {
    /// The text, escaped for the shell that the generator writes for.
    pub fragment: String,
    /// `flags`, `libraries`, `libraryPath`, `frameworkPath`.
    pub role: String,
}

/// A compiler with the include folders and libraries that it uses without options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmakeToolchain {
    /// The compiler.
    pub compiler: Compiler,
    /// Folders in which the compiler searches headers.
    pub implicit_includes: Vec<String>,
    /// Libraries that the compiler driver adds to every link.
    pub implicit_libraries: Vec<String>,
}

impl FileApiReply {
    /// The scripts that may read environment variables: those that are not part of CMake, and CMake's own that find packages.
    #[must_use]
    pub fn asking_scripts(&self) -> BTreeSet<&String> {
        let finds = self.inputs.iter().filter(|path| path.contains("/Find"));
        self.scripts.iter().chain(finds).collect_set()
    }

    /// The target named `name`.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&CmakeTarget> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// Reads the newest reply in a build folder.
///
/// # Errors
/// The reply is missing or malformed.
pub fn read(
    host: &dyn ReadFiles,
    build: &HostPath,
    configuration: &str,
) -> Result<FileApiReply, FileApiError> {
    let folder = build.join(".cmake/api/v1/reply");
    let names = host.list(&folder).unwrap_or_default();
    let newest = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).max();
    // Both names end in a time stamp that sorts as text. An error file matters only if it is newer than the last index.
    let (index, error) = (newest("index-"), newest("error-"));
    let time =
        |name: Option<&String>| name.and_then(|name| name.split_once('-')).map(|(_, rest)| rest.to_owned());
    if let Some(name) = error.filter(|_| time(error) > time(index)) {
        let message = host.read_text(&folder.join(name)).unwrap_or_default();
        return Err(FileApiError::Refused {
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
        });
    }
    let index = index.ok_or_else(|| FileApiError::NoReply { folder: folder.to_string() })?;
    let reader = ReplyReader { host, folder: &folder, build };
    reader.reply(index, configuration)
}

struct ReplyReader<'a> {
    host: &'a dyn ReadFiles,
    folder: &'a HostPath,
    build: &'a HostPath,
}

impl ReplyReader<'_> {
    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, FileApiError> {
        let path = self.folder.join(name);
        let broken = |message: String| FileApiError::Broken { path: path.to_string(), message };
        let bytes = self.host.read(&path).map_err(|error| broken(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))
    }

    fn reply(&self, index: &str, configuration: &str) -> Result<FileApiReply, FileApiError> {
        let index_file: raw::IndexReply = self.json(index)?;
        let object = |kind: &str| index_file.objects.iter().find(|object| object.kind == kind);
        let mut reply =
            FileApiReply { cmake_version: index_file.cmake.version.string, ..FileApiReply::default() };
        let codemodel = object("codemodel").ok_or_else(|| FileApiError::Broken {
            path: self.folder.join(index).to_string(),
            message: "the index lists no codemodel".to_owned(),
        })?;
        let codemodel: raw::Codemodel = self.json(&codemodel.json_file)?;
        let chosen = codemodel
            .configurations
            .iter()
            .find(|entry| entry.name.eq_ignore_ascii_case(configuration))
            .or_else(|| codemodel.configurations.first());
        for entry in chosen.map(|entry| entry.targets.as_slice()).unwrap_or_default() {
            let target: raw::TargetReply = self.json(&entry.json_file)?;
            reply.targets.push(self.target(target));
        }
        if let Some(object) = object("toolchains") {
            let file: raw::Toolchains = self.json(&object.json_file)?;
            reply.compilers = file.toolchains.into_iter().map(raw::ToolchainReply::into_entry).collect();
        }
        if let Some(object) = object("cache") {
            let file: raw::CacheReply = self.json(&object.json_file)?;
            let not_found = |entry: &&raw::CacheEntry| {
                entry.kind == "FILEPATH"
                    && entry.value.ends_with("-NOTFOUND")
                    && !entry.name.starts_with("CMAKE_")
            };
            reply.unfound = file.entries.iter().filter(not_found).map(|entry| entry.name.clone()).collect();
            let is_kept = |entry: &&raw::CacheEntry| {
                let is_value = ["BOOL", "STRING", "PATH", "FILEPATH"].contains(&entry.kind.as_str());
                is_value && !entry.name.starts_with("CMAKE_")
            };
            reply.kept = file.entries.iter().filter(is_kept).map(|entry| entry.name.clone()).collect();
            reply.cache = file.entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
        }
        if let Some(object) = object("cmakeFiles") {
            let file: raw::CmakeFiles = self.json(&object.json_file)?;
            let source = self.host.path(&file.paths.source);
            for input in file.inputs.into_iter().filter(|input| !input.is_generated) {
                let path = source.join(&input.path).normalized().to_string();
                if !input.is_cmake {
                    reply.scripts.push(path.clone());
                }
                reply.inputs.push(path);
            }
            for list in [&mut reply.inputs, &mut reply.scripts] {
                list.sort_indirect();
                list.dedup();
            }
        }
        Ok(reply)
    }

    fn target(&self, target: raw::TargetReply) -> CmakeTarget {
        let absolute = |path: &str| self.build.join(path).normalized().to_string();
        let link = target.link.unwrap_or_default();
        let source = |index: &usize| target.sources.get(*index).map(|source| source.path.clone());
        let compile = target.compile_groups.iter().map(|group| Compile {
            language: group.language.clone(),
            flags: group.fragments.iter().map(|piece| piece.fragment.clone()).collect(),
            includes: (group.includes.iter())
                .map(|entry| IncludeFolder { path: absolute(&entry.path), system: entry.is_system })
                .collect(),
            defines: group.defines.iter().map(|entry| entry.define.clone()).collect(),
            standard: group.standard.as_ref().map(|entry| entry.standard.clone()),
            sysroot: group.sysroot.as_ref().map(|entry| absolute(&entry.path)),
            sources: group.source_indexes.iter().filter_map(source).collect(),
        });
        let groups = &target.compile_groups;
        let includes = groups.iter().flat_map(|group| &group.includes).map(|entry| absolute(&entry.path));
        let defines = groups.iter().flat_map(|group| &group.defines).map(|entry| entry.define.clone());
        CmakeTarget {
            includes: without_repeats(includes),
            defines: without_repeats(defines),
            compile: compile.collect(),
            name: target.name,
            kind: target.kind,
            artifacts: target.artifacts.iter().map(|artifact| absolute(&artifact.path)).collect(),
            link: link.command_fragments,
            link_language: link.language,
        }
    }
}

fn without_repeats(list: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    list.filter(|entry| seen.insert(entry.clone())).collect()
}

/// The JSON format of the reply files.
mod raw {
    use serde::Deserialize;

    use gpubuild_plan::artifacts::Compiler;

    #[derive(Deserialize)]
    pub(super) struct IndexReply {
        pub(super) cmake: Cmake,
        pub(super) objects: Vec<TargetReference>,
    }

    #[derive(Deserialize)]
    pub(super) struct Cmake {
        pub(super) version: CmakeVersion,
    }

    #[derive(Deserialize)]
    pub(super) struct CmakeVersion {
        pub(super) string: String,
    }

    #[derive(Deserialize)]
    pub(super) struct TargetReference {
        pub(super) kind: String,
        #[serde(rename = "jsonFile")]
        pub(super) json_file: String,
    }

    #[derive(Deserialize)]
    pub(super) struct Codemodel {
        pub(super) configurations: Vec<ConfigurationReply>,
    }

    #[derive(Deserialize)]
    pub(super) struct ConfigurationReply {
        #[serde(default)]
        pub(super) name: String,
        #[serde(default)]
        pub(super) targets: Vec<TargetEntry>,
    }

    #[derive(Deserialize)]
    pub(super) struct TargetEntry {
        #[serde(rename = "jsonFile")]
        pub(super) json_file: String,
    }

    #[derive(Deserialize)]
    pub(super) struct TargetReply {
        pub(super) name: String,
        #[serde(rename = "type")]
        pub(super) kind: String,
        #[serde(default)]
        pub(super) artifacts: Vec<PathEntry>,
        pub(super) link: Option<LinkReply>,
        #[serde(default)]
        pub(super) sources: Vec<PathEntry>,
        #[serde(default, rename = "compileGroups")]
        pub(super) compile_groups: Vec<CompileGroupReply>,
    }

    #[derive(Deserialize)]
    pub(super) struct CompileGroupReply {
        #[serde(default)]
        pub(super) language: String,
        #[serde(default, rename = "compileCommandFragments")]
        pub(super) fragments: Vec<FragmentReply>,
        #[serde(default, rename = "sourceIndexes")]
        pub(super) source_indexes: Vec<usize>,
        #[serde(default)]
        pub(super) includes: Vec<IncludeReply>,
        #[serde(default)]
        pub(super) defines: Vec<Define>,
        #[serde(rename = "languageStandard")]
        pub(super) standard: Option<StandardReply>,
        pub(super) sysroot: Option<PathEntry>,
    }

    #[derive(Deserialize)]
    pub(super) struct StandardReply {
        pub(super) standard: String,
    }

    #[derive(Deserialize)]
    pub(super) struct IncludeReply {
        pub(super) path: String,
        #[serde(default, rename = "isSystem")]
        pub(super) is_system: bool,
    }

    #[derive(Deserialize)]
    pub(super) struct Define {
        pub(super) define: String,
    }

    #[derive(Deserialize)]
    pub(super) struct FragmentReply {
        pub(super) fragment: String,
    }

    #[derive(Deserialize)]
    pub(super) struct PathEntry {
        pub(super) path: String,
    }

    #[derive(Deserialize, Default)]
    pub(super) struct LinkReply {
        pub(super) language: Option<String>,
        #[serde(default, rename = "commandFragments")]
        pub(super) command_fragments: Vec<super::Fragment>,
    }

    #[derive(Deserialize)]
    pub(super) struct Toolchains {
        pub(super) toolchains: Vec<ToolchainReply>,
    }

    #[derive(Deserialize)]
    pub(super) struct ToolchainReply {
        language: String,
        compiler: RawCompiler,
    }

    #[derive(Deserialize)]
    struct RawCompiler {
        #[serde(default)]
        id: String,
        #[serde(default)]
        version: String,
        #[serde(default)]
        path: String,
        #[serde(default)]
        implicit: Implicit,
    }

    #[derive(Deserialize, Default)]
    struct Implicit {
        #[serde(default, rename = "includeDirectories")]
        include_directories: Vec<String>,
        #[serde(default, rename = "linkLibraries")]
        link_libraries: Vec<String>,
    }

    impl ToolchainReply {
        pub(super) fn into_entry(self) -> (String, super::CmakeToolchain) {
            let RawCompiler { id, version, path, implicit } = self.compiler;
            let toolchain = super::CmakeToolchain {
                compiler: Compiler { id, version, path },
                implicit_includes: implicit.include_directories,
                implicit_libraries: implicit.link_libraries,
            };
            (self.language, toolchain)
        }
    }

    #[derive(Deserialize)]
    pub(super) struct CacheReply {
        pub(super) entries: Vec<CacheEntry>,
    }

    #[derive(Deserialize)]
    pub(super) struct CacheEntry {
        pub(super) name: String,
        pub(super) value: String,
        #[serde(default, rename = "type")]
        pub(super) kind: String,
    }

    #[derive(Deserialize)]
    pub(super) struct CmakeFiles {
        pub(super) paths: Paths,
        #[serde(default)]
        pub(super) inputs: Vec<Input>,
    }

    #[derive(Deserialize)]
    pub(super) struct Paths {
        pub(super) source: String,
    }

    #[derive(Deserialize)]
    pub(super) struct Input {
        pub(super) path: String,
        #[serde(default, rename = "isGenerated")]
        pub(super) is_generated: bool,
        #[serde(default, rename = "isCMake")]
        pub(super) is_cmake: bool,
    }
}
