//! A copy of a program with its dependencies, as it will be installed: `bin/` with built files, `lib/` with third-party libraries,
//! `share/` with other files and licences.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::libraries;
use gpubuild_exec::exec::stage;
use gpubuild_exec::export::is_archive;
use gpubuild_host::{Host, HostInfo, HostPath, LIBRARY_LIMIT, Os, Platform, ReadFiles, search};
use gpubuild_object::{self, ObjectFile};
use gpubuild_plan::artifacts::{LinkItem, Manifest};
use gpubuild_plan::project::PackTable;
use gpubuild_plan::project::source::lock::LockedSource;

use super::closure::{self, Closure, ClosureError, ClosureRules};
use super::layer::{self, LayerKind, LayerPiece};
use super::licences::Licences;
use super::origin::LibraryPackage;
use super::package::CargoPackage;
use super::rpath;
use super::sbom::{self, SbomFile, SbomSource};
use super::zig::{self, LinkedPart};
use super::{PackError, check_link};
use crate::unpack::names::Names;

/// The maximum depth of subfolders in a library's data folder.
const MAX_DATA_DEPTH: usize = 4;

/// The inputs of staging.
pub struct StageRequest<'a> {
    /// The platform of the programs.
    pub platform: Platform,
    /// The name of the project.
    pub name: &'a str,
    /// The folder of gpubuild.toml.
    pub root: &'a HostPath,
    /// The folder of the native sources; `None` for a program without any.
    pub source: Option<&'a HostPath>,
    /// Where the sources were downloaded from, if gpubuild did that.
    pub locked: Option<&'a LockedSource>,
    /// The folder of the cargo package.
    pub package: &'a HostPath,
    /// The cargo package.
    pub cargo: &'a CargoPackage,
    /// The manifest of the build; `None` for programs without native libraries.
    pub manifest: Option<&'a Manifest>,
    /// What to pack of the build.
    pub contents: StageContents<'a>,
    /// The library folders of the project's environment from `gpubuild venv`.
    pub environment: &'a [String],
    /// `[pack]` of gpubuild.toml.
    pub table: &'a PackTable,
    /// The AMD GPU architectures of the variant. Data for other architectures is not packed.
    pub gfx: &'a [String],
}

