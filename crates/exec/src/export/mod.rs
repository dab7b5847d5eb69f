//! `gpubuild export`: copies the built libraries and their headers into a folder with `lib` and `include`, together with a file for
//! pkg-config and a CMake package, so that other build systems use them without gpubuild. `gpubuild pack --libraries` packs the same.

mod licences;
mod third_party;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::shell::cmake_bracket;
use gpubuild_host::{Host, HostPath, Os, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::{Artifact, BuiltTree, LinkItem, Manifest};
use gpubuild_plan::link;
use serde::{Deserialize, Serialize};

pub use self::licences::is_licence;
use self::third_party::ThirdParty;
pub use self::third_party::is_archive;
use crate::exec::stage;
use crate::store;

/// Stands for the folder of an export in link lines until they are written.
const PREFIX: &str = "/@gpubuild-prefix@";

/// Extensions of headers.
const HEADERS: [&str; 8] = [".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".cuh"];

/// The folder for the libraries.
const LIB: &str = "lib";

/// The folder for the headers.
const INCLUDE: &str = "include";

/// A file to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its path.
    pub from: HostPath,
    /// Its path in the export.
    pub to: String,
}

/// What happens to libraries that a project links and did not build.
#[derive(Clone, Copy)]
pub enum LinkedLibraries<'a> {
    /// They stay where they are on this machine.
    InPlace,
    /// They are part of the export.
    Copied {
        /// Whether the machine of the user provides a library, so that it is not copied.
        is_provided: &'a dyn Fn(&str) -> bool,
        /// The version of the project.
        version: &'a str,
    },
}

/// Everything that an export contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Name of the project.
    pub name: String,
    /// The libraries that the project built.
    pub libraries: Vec<ExportedFile>,
    /// Libraries that it links.
    pub linked: Vec<ExportedFile>,
    /// Names of libraries that the machine of the user provides.
    pub left: BTreeSet<String>,
    /// DLLs of Windows that were not found, with the import library that stands for each.
    pub missing: BTreeMap<String, HostPath>,
    /// Links to libraries: path in the export, and name of the library beside it.
    pub links: BTreeMap<String, String>,
    /// The headers.
    pub headers: Vec<ExportedFile>,
    /// Licence files; see [`Export::add_licences`].
    pub licences: Vec<ExportedFile>,
    /// Include folders that are not exported because they are not part of the project.
    pub external: Vec<String>,
    /// The file for pkg-config, and its path in the export.
    pub pkg_config: (String, String),
    /// The CMake package, and its path in the export.
    pub cmake: (String, String),
}

/// The files of the last export of a project into a folder.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ExportRecord {
    files: BTreeSet<String>,
}

impl Export {
    /// Determines the content of an export. `headers` are paths of additional headers.
    ///
    /// # Errors
    /// An include folder cannot be listed.
    pub fn of(
        host: &dyn ReadFiles,
        manifest: &Manifest,
        headers: &[HostPath],
        linked: LinkedLibraries<'_>,
    ) -> io::Result<Self> {
        let os = manifest.os(host.platform().os);
        let version = match linked {
            LinkedLibraries::InPlace => None,
            LinkedLibraries::Copied { version, .. } => Some(version),
        };
        let is_copied = version.is_some();
        // A release contains no links.
        let mut libraries = Libraries { has_links: !is_copied, ..Libraries::default() };
        for tree in &manifest.trees {
            for file in &tree.files {
                libraries.add(host, os, tree, file);
            }
        }
        let (mut copied, external) = includes(host, manifest)?;
        for path in headers {
            let name = path.file_name().unwrap_or_default();
            // A header in an include folder already has its place.
            if !copied.values().any(|from| from.key() == path.key()) && host.is_file(path) {
                copied.entry(format!("{INCLUDE}/{name}")).or_insert_with(|| path.clone());
            }
        }
        let mut third_party = ThirdParty::default();
        let mut moved = libraries.moved(manifest);
        if let LinkedLibraries::Copied { is_provided, .. } = linked {
            moved = third_party.moved(host, &moved, is_provided);
        }
        let mut directives = link::directives(&moved, os);
        let is_of_build =
            |path: &HostPath| manifest.trees.iter().any(|tree| path.is_inside(&host.path(&tree.build)));
        let is_kept = |folder: &String| match linked {
            LinkedLibraries::InPlace => !is_of_build(&host.path(folder)),
            LinkedLibraries::Copied { .. } => folder.starts_with(PREFIX),
        };
        directives.search.retain(is_kept);
        directives.rpath.retain(is_kept);
        if third_party.has_shared {
            directives.rpath.push(format!("{PREFIX}/{LIB}"));
        }
        let defines = manifest.interface().defines;
        let name = manifest.project.clone();
        let used: &[String] = if is_copied { &[] } else { &external };
        let usage = Usage { has_headers: !copied.is_empty(), external: used, defines: &defines };
        let pkg_config = usage.pkg_config(&link::pkg_config(&directives, &moved, version));
        let cmake = usage.cmake(&link::cmake(&directives, &moved), &name);
        let file = |(to, from): (String, HostPath)| ExportedFile { from, to };
        Ok(Self {
            libraries: libraries.files.into_iter().map(file).collect(),
            linked: third_party.files.into_iter().map(file).collect(),
            left: third_party.left,
            missing: third_party.missing,
            links: libraries.links,
            headers: copied.into_iter().map(file).collect(),
            licences: Vec::new(),
            external,
            pkg_config: (format!("{LIB}/pkgconfig/{name}.pc"), pkg_config),
            cmake: (format!("{LIB}/cmake/{name}/{name}Config.cmake"), cmake),
            name,
        })
    }

