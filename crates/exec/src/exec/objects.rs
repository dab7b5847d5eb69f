//! Reuse of the objects of single targets. If a complete tree is not in the build store, objects of its base libraries often
//! are, from another tree or another project with the same sources. CMake then only archives them.
//!
//! Ninja reports which command compiles which object. A target is reused only if all of its objects are stored and CMake's
//! link line stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::shell::cmake_bracket;
use gpubuild_host::{Host, HostPath};
use serde::Deserialize;

use super::stamp;
use crate::cmake::file_api::FileApiReply;
use crate::store::contents::{Contents, FileTrait};
use crate::store::files::FileSnapshot;
use crate::store::implicit_inputs::{self, ExternalHashes};
use crate::store::key::KeyParts;
use crate::store::roots::TreeRoots;
use crate::store::sha256;
use crate::store::table::{StampTable, may_be_included};

/// Kind of the store entries that contain the objects of a target.
pub(super) const OBJECTS: &str = "objects";

/// Text in compiler commands that refers to inputs which are not tracked, such as response files and precompiled headers.
const UNTRACKED_INPUTS: [&str; 7] =
    [".rsp", "@", ".modmap", "cmake_pch", "-include-pch", "-fprofile-use", "--options-file"];

/// A step in the output of `ninja -t compdb`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct CompileStep {
    pub(super) command: String,
    pub(super) file: String,
    pub(super) output: String,
}

/// A compiled target with all of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompiledTarget {
    pub(super) target: String,
    /// The objects.
    pub(super) units: Vec<CompileUnit>,
}

/// One object with its source and compiler command. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompileUnit {
    pub(super) language: String,
    pub(super) source: String,
    pub(super) object: String,
    /// Path of the object below the folder of its target.
    pub(super) name: String,
    pub(super) command: String,
}

/// Returns the library targets for which all objects are known, in CMake's order. Object libraries are not included.
pub(super) fn compiled(
    reply: &FileApiReply,
    steps: &[CompileStep],
    source: &HostPath,
    build: &HostPath,
) -> Vec<CompiledTarget> {
    let absolute = |path: &str| build.join(path).normalized().to_string();
    let mut by_target: BTreeMap<&str, Vec<(&CompileStep, &str)>> = BTreeMap::new();
    for step in steps {
        let Some((_, rest)) = step.output.rsplit_once("CMakeFiles/") else { continue };
        let Some((target, name)) = rest.split_once(".dir/") else { continue };
        if [".o", ".obj"].iter().any(|end| name.ends_with(end)) {
            by_target.entry(target).or_default().push((step, name));
        }
    }
    let mut found = Vec::new();
    for target in reply.targets.iter().filter(|target| target.kind.ends_with("_LIBRARY")) {
        let mut languages = BTreeMap::new();
        for group in &target.compile {
            for path in &group.sources {
                languages.insert(source.join(path).normalized().to_string(), group.language.clone());
            }
        }
        let steps = by_target.remove(target.name.as_str()).unwrap_or_default();
        let units: Option<Vec<CompileUnit>> = steps
            .into_iter()
            .map(|(step, name)| {
                let source = absolute(&step.file);
                Some(CompileUnit {
                    language: languages.get(&source)?.clone(),
                    source,
                    object: absolute(&step.output),
                    name: name.to_owned(),
                    command: step.command.clone(),
                })
            })
            .collect();
        let Some(units) = units.filter(|units| !units.is_empty() && units.len() == languages.len()) else {
            continue;
        };
        if target.kind != "OBJECT_LIBRARY" {
            found.push(CompiledTarget { target: target.name.clone(), units });
        }
    }
    found
}

/// Inputs of the keys of targets in addition to their commands.
pub(super) struct ObjectContext<'a, 'h> {
    pub(super) host: &'h dyn Host,
    pub(super) roots: &'a TreeRoots,
    pub(super) sources: &'a FileSnapshot,
    pub(super) contents: &'a Contents,
    pub(super) external: &'a mut ExternalHashes<'h>,
    /// The parts of the tree's key.
    pub(super) tree: &'a KeyParts,
    /// All outputs of the build.
    pub(super) outputs: &'a BTreeSet<String>,
    /// Hashes of the header names by folder.
    pub(super) layouts: BTreeMap<String, String>,
    /// Words of commands without a file.
    pub(super) without_file: BTreeSet<String>,
}