/// What is packed of a build.
#[derive(Debug, Clone, Copy)]
pub enum StageContents<'a> {
    /// These programs, and what they load. `gpubuild install` smoke-tests the first one.
    Programs(&'a [HostPath]),
    /// The libraries for other build systems, with their headers and these further ones.
    Libraries(&'a [HostPath]),
}

/// A staged variant.
#[derive(Debug, Default)]
pub struct Staged {
    /// All files of the variant.
    pub pieces: Vec<LayerPiece>,
    /// The program's path in the variant.
    pub program: String,
    /// Libraries that the user's machine must provide.
    pub left: BTreeSet<String>,
    /// Include folders of toolkits that the headers of libraries need.
    pub includes: Vec<String>,
    /// Libraries and data that third-party libraries open at run time and that were not found.
    pub not_found: BTreeSet<String>,
    /// Third-party libraries without licence files.
    pub without_licence: Vec<String>,
    /// The number of data files for other architectures, which are not packed.
    pub data_left: usize,
    /// The oldest glibc version with which all files work.
    pub glibc: Option<Version>,
    /// The program's loader, from its `PT_INTERP` header.
    pub interpreter: Option<String>,
    /// The oldest macOS version that the program supports.
    pub system: Option<Version>,
    /// The paths and hashes of the files that the project built.
    pub built: Vec<(String, String)>,
    /// The software bill of materials, which is also one of the files.
    pub sbom: String,
}

/// Stages a variant into an empty folder.
///
/// # Errors
/// See [`PackError`].
pub fn stage(host: &dyn Host, request: &StageRequest<'_>, into: &HostPath) -> Result<Staged, PackError> {
    let programs = match request.contents {
        StageContents::Programs(programs) => programs,
        StageContents::Libraries(headers) => return super::libraries::stage(host, request, headers, into),
    };
    let mut staging = Staging::new(host, into, request.platform);
    let in_bin = |program: &HostPath| {
        (format!("bin/{}", program.file_name().unwrap_or(request.name)), program.clone())
    };
    let mut built: Vec<(String, HostPath)> = programs.iter().map(in_bin).collect();
    staging.staged.program = built.first().map(|(name, _)| name.clone()).unwrap_or_default();
    for placed in request.manifest.map(|manifest| stage::needed(host, manifest)).into_iter().flatten() {
        let from = host.path(&placed.from);
        let real = host.canonical(&from).unwrap_or(from);
        built.push((format!("bin/{}", placed.name.replace('\\', "/")), real));
    }
    let own: BTreeSet<String> = built
        .iter()
        .map(|(_, from)| host.canonical(from).unwrap_or_else(|_| from.clone()).key())
        .collect_set();
    let roots: Vec<HostPath> = built.iter().map(|(_, from)| from.clone()).collect();
    let folders = linked_folders(host, request.environment, request.manifest);
    let rules = ClosureRules { platform: request.platform, own, leave: &request.table.leave, folders };
    let closure = closure::follow(host, &roots, &rules)?;
    check_platform(request.platform, &closure)?;
    for (index, (path, from)) in built.iter().enumerate() {
        let part = if index == 0 { LayerKind::Program } else { LayerKind::Built(path.clone()) };
        staging.add(path, from, true, part)?;
    }
    staging.libraries(&closure, request.gfx)?;
    staging.files(request)?;
    staging.licences(&closure, request)?;
    staging.set_search_paths()?;
    staging.verify(&closure, &request.table.leave)?;
    staging.sbom(request)?;
    staging.staged.left = closure.left;
    staging.staged.not_found.extend(closure.not_found);
    Ok(staging.staged)
}

/// The folders of linked libraries: first those of the project's environment, then those of toolkits, without stub folders.
pub(crate) fn linked_folders(
    host: &dyn HostInfo,
    environment: &[String],
    manifest: Option<&Manifest>,
) -> Vec<HostPath> {
    let mut folders: Vec<HostPath> = environment.iter().map(|folder| host.path(folder)).collect();
    for item in manifest.iter().flat_map(|manifest| &manifest.trees).flat_map(|tree| &tree.link) {
        let folder = match item {
            LinkItem::Search { path } => Some(host.path(path)),
            LinkItem::Shared { path } => host.path(path).parent(),
            _ => None,
        };
        folders
            .extend(folder.filter(|folder| folder.file_name() != Some("stubs") && !folders.contains(folder)));
    }
    folders
}

/// Rejects third-party libraries on macOS, where packing them is not implemented: their install names would have to be changed, and
/// the files signed again.
pub(crate) fn check_platform(platform: Platform, closure: &Closure) -> Result<(), PackError> {
    if platform.os == Os::Macos && !closure.packed.is_empty() {
        let names: Vec<&str> = closure.packed.keys().map(String::as_str).collect();
        return Err(PackError::Platform(names.join(", ")));
    }
    Ok(())
}

pub(super) struct Staging<'a> {
    host: &'a dyn Host,
    into: &'a HostPath,
    platform: Platform,
    pub(super) staged: Staged,
    names: Names,
    /// The packages of third-party libraries, by the names of the libraries.
    packages: BTreeMap<String, LibraryPackage>,
    /// The parts of Zig that are linked statically.
    parts: Vec<LinkedPart>,
}

impl<'a> Staging<'a> {
    pub(super) fn new(host: &'a dyn Host, into: &'a HostPath, platform: Platform) -> Self {
        let (staged, names) = (Staged::default(), Names::default());
        Self { host, into, platform, staged, names, packages: BTreeMap::new(), parts: Vec::new() }
    }

    /// Adds a file to the copy.
    pub(super) fn add(
        &mut self,
        path: &str,
        from: &HostPath,
        executable: bool,
        part: LayerKind,
    ) -> Result<(), PackError> {
        // Apply the same rules as `install`.
        self.names.add(path).map_err(|unfit| PackError::Name {
            path: path.to_owned(),
            from: from.to_string(),
            unfit,
        })?;
        let target = self.into.join(path);
        // A link itself would lead to another file from here.
        let real = self.host.canonical(from).unwrap_or_else(|_| from.clone());
        self.host.link(&real, &target).map_err(|error| PackError::io("copy", from, &error))?;
        self.staged.pieces.push(LayerPiece { path: path.to_owned(), from: target, executable, part });
        Ok(())
    }