    /// Adds the licence files in these folders, each of which has a name in the export.
    pub fn add_licences(&mut self, host: &dyn ReadFiles, folders: &[(&str, &HostPath)]) {
        self.licences = licences::of(host, folders);
    }

    /// Writes the export into a folder, and removes temporary files of a killed export and what an earlier export of the project wrote there and this one does not contain.
    /// Files with the same content are not written again.
    ///
    /// # Errors
    /// A file cannot be read or written. The next call completes the export.
    pub fn write(&self, host: &dyn Host, folder: &HostPath) -> io::Result<()> {
        let record = folder.join(&format!("share/gpubuild/{}.json", self.name));
        let paths = self.paths().map(|path| folder.join(path)).chain([record.clone()]);
        let folders: BTreeMap<String, HostPath> =
            paths.filter_map(|path| path.parent()).map(|folder| (folder.to_string(), folder)).collect_map();
        folders.values().try_for_each(|folder| store::maintain::remove_temporary(host, folder))?;
        let before: ExportRecord = store::read_json(host, &record).unwrap_or_default();
        let files: BTreeSet<String> = self.paths().map(str::to_owned).collect_set();
        let all = ExportRecord { files: before.files.union(&files).cloned().collect_set() };
        // Written first: what a killed export leaves behind is known to the next one.
        store::write_json(host, &record, &all)?;
        for obsolete in before.files.difference(&files).filter(|path| is_relative(path)) {
            host.remove(&folder.join(obsolete))?;
        }
        for file in &self.libraries {
            copy(host, &file.from, &folder.join(&file.to))?;
        }
        for file in self.headers.iter().chain(&self.licences) {
            write(host, &folder.join(&file.to), &host.read(&file.from)?)?;
        }
        for (link, name) in &self.links {
            let link = folder.join(link);
            if host.read_link(&link).ok().as_deref() != Some(name.as_str()) {
                host.remove(&link)?;
                host.symlink(name, &link)?;
            }
        }
        for (path, text) in [&self.pkg_config, &self.cmake] {
            write(host, &folder.join(path), text.as_bytes())?;
        }
        store::write_json(host, &record, &ExportRecord { files })
    }

    /// The paths of all files in the export.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let copied = self.libraries.iter().chain(&self.headers).chain(&self.licences);
        let copied = copied.map(|file| file.to.as_str());
        let links = self.links.keys().map(String::as_str);
        copied.chain(links).chain([self.pkg_config.0.as_str(), self.cmake.0.as_str()])
    }
}

/// Whether a path of a record stays inside of the export.
fn is_relative(path: &str) -> bool {
    !path.starts_with(['/', '\\']) && !path.contains(':') && path.split(['/', '\\']).all(|part| part != "..")
}

