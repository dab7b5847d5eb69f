//! What a tree was built from, so that a build with nothing changed starts nothing.

use gpubuild_host::{Environment, HostPath, ReadFiles};
use gpubuild_plan::artifacts::{Artifact, BuiltTree, LinkItem};
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};

use super::changed;
use crate::cmake::file_api::FileApiReply;
use crate::store::files::{self, FileSnapshot};
use crate::store::listened::listened;
use crate::store::sha256;

/// Version of the form; another one is as good as no stamp.
const SCHEMA: u32 = 3;

/// What a tree was built from and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildStamp {
    schema: u32,
    /// [`key`] of the tree.
    pub key: String,
    /// The key of its content in a store, where one is used and nothing changed during the build.
    #[serde(default)]
    pub content: Option<String>,
    /// Every file below the source folder before the build.
    pub sources: FileSnapshot,
    /// Files elsewhere that configuring or compiling read, and the tools.
    pub outside: FileSnapshot,
    /// The files that were built.
    pub outputs: FileSnapshot,
    /// Every file that configuring or compiling read, and the tools: what a build script has cargo watch.
    pub read: Vec<String>,
    /// What goes into the manifest.
    pub built: BuiltTree,
}

impl BuildStamp {
    /// The stamp of a tree that was just built.
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
        Self { schema: SCHEMA, key, content, sources, outside, outputs, read, built }
    }

    /// The same with sources of the same content that look different.
    #[must_use]
    pub fn looking_like(self, sources: FileSnapshot) -> Self {
        Self { sources, ..self }
    }

    /// Where a tree keeps it.
    #[must_use]
    pub fn path(tree: &PlannedTree) -> HostPath {
        crate::cmake::own_folder(tree).join("stamp.json")
    }

    /// The stamp that a tree has, if it is of this form.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, tree: &PlannedTree) -> Option<Self> {
        Self::read_in(host, &tree.build)
    }

    /// The same for the build folder of a tree.
    #[must_use]
    pub fn read_in(host: &dyn ReadFiles, build: &HostPath) -> Option<Self> {
        let path = crate::cmake::own_folder_in(build).join("stamp.json");
        crate::store::read_json(host, &path).filter(|stamp: &Self| stamp.schema == SCHEMA)
    }

    /// Whether nothing changed: same options, same sources, same tools and headers, and what was built is still there.
    #[must_use]
    pub fn holds(&self, host: &dyn ReadFiles, key: &str, sources: &FileSnapshot) -> bool {
        self.key == key && self.sources == *sources && self.rest_holds(host)
    }

    /// Whether tools and headers look as they did, and the artifacts have the content that they were built with.
    #[must_use]
    pub fn rest_holds(&self, host: &dyn ReadFiles) -> bool {
        let is_intact = |file: &Artifact| changed::is_intact(host, file, Some(&self.outputs));
        files::unchanged(host, &self.outside) && self.built.files.iter().all(is_intact)
    }

    /// The same with the present times of artifacts, if they differ: placing a library beside a program makes a second link
    /// of it, which changes them. Without new times every later build would read the whole file.
    #[must_use]
    pub fn with_new_times(&self, host: &dyn ReadFiles) -> Option<Self> {
        let paths = self.built.files.iter().map(|file| file.path.as_str());
        let outputs = files::snapshot(host, paths);
        (outputs != self.outputs).then(|| Self { outputs, ..self.clone() })
    }
}

/// A hash over everything about a tree that is decided before it is configured. Limits on jobs are not in it: they follow
/// the memory that happens to be free.
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
        host_env: listened(env),
        version: env!("CARGO_PKG_VERSION"),
    };
    sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
}

/// Paths of everything that a tree was made from and that it did not make itself: what configuring and compiling read,
/// the libraries of others on its link line, the compilers and the tools.
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
        let made_here = HostPath::new(tree.build.rules(), path).is_inside(&tree.build);
        !path.is_empty() && !made_here
    });
    paths.sort();
    paths.dedup();
    paths
}

/// The files that `ninja -t inputs` lists, absolute: also what steps without a depfile read. Names of targets among them
/// are no files and fall away later.
#[must_use]
pub fn parse_inputs(text: &str, build: &HostPath) -> Vec<String> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| build.join(line).normalized().to_string())
        .collect()
}

/// The objects that `ninja -t deps` lists with the files that each was made of, all absolute.
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

/// The files that `ninja -t deps` lists, absolute.
#[must_use]
pub fn parse_deps(text: &str, build: &HostPath) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| !line.is_empty());
    let mut paths: Vec<String> = lines.map(|line| build.join(line).normalized().to_string()).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::PathRules;

    #[test]
    fn dependencies_are_made_absolute() {
        let text = "a.o: #deps 2, deps mtime 17 (VALID)\n    ../src/a.c\n    /usr/include/stdio.h\n\nb.o: #deps 1, deps mtime 17 (VALID)\n    ../src/a.c\n\n";
        let build = HostPath::new(PathRules::Unix, "/p/b");
        assert_eq!(parse_deps(text, &build), ["/p/src/a.c", "/usr/include/stdio.h"]);
        assert_eq!(parse_inputs("../src/a.glsl\n/p/b/x.o\n", &build), ["/p/src/a.glsl", "/p/b/x.o"]);
        let by_object = deps_by_object(text, &build);
        assert_eq!(by_object.len(), 2);
        assert_eq!(by_object[1], ("/p/b/b.o".to_owned(), vec!["/p/src/a.c".to_owned()]));
    }

    #[test]
    fn variables_that_change_a_build_are_known() {
        use gpubuild_host::Os;
        let heard = [("CXXFLAGS", "-g"), ("CMAKE_NEW", "1"), ("PATH", "/bin"), ("HOME", "/h")];
        let env = Environment::new(Os::Linux, heard);
        env.listen();
        assert_eq!(listened(&env), [("CMAKE_NEW", "1"), ("CXXFLAGS", "-g")]);
        let asked = env.asked();
        assert!(asked.iter().any(|name| name == "CC") && !asked.iter().any(|name| name == "PATH"));
    }
}