    /// Adds a file with this text to the copy.
    pub(super) fn add_text(&mut self, path: &str, text: &str, part: LayerKind) -> Result<(), PackError> {
        let host = self.host;
        let file = self.into.join("new");
        host.write(&file, text.as_bytes()).map_err(|error| PackError::io("write", &file, &error))?;
        self.add(path, &file, false, part)?;
        host.remove(&file).map_err(|error| PackError::io("remove", &file, &error))
    }

    /// Adds third-party libraries and their data files.
    pub(super) fn libraries(&mut self, closure: &Closure, gfx: &[String]) -> Result<(), PackError> {
        let folder = if self.platform.os == Os::Windows { "bin" } else { "lib" };
        for (name, from) in &closure.packed {
            self.add(&format!("{folder}/{name}"), from, false, LayerKind::Library(name.clone()))?;
            let data = libraries::find(name).map(|library| library.data.as_slice()).unwrap_or_default();
            for inner in data {
                let Some(source) = from.parent().map(|parent| parent.join(inner)) else { continue };
                if self.data(name, &source, &format!("{folder}/{inner}"), gfx, 0)? == 0 {
                    self.staged.not_found.insert(inner.clone());
                }
            }
        }
        Ok(())
    }

    /// Adds the data files in a folder, without those for other architectures. Returns the number of all files.
    fn data(
        &mut self,
        library: &str,
        source: &HostPath,
        path: &str,
        gfx: &[String],
        depth: usize,
    ) -> Result<usize, PackError> {
        let mut count = 0;
        for name in self.host.list(source).unwrap_or_default() {
            let (from, path) = (source.join(&name), format!("{path}/{name}"));
            if !is_for(&name, gfx) {
                self.staged.data_left += 1;
                count += 1;
            } else if self.host.is_file(&from) {
                self.add(&path, &from, false, LayerKind::Data(library.to_owned()))?;
                count += 1;
            } else if depth < MAX_DATA_DEPTH {
                count += self.data(library, &from, &path, gfx, depth + 1)?;
            }
        }
        Ok(count)
    }

    /// Adds the files that `include` lists.
    pub(super) fn files(&mut self, request: &StageRequest<'_>) -> Result<(), PackError> {
        for pattern in &request.table.include {
            for from in matches(self.host, request.root, pattern)? {
                check_link(self.host, request.root, &from)?;
                let inner = inner(request.root, &from);
                self.add(&format!("share/{}/{inner}", request.name), &from, false, LayerKind::Files)?;
            }
        }
        Ok(())
    }

    pub(super) fn licences(
        &mut self,
        closure: &Closure,
        request: &StageRequest<'_>,
    ) -> Result<(), PackError> {
        let host = self.host;
        let mut licences = Licences::default();
        licences.of_folder(host, request.package, request.name);
        licences.of_folder(host, request.root, request.name);
        if let Some(source) = request.source {
            licences.of_folder(host, source, source.file_name().unwrap_or("source"));
        }
        let list = self.into.join("crates.txt");
        if matches!(request.contents, StageContents::Programs(_)) {
            licences.of_crates(host, request.cargo, &list)?;
        }
        for (name, from) in &closure.packed {
            let package = LibraryPackage::of(host, from);
            licences.of_library(name, package.as_ref());
            self.packages.extend(package.map(|package| (name.clone(), package)));
        }
        self.parts = zig::linked_parts(host, request, &self.staged);
        for part in &self.parts {
            licences.of_library(&part.package.name, Some(&part.package));
        }
        for pattern in &request.table.licences {
            for from in matches(host, request.root, pattern)? {
                licences.add(&format!("{}/{}", request.name, inner(request.root, &from)), from);
            }
        }
        for piece in &licences.pieces {
            if piece.from.is_inside(request.root) {
                check_link(host, request.root, &piece.from)?;
            }
        }
        for piece in licences.pieces {
            self.add(&piece.path, &piece.from, false, LayerKind::Licences)?;
        }
        self.staged.without_licence = licences.without;
        host.remove(&list).map_err(|error| PackError::io("remove", &list, &error))
    }

