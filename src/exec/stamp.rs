//! What a tree was built from, so that a build with nothing changed starts nothing.

use serde::{Deserialize, Serialize};

use crate::artifacts::{BuiltTree, LinkItem};
use crate::cmake::file_api::Reply;
use crate::host::{Environment, Host, HostPath};
use crate::plan::Tree;
use crate::store::files::{self, Snapshot};
use crate::store::sha256;

/// Version of the form; another one is as good as no stamp.
const SCHEMA: u32 = 1;

/// What a tree was built from and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    schema: u32,
    /// [`key`] of the tree.
    pub key: String,
    /// Every file below the source folder before the build.
    pub sources: Snapshot,
    /// Files elsewhere that configuring or compiling read, and the tools.
    pub outside: Snapshot,
    /// The files that were built.
    pub outputs: Snapshot,
    /// What goes into the manifest.
    pub built: BuiltTree,
}

impl Stamp {
    /// The stamp of a tree that was just built.
    #[must_use]
    pub fn new(
        key: String,
        sources: Snapshot,
        outside: Snapshot,
        outputs: Snapshot,
        built: BuiltTree,
    ) -> Self {
        Self { schema: SCHEMA, key, sources, outside, outputs, built }
    }

    /// Where a tree keeps it.
    #[must_use]
    pub fn path(tree: &Tree) -> HostPath {
        crate::cmake::own_folder(tree).join("stamp.json")
    }

    /// The stamp that a tree has, if it is of this form.
    #[must_use]
    pub fn read(host: &dyn Host, tree: &Tree) -> Option<Self> {
        crate::store::read_json(host, &Self::path(tree)).filter(|stamp: &Self| stamp.schema == SCHEMA)
    }

    /// Whether nothing changed: same options, same sources, same tools and headers, and what was built is still there.
    #[must_use]
    pub fn holds(&self, host: &dyn Host, key: &str, sources: &Snapshot) -> bool {
        self.key == key
            && self.sources == *sources
            && files::unchanged(host, &self.outside)
            && files::unchanged(host, &self.outputs)
    }
}

/// A hash over everything about a tree that is decided before it is configured. Limits on jobs are not in it: they follow
/// the memory that happens to be free.
///
/// # Panics
/// Never: plain data always serialises.
#[must_use]
pub fn key(tree: &Tree, env: &Environment) -> String {
    #[derive(Serialize)]
    struct Parts<'a> {
        generator: &'a str,
        source: &'a str,
        build: &'a str,
        cache: &'a std::collections::BTreeMap<String, String>,
        targets: &'a [String],
        plan_env: &'a std::collections::BTreeMap<String, String>,
        host_env: Vec<(&'a str, &'a str)>,
        version: &'a str,
    }
    let parts = Parts {
        generator: &tree.generator,
        source: tree.source.as_str(),
        build: tree.build.as_str(),
        cache: &tree.cache,
        targets: &tree.targets,
        plan_env: &tree.env,
        host_env: env.iter().filter(|(name, _)| matters(name)).collect(),
        version: env!("CARGO_PKG_VERSION"),
    };
    sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
}

/// Variables that compilers and CMake listen to.
fn matters(name: &str) -> bool {
    const NAMES: [&str; 26] = [
        "CC",
        "CXX",
        "CUDACXX",
        "CUDAHOSTCXX",
        "HIPCXX",
        "OBJC",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "CUDAFLAGS",
        "HIPFLAGS",
        "LDFLAGS",
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "CUDA_PATH",
        "CUDA_HOME",
        "ROCM_PATH",
        "HIP_PATH",
        "VULKAN_SDK",
        "PKG_CONFIG_PATH",
        "SDKROOT",
        "MACOSX_DEPLOYMENT_TARGET",
        "INCLUDE",
        "LIB",
    ];
    NAMES.contains(&name) || name.starts_with("CMAKE_") || name.starts_with("NVCC_")
}

/// Paths of everything that a tree depends on and that is neither among its `sources` nor made by itself.
#[must_use]
pub fn outside_paths(
    tree: &Tree,
    reply: &Reply,
    built: &BuiltTree,
    depfiles: &[String],
    tools: &[&HostPath],
    sources: &Snapshot,
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
        !path.is_empty() && !made_here && !sources.contains_key(path)
    });
    paths.sort();
    paths.dedup();
    paths
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
    use crate::host::PathRules;

    #[test]
    fn dependencies_are_made_absolute() {
        let text = "a.o: #deps 2, deps mtime 17 (VALID)\n    ../src/a.c\n    /usr/include/stdio.h\n\nb.o: #deps 1, deps mtime 17 (VALID)\n    ../src/a.c\n\n";
        let build = HostPath::new(PathRules::Unix, "/p/b");
        assert_eq!(parse_deps(text, &build), ["/p/src/a.c", "/usr/include/stdio.h"]);
    }

    #[test]
    fn variables_that_change_a_build_are_known() {
        assert!(matters("CXXFLAGS") && matters("CMAKE_PREFIX_PATH") && !matters("PATH") && !matters("HOME"));
    }
}
