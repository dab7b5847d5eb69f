//! Objects of single targets: where a whole tree is not in the store, its base libraries often are, from another tree or
//! another project with the same sources. CMake then only archives what was compiled there.
//!
//! Which command compiles which object is Ninja's own word. A target is taken only whole, and only if the link line that
//! CMake works out stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gpubuild_core::shell::cmake_bracket;
use gpubuild_host::{Host, HostPath};
use serde::Deserialize;

use super::stamp;
use crate::cmake::file_api::FileApiReply;
use crate::store::contents::Contents;
use crate::store::files::FileSnapshot;
use crate::store::key::KeyParts;
use crate::store::places::Places;
use crate::store::sha256;
use crate::store::surroundings::{self, RelocatedFolders};
use crate::store::table::{StampTable, has_extension};

/// Kind of the entries that hold the objects of a target.
pub(super) const OBJECTS: &str = "objects";

/// Words in a command of which the result depends on more than the command shows.
const UNTOLD: [&str; 7] =
    [".rsp", "@", ".modmap", "cmake_pch", "-include-pch", "-fprofile-use", "--options-file"];

/// A step of Ninja: `ninja -t compdb`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct CompileStep {
    pub(super) command: String,
    pub(super) file: String,
    pub(super) output: String,
}

/// A target that is compiled, with all of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompiledObject {
    pub(super) target: String,
    /// Language, source and object, both absolute, and the command.
    pub(super) units: Vec<CompileUnit>,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompileUnit {
    pub(super) language: String,
    pub(super) source: String,
    pub(super) object: String,
    /// The object's path below the folder of its target.
    pub(super) name: String,
    pub(super) command: String,
}

/// The targets of which every object is known, in the order of CMake.
pub(super) fn compiled(
    reply: &FileApiReply,
    steps: &[CompileStep],
    source: &HostPath,
    build: &HostPath,
) -> Vec<CompiledObject> {
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
            found.push(CompiledObject { target: target.name.clone(), units });
        }
    }
    found
}

/// What the keys of targets are made of, beside their own commands.
pub(super) struct ObjectContext<'a, 'h> {
    pub(super) host: &'h dyn Host,
    pub(super) places: &'a Places,
    pub(super) sources: &'a FileSnapshot,
    pub(super) contents: &'a Contents,
    pub(super) elsewhere: &'a mut RelocatedFolders<'h>,
    /// The parts of the whole tree's key.
    pub(super) tree: &'a KeyParts,
    /// Everything that Ninja makes.
    pub(super) outputs: &'a BTreeSet<String>,
    /// Names of headers by folder.
    pub(super) layouts: BTreeMap<String, String>,
}

impl ObjectContext<'_, '_> {
    /// The parts of a target's key; `None` if its objects depend on what cannot be told before they are compiled.
    pub(super) fn parts(&mut self, compiled: &CompiledObject) -> Option<KeyParts> {
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
        if UNTOLD.iter().any(|word| unit.command.contains(word)) || self.outputs.contains(&unit.source) {
            return None;
        }
        let native = StampTable::embedded().native_words.iter().any(|word| unit.command.contains(word));
        if native {
            parts.set("processor", "", surroundings::processor(self.host)?);
        }
        let source = match self.contents.files.get(&unit.source) {
            Some(known) => known.sha256.clone(),
            None => self.elsewhere.hash(&unit.source)?,
        };
        if source.is_empty() {
            return None;
        }
        parts.set("sources", self.places.take_out(&unit.source), source);
        let words: Vec<&str> = unit.command.split_whitespace().collect();
        // A launcher, then the compiler.
        for program in words.iter().take(2).filter(|word| self.host.path(word).is_absolute()) {
            let path = self.host.path(program);
            let path = self.host.canonical(&path).unwrap_or(path);
            parts.set("programs", *program, self.elsewhere.hash(path.as_str())?);
        }
        let command = places_of_output(&words, &unit.name);
        // Flags of the environment are in it.
        parts.set_hashed("commands", &unit.name, &self.places.take_out(&command));
        let folder = self.host.path(&unit.source).parent()?;
        let mut folders = include_folders(&words)?;
        folders.push(folder.to_string());
        for folder in folders {
            let layout = self.layout(&folder);
            parts.set("headers", self.places.take_out(&folder), layout);
        }
        Some(())
    }

    /// The names that could stand for a header in a folder: one that appears may be read in place of another.
    fn layout(&mut self, folder: &str) -> String {
        if let Some(layout) = self.layouts.get(folder) {
            return layout.clone();
        }
        let is_header = |name: &str| {
            let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
            !last.contains('.') || has_extension(last, &StampTable::embedded().headers)
        };
        let path = self.host.path(folder).normalized();
        let mut names: Vec<String> = if path.is_inside(&self.places.source) {
            let start = format!("{}/", path.as_str().trim_end_matches('/'));
            let below = self.sources.keys().filter_map(|file| file.strip_prefix(&start));
            below.filter(|name| is_header(name)).map(str::to_owned).collect()
        } else {
            self.host.list(&path).unwrap_or_default()
        };
        if path.is_inside(&self.places.build) {
            names.retain(|name| is_header(name));
        }
        let layout = sha256(names.join("\n").as_bytes());
        self.layouts.insert(folder.to_owned(), layout.clone());
        layout
    }
}

/// A command without the places that its results go to.
fn places_of_output(words: &[&str], name: &str) -> String {
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

/// The folders in which a command searches headers. `None` if they cannot be told from the rest.
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

/// Everything that the objects of a target were made of beside their sources, as Ninja has noted it. `None` if it is not
/// complete, or something of it was made during the build.
pub(super) fn closure(
    compiled: &CompiledObject,
    deps: &[(String, Vec<String>)],
    outputs: &BTreeSet<String>,
) -> Option<BTreeSet<String>> {
    let deps: BTreeMap<&str, &Vec<String>> =
        deps.iter().map(|(object, paths)| (object.as_str(), paths)).collect();
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

/// Everything that Ninja makes: `ninja -t targets all`.
pub(super) fn outputs(text: &str, build: &HostPath) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.rsplit_once(": ")).map(|(name, _)| name);
    names.map(|name| build.join(name).normalized().to_string()).collect()
}

/// The script that puts objects in the place of sources; `folder` holds them.
pub(super) fn script(reused: &[CompiledObject], folder: &HostPath) -> String {
    let mut text = String::from("# Written by gpubuild: targets whose objects came from the store.\n");
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

/// The steps in the words of `ninja -t compdb`.
pub(super) fn steps(text: &str) -> Vec<CompileStep> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Objects with what they were made of.
pub(super) fn deps(text: &str, build: &HostPath) -> Vec<(String, Vec<String>)> {
    stamp::deps_by_object(text, build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_lose_only_their_outputs() {
        let command = "/usr/bin/cc -DX=1 -I/s/include -isystem /opt/x -O3 -MD -MT CMakeFiles/t.dir/a.c.o -MF CMakeFiles/t.dir/a.c.o.d -o CMakeFiles/t.dir/a.c.o -c /s/a.c";
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(
            places_of_output(&words, "a.c.o"),
            "/usr/bin/cc -DX=1 -I/s/include -isystem /opt/x -O3 -MD -c /s/a.c"
        );
        assert_eq!(include_folders(&words).unwrap(), ["/s/include", "/opt/x"]);
        assert_eq!(include_folders(&["-I\"/a", "b\""]), None);
    }
}