    /// Adds the bill of materials, with the hashes of the files as they are packed.
    pub(super) fn sbom(&mut self, request: &StageRequest<'_>) -> Result<(), PackError> {
        let host = self.host;
        let mut files = Vec::new();
        for piece in &self.staged.pieces {
            let package = match &piece.part {
                LayerKind::Program | LayerKind::Built(_) => None,
                LayerKind::Library(name) => self.packages.get(name),
                LayerKind::Files | LayerKind::Licences | LayerKind::Sbom | LayerKind::Data(_) => continue,
            };
            let sha256 = layer::sum(host, &piece.from)?;
            let is_built = !matches!(piece.part, LayerKind::Library(_));
            files.push(SbomFile { path: &piece.path, sha256, is_built, package });
        }
        let source = request.source.map(|source| SbomSource {
            name: source.file_name().unwrap_or("source"),
            locked: request.locked,
        });
        let kind = match request.contents {
            StageContents::Programs(_) => "application",
            StageContents::Libraries(_) => "library",
        };
        let text = sbom::text(request.cargo, kind, source, &files, &self.parts);
        let built = files.iter().filter(|file| file.is_built);
        self.staged.built = built.map(|file| (file.path.to_owned(), file.sha256.clone())).collect();
        self.add_text(&format!("share/{}", sbom::NAME), &text, LayerKind::Sbom)?;
        self.staged.sbom = text;
        Ok(())
    }

    /// Sets the library search path of every file to folders of the copy, instead of those of the build machine.
    pub(super) fn set_search_paths(&mut self) -> Result<(), PackError> {
        let host = self.host;
        let arch = self.platform.arch;
        let has_libraries =
            self.staged.pieces.iter().any(|piece| matches!(piece.part, LayerKind::Library(_)));
        let others = self
            .staged
            .pieces
            .iter()
            .filter(|piece| matches!(piece.part, LayerKind::Built(_) | LayerKind::Library(_)));
        let packed: BTreeSet<String> =
            others.filter_map(|piece| piece.from.file_name().map(str::to_owned)).collect_set();
        let staged = &mut self.staged;
        for piece in &staged.pieces {
            if !matches!(piece.part, LayerKind::Program | LayerKind::Built(_) | LayerKind::Library(_)) {
                continue;
            }
            let Ok(contents) = gpubuild_object::read(host, &piece.from, arch) else { continue };
            if let Some(newer) = newer_glibc(staged.glibc.as_ref(), &contents) {
                staged.glibc = Some(newer);
            }
            if piece.path == staged.program {
                staged.interpreter.clone_from(&contents.interpreter);
                staged.system.clone_from(&contents.system);
            }
            let is_main = piece.path == staged.program;
            let Some(folders) = rpath::search_path(piece, &contents, is_main, has_libraries, &packed) else {
                continue;
            };
            let wrong = |what: String| PackError::Rpath { path: piece.from.to_string(), what };
            let data =
                host.read_up_to(&piece.from, LIBRARY_LIMIT).map_err(|error| wrong(error.to_string()))?;
            let changed = rpath::set(&data, &folders).map_err(wrong)?;
            // `write` replaces the file, because the staged file can be a hard link to the built one.
            host.write(&piece.from, &changed).map_err(|error| PackError::io("write", &piece.from, &error))?;
            if piece.executable {
                host.set_executable(&piece.from)
                    .map_err(|error| PackError::io("write", &piece.from, &error))?;
            }
        }
        Ok(())
    }

    /// Checks that the loader finds all libraries of the copy.
    pub(super) fn verify(&self, closure: &Closure, leave: &[String]) -> Result<(), PackError> {
        let roots: Vec<HostPath> = self
            .staged
            .pieces
            .iter()
            .filter(|piece| matches!(piece.part, LayerKind::Program | LayerKind::Built(_)))
            .filter(|piece| !is_archive(&piece.path))
            .map(|piece| piece.from.clone())
            .collect();
        let inside = self.host.canonical(self.into).unwrap_or_else(|_| self.into.clone());
        closure::verify(self.host, &roots, &inside, (self.platform, leave)).map_err(|error| match error {
            // The library is packed, so the search path of the file is wrong.
            ClosureError::Missing { name, by } if closure.packed.contains_key(&name) => {
                PackError::Rpath { path: by, what: format!("it does not find the packed library `{name}`") }
            }
            other => other.into(),
        })
    }
}

