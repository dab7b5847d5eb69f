//! Pure: the link line of a program that uses a manifest, in the formats of several build systems.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::Os;
use gpubuild_linker::search_path_arguments;

use crate::artifacts::{BuiltTree, CargoLink, LinkItem, Manifest};
use crate::plan::linkage::own_folder;

/// A link line, split by kind of item. Each list is in linker order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Folders to search for libraries.
    pub search: Vec<String>,
    /// Static libraries, dependents before their dependencies.
    pub statics: Vec<Static>,
    /// Names of shared libraries; they follow all static libraries.
    pub dynamic: Vec<String>,
    /// Apple frameworks.
    pub frameworks: Vec<String>,
    /// All other linker arguments.
    pub arguments: Vec<String>,
    /// Folders in which the program searches for the project's shared libraries at run time.
    pub rpath: Vec<String>,
}

/// A static library on a link line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Static {
    /// Name for `-l`: without `lib` and suffix, or the complete file name if it does not follow the convention.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// Which object files the linker includes.
    pub mode: ArchiveMode,
}

/// Which object files the linker includes from a static library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveMode {
    /// Only those that resolve undefined symbols.
    Needed,
    /// All of them, for libraries that register themselves in static initializers.
    Whole,
}

/// Splits and merges the link lines of all trees.
#[must_use]
pub fn directives(manifest: &Manifest, os: Os) -> Directives {
    let mut builder =
        LinkLineBuilder { os, manifest, mode: ArchiveMode::Needed, group: None, out: Directives::default() };
    for tree in &manifest.trees {
        for item in &tree.link {
            builder.item(item);
        }
        builder.close_group();
        builder.mode = ArchiveMode::Needed;
        builder.modules(tree);
    }
    let mut out = builder.out;
    keep_first(&mut out.search);
    keep_last(&mut out.dynamic);
    keep_first(&mut out.frameworks);
    keep_first(&mut out.arguments);
    keep_first(&mut out.rpath);
    out
}

impl Directives {
    /// Appends folders to the program's run-time search path: those of the project's Python environment.
    #[must_use]
    pub fn with_search_path(mut self, folders: Vec<String>) -> Self {
        self.rpath.extend(folders);
        keep_first(&mut self.rpath);
        self
    }
}

impl Directives {
    /// Replaces the run-time search path with the program's own folder, for shared libraries that are copied next to it.
    #[must_use]
    pub fn beside_program(mut self, os: Os) -> Self {
        if !self.rpath.is_empty() {
            self.rpath = vec![own_folder(os).to_owned()];
        }
        self
    }
}

struct LinkLineBuilder<'a> {
    os: Os,
    manifest: &'a Manifest,
    mode: ArchiveMode,
    /// Index into the static libraries at which an open `--start-group` begins.
    group: Option<usize>,
    out: Directives,
}

impl LinkLineBuilder<'_> {
    fn item(&mut self, item: &LinkItem) {
        match item {
            LinkItem::Search { path } => self.out.search.push(path.clone()),
            LinkItem::Framework { name } => self.out.frameworks.push(name.clone()),
            LinkItem::System { name } => self.out.dynamic.push(name.clone()),
            LinkItem::Static { path } => self.library(path),
            LinkItem::Shared { path } => self.shared(path),
            LinkItem::Argument { text } => self.argument(text),
        }
    }

    fn library(&mut self, path: &str) {
        let (folder, file) = split_path(path);
        let name = static_name(self.os, file).unwrap_or(file).to_owned();
        // If two trees build the same core library, only its last position follows the backends of both.
        if let Some(hash) = hash_in(self.manifest, path) {
            let manifest = self.manifest;
            self.out.statics.retain(|other| {
                other.path == path || other.name != name || hash_in(manifest, &other.path) != Some(hash)
            });
        }
        self.out.search.push(folder.to_owned());
        self.out.statics.push(Static { name, path: path.to_owned(), mode: self.mode });
    }

    fn shared(&mut self, path: &str) {
        let (folder, file) = split_path(path);
        let built = self.manifest.trees.iter().flat_map(|tree| &tree.files).any(|built| built.path == path);
        match shared_name(self.os, file) {
            Some(name) => {
                self.out.search.push(folder.to_owned());
                self.out.dynamic.push(name.to_owned());
            }
            None => self.out.arguments.push(path.to_owned()),
        }
        if built && self.os != Os::Windows {
            self.out.rpath.push(folder.to_owned());
        }
    }

    /// Adds the folders of modules to the search path, since programs open modules by file name.
    fn modules(&mut self, tree: &BuiltTree) {
        let modules = tree.files.iter().filter(|file| file.kind == "module" && self.os != Os::Windows);
        self.out.rpath.extend(modules.map(|file| split_path(&file.path).0.to_owned()));
    }

    /// Interprets arguments that affect the items after them; they cannot be kept in a separate list.
    fn argument(&mut self, text: &str) {
        for word in text.strip_prefix("-Wl,").map_or(vec![text], |list| list.split(',').collect()) {
            match word {
                "--whole-archive" | "-whole-archive" => self.mode = ArchiveMode::Whole,
                "--no-whole-archive" | "-no-whole-archive" | "--pop-state" => self.mode = ArchiveMode::Needed,
                "--start-group" | "-(" => self.group = Some(self.out.statics.len()),
                "--end-group" | "-)" => self.close_group(),
                "--push-state" | "--as-needed" | "--no-as-needed" | "-Bstatic" | "-Bdynamic" => {}
                _ => return self.out.arguments.push(text.to_owned()),
            }
        }
    }

    /// Repeats the libraries of a group, which has the same effect as `--start-group` for libraries that depend on each other.
    fn close_group(&mut self) {
        if let Some(start) = self.group.take() {
            let again = self.out.statics[start..].to_vec();
            self.out.statics.extend(again);
        }
    }
}