impl ObjectContext<'_, '_> {
    /// Returns the parts of a target's key; `None` if its objects have inputs that are unknown before compiling.
    pub(super) fn parts(&mut self, compiled: &CompiledTarget) -> Option<KeyParts> {
        let mut parts = KeyParts::default();
        for name in ["gpubuild", "environment"] {
            if let Some(items) = self.tree.0.get(name) {
                parts.0.insert(name.to_owned(), items.clone());
            }
        }
        if let Some(assembler) = self.tree.0.get("programs").and_then(|programs| programs.get("as")) {
            parts.set("programs", "as", assembler.clone());
        }
        for unit in &compiled.units {
            self.add(unit, &mut parts)?;
        }
        Some(parts)
    }

    fn add(&mut self, unit: &CompileUnit, parts: &mut KeyParts) -> Option<()> {
        // Assemblers do not report the files that they include.
        if UNTRACKED_INPUTS.iter().any(|word| unit.command.contains(word))
            || unit.language.starts_with("ASM")
            || self.outputs.contains(&unit.source)
        {
            return None;
        }
        let native = StampTable::embedded().native_words.iter().any(|word| unit.command.contains(word));
        if native {
            parts.set("processor", "", implicit_inputs::processor(self.host)?);
        }
        let source = match self.contents.files.get(&unit.source) {
            Some(known) if known.has(FileTrait::Embeds) => return None,
            Some(known) => known.sha256.clone(),
            None => self.external.hash(&unit.source)?,
        };
        if source.is_empty() {
            return None;
        }
        parts.set("sources", self.roots.with_placeholders(&unit.source), source);
        let words: Vec<&str> = unit.command.split_whitespace().collect();
        // The first two words are the launcher and the compiler, or the compiler and an argument.
        for program in words.iter().take(2).filter(|word| self.host.path(word).is_absolute()) {
            let path = self.host.path(program);
            let path = self.host.canonical(&path).unwrap_or(path);
            parts.set("programs", *program, self.external.hash(path.as_str())?);
        }
        for word in words.iter().skip(1) {
            self.add_named_files(word, unit, parts)?;
        }
        let command = without_outputs(&words, &unit.name);
        // The command includes flags from environment variables, which may be secret.
        parts.set_hashed("commands", &unit.name, &self.roots.with_placeholders(&command));
        let folder = self.host.path(&unit.source).parent()?;
        let mut folders = include_folders(&words)?;
        folders.push(folder.to_string());
        for folder in folders {
            let layout = self.layout(&folder);
            parts.set("headers", self.roots.with_placeholders(&folder), layout);
        }
        Some(())
    }

    /// Adds the files that a word of a command names, such as `-specs=FILE`. Compilers do not report all files that they read. `None`
    /// if the word names a folder with parts of the compiler.
    fn add_named_files(&mut self, word: &str, unit: &CompileUnit, parts: &mut KeyParts) -> Option<()> {
        if word.starts_with("-B") {
            return None;
        }
        if ["-D", "-I", "-isystem"].iter().any(|flag| word.starts_with(flag))
            || self.without_file.contains(word)
        {
            return Some(());
        }
        let mut is_without = true;
        for name in word.split(['=', ',']).filter(|name| name.contains(['/', '\\', '.'])) {
            let path = self.roots.build.join(name).normalized();
            if path.as_str() == unit.source || path.as_str() == unit.object || !self.host.is_file(&path) {
                continue;
            }
            is_without = false;
            let hash = self.external.hash(path.as_str())?;
            parts.set("files", self.roots.with_placeholders(path.as_str()), hash);
        }
        if is_without {
            self.without_file.insert(word.to_owned());
        }
        Some(())
    }

    /// Hash of the names in a folder that may be headers. A new header may shadow one in a later include folder.
    fn layout(&mut self, folder: &str) -> String {
        if let Some(layout) = self.layouts.get(folder) {
            return layout.clone();
        }
        let path = self.host.path(folder).normalized();
        let mut names: Vec<String> = if path.is_inside(&self.roots.source) {
            let start = format!("{}/", path.as_str().trim_end_matches('/'));
            let below = self.sources.keys().filter_map(|file| file.strip_prefix(&start));
            below.filter(|name| may_be_included(name)).map(str::to_owned).collect()
        } else {
            self.host.list(&path).unwrap_or_default()
        };
        if path.is_inside(&self.roots.build) {
            names.retain(|name| may_be_included(name));
        }
        let layout = sha256(names.join("\n").as_bytes());
        self.layouts.insert(folder.to_owned(), layout.clone());
        layout
    }
}