/// The glibc version that a file needs, if it is newer than `known`.
fn newer_glibc(known: Option<&Version>, contents: &ObjectFile) -> Option<Version> {
    let newest = contents.needed_glibc()?;
    (known.is_none_or(|known| *known < newest)).then_some(newest)
}

/// Whether a data file is for one of these architectures or for no particular one. Without architectures, all files are.
fn is_for(name: &str, gfx: &[String]) -> bool {
    let Some(start) = name.find("gfx") else { return true };
    let digits: String = name[start + 3..].chars().take_while(char::is_ascii_hexdigit).collect();
    let arch = format!("gfx{digits}");
    gfx.is_empty() || gfx.iter().any(|own| own.split(':').next() == Some(arch.as_str()))
}

fn matches(host: &dyn ReadFiles, root: &HostPath, pattern: &str) -> Result<Vec<HostPath>, PackError> {
    let mut found = search::glob(host, root.join(pattern).as_str());
    found.retain(|path| host.is_file(path));
    if found.is_empty() { Err(PackError::NoMatch(pattern.to_owned())) } else { Ok(found) }
}

/// The path relative to a folder, with `/` as separator.
fn inner(root: &HostPath, path: &HostPath) -> String {
    let rest = path.as_str().strip_prefix(root.as_str());
    let rest = rest.or_else(|| path.file_name()).unwrap_or_default();
    rest.trim_start_matches(['/', '\\']).replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{RealHost, WriteFiles};

    #[test]
    fn data_for_other_architectures_is_not_packed() {
        let gfx = ["gfx90a".to_owned(), "gfx942:sramecc+".to_owned()];
        for (name, packed) in [
            ("TensileLibrary_lazy_gfx90a.dat", true),
            ("Kernels.so-000-gfx942.hsaco", true),
            ("Kernels.so-000-gfx90c.hsaco", false),
            ("TensileLibrary_gfx1100.co", false),
            ("TensileManifest.txt", true),
            ("gfx942", true),
        ] {
            assert_eq!(is_for(name, &gfx), packed, "{name}");
            assert!(is_for(name, &[]), "{name}: packed without a list of architectures");
        }
    }

    #[test]
    fn data_files_of_libraries_are_packed() {
        let folder = tempfile::tempdir().unwrap();
        let host = RealHost::new();
        let root = host.path(folder.path().to_str().unwrap());
        let rocm = root.join("rocm/lib");
        for file in [
            "librocblas.so.5.1",
            "libhipblaslt.so.1",
            "rocblas/library/TensileLibrary_lazy_gfx90a.dat",
            "rocblas/library/TensileLibrary_lazy_gfx1100.dat",
            "rocblas/library/gfx90a/Kernels.hsaco",
            "rocblas/library/TensileManifest.txt",
        ] {
            host.write(&rocm.join(file), file.as_bytes()).unwrap();
        }
        let packed = [("librocblas.so.5", "librocblas.so.5.1"), ("libhipblaslt.so.1", "libhipblaslt.so.1")];
        let packed = packed.map(|(name, file)| (name.to_owned(), rocm.join(file)));
        let closure = Closure { packed: packed.into(), ..Closure::default() };
        let into = root.join("copy");
        let mut staging = Staging::new(&host, &into, host.platform());
        staging.libraries(&closure, &["gfx90a".to_owned()]).unwrap();
        let mut paths: Vec<&str> = staging.staged.pieces.iter().map(|piece| piece.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            [
                "lib/libhipblaslt.so.1",
                "lib/librocblas.so.5",
                "lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat",
                "lib/rocblas/library/TensileManifest.txt",
                "lib/rocblas/library/gfx90a/Kernels.hsaco",
            ]
        );
        assert_eq!(staging.staged.data_left, 1);
        assert_eq!(staging.staged.not_found.iter().collect::<Vec<_>>(), ["hipblaslt/library"]);
        let data = LayerKind::Data("librocblas.so.5".to_owned());
        assert_eq!(staging.staged.pieces.iter().filter(|piece| piece.part == data).count(), 3);
    }
}