fn hash_in<'a>(manifest: &'a Manifest, path: &str) -> Option<&'a str> {
    let files = manifest.trees.iter().flat_map(|tree| &tree.files);
    files.filter(|built| built.path == path).map(|built| built.sha256.as_str()).next()
}

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once(['/', '\\']).unwrap_or((".", path))
}

fn static_name(os: Os, file: &str) -> Option<&str> {
    match os {
        Os::Windows => file.strip_suffix(".lib").or_else(|| file.strip_prefix("lib")?.strip_suffix(".a")),
        Os::Linux | Os::Macos => file.strip_prefix("lib")?.strip_suffix(".a"),
    }
}

fn shared_name(os: Os, file: &str) -> Option<&str> {
    match os {
        Os::Windows => file
            .strip_suffix(".dll.a")
            .map(|stem| stem.strip_prefix("lib").unwrap_or(stem))
            .or_else(|| file.strip_suffix(".lib")),
        Os::Linux => file.strip_prefix("lib")?.strip_suffix(".so"),
        Os::Macos => {
            let stem = file.strip_prefix("lib")?;
            stem.strip_suffix(".dylib").or_else(|| stem.strip_suffix(".tbd"))
        }
    }
}

fn keep_first(list: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    list.retain(|entry| seen.insert(entry.clone()));
}

fn keep_last(list: &mut Vec<String>) {
    list.reverse();
    keep_first(list);
    list.reverse();
}

/// Directives that a build script prints, one per line: `cargo::rustc-link-search=native=…`.
#[must_use]
pub fn cargo_lines(directives: &Directives) -> Vec<String> {
    let mut lines = cargo_directives(directives);
    let words = directives.rpath.iter().flat_map(|path| search_path_arguments(path));
    lines.extend(words.map(|word| format!("rustc-link-arg={word}")));
    lines.into_iter().map(|line| format!("cargo::{line}")).collect()
}

/// The part of a manifest that gpubuild-link uses to link a program, without the files next to the program.
#[must_use]
pub fn for_cargo(manifest: &Manifest, os: Os) -> CargoLink {
    let directives = directives(manifest, os);
    // `gpubuild pack` puts toolkit libraries next to the program or into `../lib`.
    let alone = match os {
        Os::Linux if links_runtime(manifest) => vec!["$ORIGIN".to_owned(), "$ORIGIN/../lib".to_owned()],
        _ => Vec::new(),
    };
    CargoLink {
        lines: cargo_directives(&directives),
        search_path: directives.rpath.clone(),
        search_path_beside: directives.beside_program(os).rpath,
        search_path_alone: alone,
        ..CargoLink::default()
    }
}

/// Whether a program needs a toolkit's shared libraries to run.
fn links_runtime(manifest: &Manifest) -> bool {
    let shared = manifest.trees.iter().flat_map(|tree| &tree.link).filter_map(|item| match item {
        LinkItem::Shared { path } => Some(path),
        _ => None,
    });
    shared.filter_map(|path| libraries::find(path)).any(|library| library.role == LibraryRole::Runtime)
}