/// Copies a library unless the same one is there. Libraries can be larger than the files that [`ReadFiles::read`] accepts.
fn copy(host: &dyn WriteFiles, from: &HostPath, to: &HostPath) -> io::Result<()> {
    let content = store::hash_file(host, from)?;
    if store::hash_file(host, to).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        host.create_dir_all(&folder)?;
    }
    host.copy(from, to)
}

/// Writes a file unless it has this content. Creates its folder.
///
/// # Errors
/// The file or its folder cannot be written.
pub fn write(host: &dyn WriteFiles, to: &HostPath, content: &[u8]) -> io::Result<()> {
    if host.read(to).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        host.create_dir_all(&folder)?;
    }
    host.write(to, content)
}

/// The libraries of an export.
#[derive(Debug, Default)]
struct Libraries {
    /// Built files by their path in the export.
    files: BTreeMap<String, HostPath>,
    /// Whether links are created for names of the linker that differ from those of the loader.
    has_links: bool,
    /// These links.
    links: BTreeMap<String, String>,
    /// Paths in the export by built path.
    places: BTreeMap<String, String>,
}

impl Libraries {
    fn add(&mut self, host: &dyn ReadFiles, os: Os, tree: &BuiltTree, file: &Artifact) {
        if file.kind == "executable" {
            return;
        }
        let own = file.path.rsplit(['/', '\\']).next().unwrap_or_default();
        let loaded = stage::loaded_name(host, file);
        let folder = match (&loaded, os) {
            (Some(_), Os::Windows) => "bin".to_owned(),
            _ => LIB.to_owned(),
        };
        let folder = tree.folder.as_ref().map_or(folder.clone(), |below| format!("{folder}/{below}"));
        let name = loaded.unwrap_or_else(|| own.to_owned());
        let mut place = format!("{folder}/{name}");
        // Another tree may have built a library with the same name from other settings.
        if self.files.get(&place).is_some_and(|other| !has_same_content(host, other, &host.path(&file.path)))
        {
            place = format!("{folder}/{}/{name}", tree.id);
        }
        self.files.entry(place.clone()).or_insert_with(|| host.path(&file.path));
        let mut linked = place.clone();
        if own != name && self.has_links {
            linked = format!("{}/{own}", place.rsplit_once('/').map_or("", |(folder, _)| folder));
            self.links.insert(linked.clone(), name);
        }
        self.places.insert(file.path.clone(), linked);
    }

    /// The manifest with the libraries at their places in the export.
    fn moved(&self, manifest: &Manifest) -> Manifest {
        let mut moved = manifest.clone();
        let place = |path: &mut String| {
            if let Some(place) = self.places.get(path.as_str()) {
                *path = format!("{PREFIX}/{place}");
            }
        };
        for tree in &mut moved.trees {
            tree.files.iter_mut().for_each(|file| place(&mut file.path));
            for item in &mut tree.link {
                match item {
                    LinkItem::Static { path } | LinkItem::Shared { path } => place(path),
                    _ => {}
                }
            }
        }
        moved
    }
}

fn has_same_content(host: &dyn ReadFiles, one: &HostPath, other: &HostPath) -> bool {
    host.read(one).is_ok_and(|one| host.read(other).is_ok_and(|other| one == other))
}

/// The headers of the project's include folders by their path in the export, and all other include folders. As in a compiler, the
/// first folder with a header wins.
fn includes(
    host: &dyn ReadFiles,
    manifest: &Manifest,
) -> io::Result<(BTreeMap<String, HostPath>, Vec<String>)> {
    let mut headers = BTreeMap::new();
    let mut external = Vec::new();
    for folder in manifest.interface().includes {
        let path = host.path(&folder);
        let is_own = manifest
            .trees
            .iter()
            .any(|tree| [&tree.source, &tree.build].iter().any(|root| path.is_inside(&host.path(root))));
        if is_own {
            collect(host, &path, INCLUDE, &mut headers)?;
        } else {
            external.push(folder);
        }
    }
    Ok((headers, external))
}