/// Returns a command without the paths of its outputs.
fn without_outputs(words: &[&str], name: &str) -> String {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if matches!(*word, "-o" | "-MF" | "-MT" | "-MQ") {
            words.next();
        } else if !word.ends_with(name) {
            kept.push(*word);
        }
    }
    kept.join(" ")
}

/// Returns the include folders of a command; `None` if a path is quoted or escaped.
fn include_folders(words: &[&str]) -> Option<Vec<String>> {
    const FLAGS: [&str; 5] = ["-isystem", "-iquote", "-idirafter", "-imsvc", "-I"];
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some((_, joined)) = FLAGS
            .iter()
            .find_map(|flag| word.split_at_checked(flag.len()).filter(|(start, _)| start == flag))
        else {
            continue;
        };
        let folder = if joined.is_empty() {
            (*words.next()?).to_owned()
        } else {
            joined.trim_start_matches('=').to_owned()
        };
        if folder.contains(['"', '\'', '\\']) {
            return None;
        }
        found.push(folder);
    }
    Some(found)
}

/// Returns the headers that the objects of a target depend on, from Ninja's dependency log. `None` if the log has no entry
/// for an object, or if a header was generated by the build.
pub(super) fn closure(
    compiled: &CompiledTarget,
    deps: &[(String, Vec<String>)],
    outputs: &BTreeSet<String>,
) -> Option<BTreeSet<String>> {
    let deps: BTreeMap<&str, &Vec<String>> =
        deps.iter().map(|(object, paths)| (object.as_str(), paths)).collect_map();
    let mut all = BTreeSet::new();
    for unit in &compiled.units {
        let paths = deps.get(unit.object.as_str())?;
        if paths.iter().any(|path| outputs.contains(path)) {
            return None;
        }
        all.extend(paths.iter().filter(|path| **path != unit.source).cloned());
    }
    Some(all)
}

/// Parses the outputs of the build from `ninja -t targets all`.
pub(super) fn outputs(text: &str, build: &HostPath) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.rsplit_once(": ")).map(|(name, _)| name);
    names.map(|name| build.join(name).normalized().to_string()).collect()
}

/// Renders the CMake script that replaces sources with the objects in `folder`.
pub(super) fn script(reused: &[CompiledTarget], folder: &HostPath) -> String {
    let mut text = String::from("# Written by gpubuild: targets whose objects are from the build store.\n");
    for one in reused {
        let list = |values: Vec<String>| cmake_bracket(&values.join(";"));
        let objects =
            one.units.iter().map(|unit| folder.join(&one.target).join(&unit.name).forward_slashes());
        let sources = one.units.iter().map(|unit| unit.source.replace('\\', "/"));
        let languages = one.units.iter().map(|unit| unit.language.clone());
        let lists = [list(sources.collect()), list(objects.collect()), list(languages.collect())].join(" ");
        let _ = writeln!(text, "gpubuild_reuse({} {lists})", cmake_bracket(&one.target));
    }
    text
}

/// Parses the output of `ninja -t compdb`.
pub(super) fn steps(text: &str) -> Vec<CompileStep> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Parses the output of `ninja -t deps`: objects with their dependencies.
pub(super) fn deps(text: &str, build: &HostPath) -> Vec<(String, Vec<String>)> {
    stamp::deps_by_object(text, build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outputs_are_removed_from_commands() {
        let command = "/usr/bin/cc -DX=1 -I/s/include -isystem /opt/x -O3 -MD -MT CMakeFiles/t.dir/a.c.o -MF CMakeFiles/t.dir/a.c.o.d -o CMakeFiles/t.dir/a.c.o -c /s/a.c";
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(
            without_outputs(&words, "a.c.o"),
            "/usr/bin/cc -DX=1 -I/s/include -isystem /opt/x -O3 -MD -c /s/a.c"
        );
        assert_eq!(include_folders(&words).unwrap(), ["/s/include", "/opt/x"]);
        assert_eq!(include_folders(&["-I\"/a", "b\""]), None);
    }
}