/// Directives for cargo without the program's run-time search path.
fn cargo_directives(directives: &Directives) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(directives.search.iter().map(|path| format!("rustc-link-search=native={path}")));
    for library in &directives.statics {
        let verbatim = library.path.ends_with(&format!("/{}", library.name));
        let mut modifiers = Vec::new();
        if verbatim {
            modifiers.push("+verbatim");
        }
        if library.mode == ArchiveMode::Whole {
            modifiers.push("+whole-archive");
        }
        let modifiers =
            if modifiers.is_empty() { String::new() } else { format!(":{}", modifiers.join(",")) };
        lines.push(format!("rustc-link-lib=static{modifiers}={}", library.name));
    }
    lines.extend(directives.dynamic.iter().map(|name| format!("rustc-link-lib=dylib={name}")));
    lines.extend(directives.frameworks.iter().map(|name| format!("rustc-link-lib=framework={name}")));
    lines.extend(directives.arguments.iter().map(|text| format!("rustc-link-arg={text}")));
    lines
}

/// The arguments of a link line for a C compiler. Static libraries are given by path, so that the linker cannot find
/// another copy.
#[must_use]
pub fn words(directives: &Directives) -> Vec<String> {
    let mut words: Vec<String> = directives.search.iter().map(|path| format!("-L{path}")).collect();
    for library in &directives.statics {
        match library.mode {
            ArchiveMode::Needed => words.push(library.path.clone()),
            ArchiveMode::Whole => words.extend([
                "-Wl,--whole-archive".to_owned(),
                library.path.clone(),
                "-Wl,--no-whole-archive".to_owned(),
            ]),
        }
    }
    words.extend(directives.dynamic.iter().map(|name| format!("-l{name}")));
    words.extend(directives.frameworks.iter().flat_map(|name| ["-framework".to_owned(), name.clone()]));
    words.extend(directives.arguments.iter().cloned());
    words.extend(directives.rpath.iter().flat_map(|path| search_path_arguments(path)));
    words
}

/// One line of arguments, quoted for a POSIX shell where necessary.
#[must_use]
pub fn plain(directives: &Directives) -> String {
    words(directives).iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ")
}

fn shell_quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A `.pc` file for pkg-config. `version` is that of the project; without one, it is that of gpubuild.
#[must_use]
pub fn pkg_config(directives: &Directives, manifest: &Manifest, version: Option<&str>) -> String {
    let escape = |word: &String| {
        let mut text = String::new();
        for character in word.replace('$', "$$").chars() {
            if character.is_whitespace() || "\\\"'#".contains(character) {
                text.push('\\');
            }
            text.push(character);
        }
        text
    };
    let libs: Vec<String> = words(directives).iter().map(escape).collect();
    let backends: Vec<&str> = manifest.backends.iter().map(|backend| backend.id()).collect();
    format!(
        "Name: {name}\nDescription: {name} for {backends}, built by gpubuild\nVersion: {version}\nLibs: {libs}\n",
        name = manifest.project,
        backends = backends.join(", "),
        version = version.unwrap_or(&manifest.gpubuild),
        libs = libs.join(" ")
    )
}

/// A CMake script that defines the interface target `gpubuild::PROJECT`.
#[must_use]
pub fn cmake(directives: &Directives, manifest: &Manifest) -> String {
    let target = format!("gpubuild::{}", manifest.project);
    let quoted = |word: &str| gpubuild_core::shell::cmake_bracket(&word.replace('\\', "/"));
    let mut text = format!(
        "# Written by `gpubuild link --format cmake`.\nif(NOT TARGET {target})\n  add_library({target} INTERFACE IMPORTED)\nendif()\n"
    );
    let mut list = |command: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            let entries: Vec<String> = entries.iter().map(|entry| format!("\n  {}", quoted(entry))).collect();
            writeln!(text, "{command}({target} INTERFACE{})", entries.concat()).expect("writing to a string");
        }
    };
    list("target_link_directories", directives.search.clone());
    let mut libraries: Vec<String> = Vec::new();
    for library in &directives.statics {
        match library.mode {
            ArchiveMode::Needed => libraries.push(library.path.clone()),
            ArchiveMode::Whole => libraries.push(format!("$<LINK_LIBRARY:WHOLE_ARCHIVE,{}>", library.path)),
        }
    }
    libraries.extend(directives.dynamic.iter().cloned());
    libraries.extend(directives.frameworks.iter().map(|name| format!("-framework {name}")));
    list("target_link_libraries", libraries);
    let mut options = directives.arguments.clone();
    // CMake removes duplicate options; `SHELL:` keeps an option and its argument together.
    options.extend(directives.rpath.iter().map(|path| {
        if let [word] = search_path_arguments(path).as_slice() {
            return word.clone();
        }
        let quote = if path.contains('\'') { '"' } else { '\'' };
        format!("SHELL:-Xlinker -rpath -Xlinker {quote}{path}{quote}")
    }));
    list("target_link_options", options);
    text
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
