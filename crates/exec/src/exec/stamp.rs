//! Records the inputs and outputs of a built tree, so that a build without changes runs no tools.

use std::collections::BTreeMap;

use gpubuild_core::order::{CollectSorted as _, SortIndirect as _};
use gpubuild_host::{Environment, HostPath, ReadFiles, find_program};
use gpubuild_plan::artifacts::{Artifact, BuiltTree, LinkItem};
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};

use super::changed;
use crate::cmake::file_api::FileApiReply;
use crate::store::contents::variable_hash;
use crate::store::files::{self, FileSnapshot};
use crate::store::implicit_inputs::{self, SearchedFolders};
use crate::store::sha256;
use crate::store::variables::tree_variables;

/// Version of the format. A stamp with another version is ignored.
const SCHEMA: u32 = 5;

/// The inputs and outputs of a built tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildStamp {
    schema: u32,
    /// [`key`] of the tree.
    pub key: String,
    /// The tree's key in the build store; `None` without a store, or if sources changed during the build.
    #[serde(default)]
    pub content: Option<String>,
    /// All files below the source folder before the build.
    pub sources: FileSnapshot,
    /// What CMake asked the system for.
    pub asked: AskedInputs,
    /// Files outside the source folder that CMake or compilers read, and the tools.
    pub outside: FileSnapshot,
    /// The artifacts.
    pub outputs: FileSnapshot,
    /// Paths of all files that CMake or compilers read, and of the tools. Build scripts pass them to cargo as
    /// `rerun-if-changed`.
    pub read: Vec<String>,
    /// The tree as recorded in the manifest.
    pub built: BuiltTree,
}

/// Inputs that CMake asks the system for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedInputs {
    /// Hashes of the environment variables that CMake scripts below the source folder name.
    pub variables: BTreeMap<String, String>,
    /// State of the git repository, if a script runs git.
    pub git: Option<String>,
    /// Folders in which CMake searches for programs and packages.
    pub searched: SearchedFolders,
    /// The programs that CMake found on PATH.
    pub programs: BTreeMap<String, String>,
    /// Hashes of the names in folders of the project beside the source folder.
    pub beside: BTreeMap<String, String>,
}

impl AskedInputs {
    /// Whether PATH has the same programs. They can only differ if `searched` does.
    #[must_use]
    pub fn finds_same_programs(&self, host: &dyn ReadFiles) -> bool {
        let is_first = |(name, path): (&String, &String)| {
            find_program(host, name).first().is_some_and(|first| first.as_str() == path)
        };
        self.programs.iter().all(is_first)
    }

    /// Whether the folders beside the source folder have the same names.
    #[must_use]
    pub fn has_same_names(&self, host: &dyn ReadFiles) -> bool {
        let folders = self.beside.keys().cloned().collect_set();
        implicit_inputs::names_beside(host, &folders) == self.beside
    }
}

impl BuildStamp {
    /// Creates the stamp of a tree that was just built.
    #[must_use]
    pub fn new(
        key: String,
        content: Option<String>,
        sources: FileSnapshot,
        outside: FileSnapshot,
        outputs: FileSnapshot,
        read: Vec<String>,
        built: BuiltTree,
    ) -> Self {
        let asked = AskedInputs::default();
        Self { schema: SCHEMA, key, content, sources, asked, outside, outputs, read, built }
    }

    /// Adds what CMake asked the system for.
    #[must_use]
    pub fn with_asked(self, asked: AskedInputs) -> Self {
        Self { asked, ..self }
    }

    /// Returns the stamp with new time stamps of sources and folders whose content is unchanged.
    #[must_use]
    pub fn with_times(self, sources: FileSnapshot, searched: SearchedFolders) -> Self {
        Self { sources, asked: AskedInputs { searched, ..self.asked }, ..self }
    }

    /// Path of a tree's stamp file.
    #[must_use]
    pub fn path(tree: &PlannedTree) -> HostPath {
        crate::cmake::own_folder(tree).join("stamp.json")
    }

    /// Reads the stamp of a tree; `None` if it is missing or has another version.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, tree: &PlannedTree) -> Option<Self> {
        Self::read_in(host, &tree.build)
    }

    /// Like [`Self::read`], for the path of a build folder.
    #[must_use]
    pub fn read_in(host: &dyn ReadFiles, build: &HostPath) -> Option<Self> {
        let path = crate::cmake::own_folder_in(build).join("stamp.json");
        crate::store::read_json(host, &path).filter(|stamp: &Self| stamp.schema == SCHEMA)
    }

    /// Whether the tree is up to date: options, sources, tools, headers and artifacts are unchanged.
    #[must_use]
    pub fn is_up_to_date(&self, host: &dyn ReadFiles, key: &str, sources: &FileSnapshot) -> bool {
        self.key == key
            && self.sources == *sources
            && self.asked.searched.are_unchanged(host)
            && self.is_rest_up_to_date(host)
    }

    /// Whether variables and git have the recorded values, tools and headers have the recorded sizes and times, and artifacts have their original content.
    #[must_use]
    pub fn is_rest_up_to_date(&self, host: &dyn ReadFiles) -> bool {
        let is_intact = |file: &Artifact| changed::is_intact(host, file, Some(&self.outputs));
        let is_same = |(name, hash): (&String, &String)| variable_hash(host.env(), name) == *hash;
        let source = host.path(&self.built.source);
        let is_same_commit = |git: &String| implicit_inputs::git_state(host, &source).as_ref() == Some(git);
        self.asked.variables.iter().all(is_same)
            && self.asked.git.as_ref().is_none_or(is_same_commit)
            && self.asked.has_same_names(host)
            && files::unchanged(host, &self.outside)
            && self.built.files.iter().all(is_intact)
    }

    /// Returns the stamp with the current times of the artifacts, if they differ. Placing a library next to a program
    /// creates a hard link, which changes its time; with the old times every later build would read the complete file.
    #[must_use]
    pub fn with_new_times(&self, host: &dyn ReadFiles) -> Option<Self> {
        let paths = self.built.files.iter().map(|file| file.path.as_str());
        let outputs = files::snapshot(host, paths);
        (outputs != self.outputs).then(|| Self { outputs, ..self.clone() })
    }
}