fn collect(
    host: &dyn ReadFiles,
    folder: &HostPath,
    to: &str,
    headers: &mut BTreeMap<String, HostPath>,
) -> io::Result<()> {
    for name in host.list(folder)? {
        let (path, to) = (folder.join(&name), format!("{to}/{name}"));
        if host.is_dir(&path) {
            if !name.starts_with('.') {
                collect(host, &path, &to, headers)?;
            }
        } else if HEADERS.iter().any(|end| name.ends_with(end)) {
            headers.entry(to).or_insert(path);
        }
    }
    Ok(())
}

/// How sources that use the libraries are compiled.
struct Usage<'a> {
    /// Whether the export has an include folder.
    has_headers: bool,
    /// Other include folders.
    external: &'a [String],
    /// Definitions.
    defines: &'a [String],
}

impl Usage<'_> {
    /// A `.pc` file that finds its folder itself.
    fn pkg_config(&self, text: &str) -> String {
        let escape = |word: &String| word.replace('\\', "\\\\").replace(' ', "\\ ").replace('$', "$$");
        let own = self.has_headers.then(|| "-I${prefix}/include".to_owned());
        let external = self.external.iter().map(|folder| format!("-I{}", escape(folder)));
        let defines = self.defines.iter().map(|define| format!("-D{}", escape(define)));
        let flags: Vec<String> = own.into_iter().chain(external).chain(defines).collect();
        let text = text.replace(PREFIX, "${prefix}");
        format!("prefix=${{pcfiledir}}/../..\n\n{text}Cflags: {}\n", flags.join(" "))
    }

    /// A CMake package that finds its folder itself.
    fn cmake(&self, text: &str, name: &str) -> String {
        let mut out = String::from(
            "# Written by `gpubuild export`.\n\
             get_filename_component(_gpubuild_prefix \"${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)\n",
        );
        for line in text.lines().skip(1) {
            out += &unquoted_prefix(line);
            out.push('\n');
        }
        let mut list = |command: &str, entries: Vec<String>| {
            if !entries.is_empty() {
                let entries = entries.join("\n  ");
                writeln!(out, "{command}(gpubuild::{name} INTERFACE\n  {entries})")
                    .expect("writing to a string");
            }
        };
        let own = self.has_headers.then(|| "\"${_gpubuild_prefix}/include\"".to_owned());
        let external = self.external.iter().map(|folder| cmake_bracket(&folder.replace('\\', "/")));
        list("target_include_directories", own.into_iter().chain(external).collect());
        let defines = self.defines.iter().map(|define| cmake_bracket(define));
        list("target_compile_definitions", defines.collect());
        out + "unset(_gpubuild_prefix)\n"
    }
}

/// Replaces a bracket argument with the prefix, in which CMake expands nothing, by a quoted one.
fn unquoted_prefix(line: &str) -> String {
    let Some(start) = line.find('[').filter(|_| line.contains(PREFIX)) else { return line.to_owned() };
    let (indent, bracket) = line.split_at(start);
    let equals = bracket[1..].chars().take_while(|c| *c == '=').count();
    let end = format!("]{}]", "=".repeat(equals));
    let Some((argument, rest)) = bracket.rsplit_once(&end) else { return line.to_owned() };
    let argument = &argument[end.len()..];
    let escaped = argument.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
    format!("{indent}\"{}\"{rest}", escaped.replace(PREFIX, "${_gpubuild_prefix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_the_prefix_are_expanded_by_cmake() {
        let line = format!("  [=[{PREFIX}/lib/liba.a]=])");
        assert_eq!(unquoted_prefix(&line), "  \"${_gpubuild_prefix}/lib/liba.a\")");
        let line = format!("  [==[$<LINK_LIBRARY:WHOLE_ARCHIVE,{PREFIX}/lib/liba.a>]==]");
        assert_eq!(
            unquoted_prefix(&line),
            "  \"\\$<LINK_LIBRARY:WHOLE_ARCHIVE,${_gpubuild_prefix}/lib/liba.a>\""
        );
        assert_eq!(unquoted_prefix("  [=[/usr/lib]=]"), "  [=[/usr/lib]=]");
    }

    #[test]
    fn paths_of_a_record_stay_in_the_export() {
        assert!(is_relative("lib/liba.a"));
        for path in ["/etc/passwd", "../a", "lib/../../a", "C:/a", "\\a"] {
            assert!(!is_relative(path), "{path}");
        }
    }
}
