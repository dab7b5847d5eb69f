//! `compile_commands.json`: how each source of the last build is compiled, in arguments that clang understands, for clangd and
//! other tools that are based on clang.

mod arguments;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::ReadFiles;
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use gpubuild_plan::target::Target;
use serde::Serialize;

use crate::exec::editor::{EditorInfo, SourceGroup};

/// How a source is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompileCommand {
    /// The working directory: the build folder of the tree, or that of a custom command.
    pub directory: String,
    /// The source.
    pub file: String,
    /// The compiler and its arguments.
    pub arguments: Vec<String>,
}

/// The record of a tree's sources is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSources {
    /// Id of the tree.
    pub tree: String,
}

/// Returns the commands for all sources of a build, by file. A source of several trees appears once: as the CPU backend compiles
/// it, otherwise as the first tree does, and with CUDA before HIP.
///
/// # Errors
/// The sources of a tree are unknown.
pub fn database(host: &dyn ReadFiles, manifest: &Manifest) -> Result<Vec<CompileCommand>, UnknownSources> {
    let mut trees: Vec<&BuiltTree> = manifest.trees.iter().collect();
    // The tree with the fewest backends besides the CPU defines the fewest macros of other backends.
    trees.sort_indirect_by_key(|tree| (!tree.backends.contains(&Backend::Cpu), tree.backends.len()));
    let target = manifest.target.as_ref().and_then(|target| Target::parse(&target.name).ok());
    let target = target.map(|target| target.triple);
    let mut found: BTreeMap<String, (u8, CompileCommand)> = BTreeMap::new();
    for tree in trees {
        let unknown = || UnknownSources { tree: tree.id.clone() };
        let editor = EditorInfo::read(host, &host.path(&tree.build)).ok_or_else(unknown)?;
        for group in editor.groups.as_ref().ok_or_else(unknown)? {
            let Some(rank) = rank(&group.language) else { continue };
            // The commands of CMake's own languages come first.
            let rank = if group.compiler.is_some() { rank + 3 } else { rank };
            for file in &group.sources {
                let key = host.path(file).key();
                if found.get(&key).is_some_and(|(before, _)| *before <= rank) {
                    continue;
                }
                let mut command = command(host, tree, &editor, group, file);
                if let Some(target) = &target {
                    command.arguments.insert(1, format!("--target={target}"));
                }
                found.insert(key, (rank, command));
            }
        }
    }
    Ok(found.into_values().map(|(_, command)| command).collect())
}

/// The order of preference among languages for one file; `None` for languages that clang does not parse.
fn rank(language: &str) -> Option<u8> {
    match language {
        "C" | "CXX" | "OBJC" | "OBJCXX" => Some(0),
        "CUDA" => Some(1),
        "HIP" => Some(2),
        _ => None,
    }
}

fn command(
    host: &dyn ReadFiles,
    tree: &BuiltTree,
    editor: &EditorInfo,
    group: &SourceGroup,
    file: &str,
) -> CompileCommand {
    let mut arguments = arguments::of(host, tree, editor, group);
    arguments.extend(["-c".to_owned(), file.to_owned()]);
    let directory = group.directory.clone().unwrap_or_else(|| tree.build.clone());
    CompileCommand { directory, file: file.to_owned(), arguments }
}