/// A hash of everything about a tree that is known before it is configured. Job limits are not included because they depend
/// on the free memory.
///
/// # Panics
/// Never: plain data always serialises.
#[must_use]
pub fn key(tree: &PlannedTree, env: &Environment) -> String {
    #[derive(Serialize)]
    struct StampParts<'a> {
        generator: &'a str,
        source: &'a str,
        build: &'a str,
        cache: &'a std::collections::BTreeMap<String, String>,
        targets: &'a [String],
        modules: &'a [String],
        folder: Option<&'a str>,
        choices: &'a [gpubuild_plan::project::profile::WantedOption],
        shims: Vec<&'a str>,
        plan_env: &'a std::collections::BTreeMap<String, String>,
        host_env: Vec<(&'a str, &'a str)>,
        version: &'a str,
    }
    let parts = StampParts {
        generator: &tree.generator,
        source: tree.source.as_str(),
        build: tree.build.as_str(),
        cache: &tree.cache,
        targets: &tree.targets,
        modules: &tree.modules,
        folder: tree.folder.as_deref(),
        choices: &tree.choices,
        shims: tree.shims.iter().map(|shim| shim.text.as_str()).collect(),
        plan_env: &tree.env,
        host_env: tree_variables(env, tree),
        version: env!("CARGO_PKG_VERSION"),
    };
    sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
}

/// Paths of all inputs of a tree that it did not generate: files that CMake and compilers read, external libraries on its
/// link line, the compilers and the tools.
#[must_use]
pub fn read_paths(
    tree: &PlannedTree,
    reply: &FileApiReply,
    built: &BuiltTree,
    depfiles: &[String],
    tools: &[&HostPath],
) -> Vec<String> {
    let compilers = built.compilers.values().map(|compiler| compiler.path.clone());
    let libraries = built.link.iter().filter_map(|item| match item {
        LinkItem::Static { path } | LinkItem::Shared { path } => Some(path.clone()),
        _ => None,
    });
    let tools = tools.iter().map(ToString::to_string);
    let mut paths: Vec<String> =
        reply.inputs.iter().chain(depfiles).cloned().chain(compilers).chain(libraries).chain(tools).collect();
    paths.retain(|path| {
        let is_generated = HostPath::new(tree.build.rules(), path).is_inside(&tree.build);
        !path.is_empty() && !is_generated
    });
    paths.sort_indirect();
    paths.dedup();
    paths
}

/// Absolute paths of the files that `ninja -t inputs` lists, which include inputs of steps without a depfile. The result
/// also contains names of targets, which callers must remove.
#[must_use]
pub fn parse_inputs(text: &str, build: &HostPath) -> Vec<String> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| build.join(line).normalized().to_string())
        .collect()
}

/// The objects that `ninja -t deps` lists with their dependencies, as absolute paths.
#[must_use]
pub fn deps_by_object(text: &str, build: &HostPath) -> Vec<(String, Vec<String>)> {
    let absolute = |path: &str| build.join(path).normalized().to_string();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("    ") {
            if let Some((_, paths)) = found.last_mut() {
                paths.push(absolute(path));
            }
        } else if let Some((object, _)) = line.split_once(": #deps ") {
            found.push((absolute(object), Vec::new()));
        }
    }
    found
}

/// Absolute paths of all dependencies that `ninja -t deps` lists.
#[must_use]
pub fn parse_deps(text: &str, build: &HostPath) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| !line.is_empty());
    let mut paths: Vec<String> = lines.map(|line| build.join(line).normalized().to_string()).collect();
    paths.sort_indirect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::variables::build_variables;
    use gpubuild_host::PathRules;

    #[test]
    fn dependencies_are_absolute() {
        let text = "a.o: #deps 2, deps mtime 17 (VALID)\n    ../src/a.c\n    /usr/include/stdio.h\n\nb.o: #deps 1, deps mtime 17 (VALID)\n    ../src/a.c\n\n";
        let build = HostPath::new(PathRules::Unix, "/p/b");
        assert_eq!(parse_deps(text, &build), ["/p/src/a.c", "/usr/include/stdio.h"]);
        assert_eq!(parse_inputs("../src/a.glsl\n/p/b/x.o\n", &build), ["/p/src/a.glsl", "/p/b/x.o"]);
        let by_object = deps_by_object(text, &build);
        assert_eq!(by_object.len(), 2);
        assert_eq!(by_object[1], ("/p/b/b.o".to_owned(), vec!["/p/src/a.c".to_owned()]));
    }

    #[test]
    fn variables_that_change_a_build_are_selected() {
        use gpubuild_host::Os;
        let variables = [("CXXFLAGS", "-g"), ("CMAKE_NEW", "1"), ("PATH", "/bin"), ("HOME", "/h")];
        let env = Environment::new(Os::Linux, variables);
        env.record_queries();
        assert_eq!(build_variables(&env), [("CMAKE_NEW", "1"), ("CXXFLAGS", "-g")]);
        let queried = env.queried_names();
        assert!(queried.iter().any(|name| name == "CC") && !queried.iter().any(|name| name == "PATH"));
    }
}
