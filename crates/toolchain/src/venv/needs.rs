//! Determines the toolkit libraries that the last build needs at run time, from the built files and the link line.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::Inventory;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::artifacts::{Artifact, LinkItem, Manifest};

use super::table::{WheelTable, link_name};

/// The toolkit libraries that a build needs at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeNeeds {
    /// Needed libraries by file name.
    pub libraries: BTreeMap<String, NeededLibrary>,
    /// The toolkit that it was built with, if known.
    pub toolkit: Option<NeededToolkit>,
}

/// A needed library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededLibrary {
    /// File name of the binary that needs it, or `the link line`.
    pub by: String,
    /// The backend that it belongs to.
    pub backend: Backend,
}

/// The toolkit of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededToolkit {
    /// Its version.
    pub version: Version,
    /// Where the version was found: the compiler with its version, or the toolkit's root.
    pub from: String,
}

/// Determines the needs from a manifest and, optionally, the program that was linked with it.
#[must_use]
pub fn of_build(
    host: &dyn ReadFiles,
    table: &WheelTable,
    inventory: &Inventory,
    manifest: &Manifest,
    program: Option<&Artifact>,
) -> RuntimeNeeds {
    let mut finder =
        Finder { host, table, os: host.platform().os, needs: RuntimeNeeds::default(), linked: Vec::new() };
    let built: Vec<&Artifact> = manifest.trees.iter().flat_map(|tree| &tree.files).chain(program).collect();
    for tree in &manifest.trees {
        if let Some(compiler) = tree.compilers.get("CUDA")
            && let Ok(version) = compiler.version.parse()
        {
            let from = format!("{} {}", compiler.path, compiler.version);
            finder.needs.toolkit.get_or_insert(NeededToolkit { version, from });
        }
        let folders: Vec<HostPath> = tree
            .link
            .iter()
            .filter_map(
                |item| if let LinkItem::Search { path } = item { Some(host.path(path)) } else { None },
            )
            .collect();
        for item in &tree.link {
            match item {
                LinkItem::Shared { path } if built.iter().all(|file| file.path != *path) => {
                    finder.linked(&host.path(path));
                }
                LinkItem::System { name } => finder.named(name, &folders),
                _ => {}
            }
        }
    }
    for file in built.iter().filter(|file| file.kind != "static") {
        finder.inside(file);
    }
    let Finder { mut needs, linked, .. } = finder;
    if needs.toolkit.is_none() {
        needs.toolkit = linked.iter().find_map(|path| toolkit_of(inventory, path));
    }
    // Programs find built libraries by their own search path.
    let own = |library: &String| built.iter().any(|file| file.path.ends_with(&format!("/{library}")));
    needs.libraries.retain(|library, _| !own(library));
    needs
}

/// The toolkit copy that contains a library.
fn toolkit_of(inventory: &Inventory, library: &HostPath) -> Option<NeededToolkit> {
    let copy = inventory.of("cuda").iter().find(|copy| library.is_inside(&copy.root))?;
    Some(NeededToolkit { version: copy.version()?.clone(), from: copy.root.to_string() })
}

struct Finder<'a> {
    host: &'a dyn ReadFiles,
    table: &'a WheelTable,
    os: Os,
    needs: RuntimeNeeds,
    /// Paths of linked toolkit libraries, each with symbolic links resolved and as written.
    linked: Vec<HostPath>,
}

impl Finder<'_> {
    fn need(&mut self, library: &str, by: &str) {
        let Some(backend) = toolkit_library(library) else { return };
        self.needs
            .libraries
            .entry(library.to_owned())
            .or_insert(NeededLibrary { by: by.to_owned(), backend });
    }

    /// Adds the libraries that an executable or shared library needs.
    fn inside(&mut self, file: &Artifact) {
        let path = self.host.path(&file.path);
        let Ok(binary) = gpubuild_object::read(self.host, &path, self.host.platform().arch) else { return };
        let by = path.file_name().unwrap_or_default().to_owned();
        for needed in &binary.needed {
            self.need(&needed.name, &by);
        }
    }

    /// Adds a library that the link line gives by path. Programs load it by its soname.
    fn linked(&mut self, path: &HostPath) {
        let file = path.file_name().unwrap_or_default();
        let name = match gpubuild_object::read(self.host, path, self.host.platform().arch) {
            Ok(library) => library.name.or_else(|| Some(file.to_owned())),
            // A Windows import library or a linker script.
            Err(_) => self.by_link_name(stem(self.os, file)),
        };
        if let Some(name) = name.filter(|name| toolkit_library(name).is_some()) {
            self.linked.push(self.host.canonical(path).unwrap_or_else(|_| path.clone()));
            self.linked.push(path.clone());
            self.need(&name, "the link line");
        }
    }

    /// Adds a library that the link line gives by name.
    fn named(&mut self, name: &str, folders: &[HostPath]) {
        let file = format!("lib{name}.so");
        let found = folders.iter().map(|folder| folder.join(&file)).find(|path| self.host.is_file(path));
        match found {
            Some(path) => self.linked(&path),
            None => {
                if let Some(library) = self.by_link_name(name) {
                    self.need(&library, "the link line");
                }
            }
        }
    }

    /// The library in the table for a linker name; of the toolkit's major version, if known.
    fn by_link_name(&self, name: &str) -> Option<String> {
        let major = self.needs.toolkit.as_ref().map(|toolkit| toolkit.version.major());
        let releases = self.table.releases.iter().rev();
        let mut fitting = releases.filter(|release| major.is_none_or(|major| release.cuda.major() == major));
        fitting.find_map(|release| {
            let libraries = release.wheels.iter().flat_map(|wheel| wheel.libraries(self.os));
            libraries.into_iter().find(|library| link_name(self.os, library) == Some(name)).cloned()
        })
    }
}

fn stem(os: Os, file: &str) -> &str {
    match os {
        Os::Windows => file.strip_suffix(".lib").unwrap_or(file),
        Os::Linux | Os::Macos => {
            file.strip_prefix("lib").and_then(|rest| rest.split_once(".so")).map_or(file, |(name, _)| name)
        }
    }
}

/// The backend of a library, if it belongs to a toolkit and may be distributed with programs.
fn toolkit_library(name: &str) -> Option<Backend> {
    let library = libraries::find(name)?;
    library.backend.filter(|_| library.role == LibraryRole::Runtime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, RecordedHost};
    use gpubuild_plan::artifacts::{BuiltTree, Compiler};

    fn manifest(link: Vec<LinkItem>, compiler: Option<&str>) -> Manifest {
        let compiler = compiler.map(|version| Compiler {
            id: "NVIDIA".into(),
            version: version.into(),
            path: "/opt/cuda/bin/nvcc".into(),
        });
        let tree = BuiltTree {
            interface: gpubuild_plan::artifacts::BuiltInterface::default(),
            folder: None,
            extra: Vec::new(),
            abi: std::collections::BTreeMap::new(),
            id: "cuda".into(),
            backends: vec![Backend::Cuda],
            key: String::new(),
            source: "/s".into(),
            build: "/b".into(),
            generator: "Ninja".into(),
            cmake: "4".into(),
            cache: BTreeMap::new(),
            files: Vec::new(),
            link,
            compilers: compiler.map(|compiler| ("CUDA".to_owned(), compiler)).into_iter().collect(),
            compile: Vec::new(),
            promises: BTreeMap::new(),
        };
        Manifest {
            cargo: None,
            loader: None,
            target: None,
            schema: 1,
            gpubuild: "0".into(),
            project: "p".into(),
            backends: vec![Backend::Cuda],
            trees: vec![tree],
        }
    }

    fn needed(os: Os, link: Vec<LinkItem>, compiler: Option<&str>) -> Vec<String> {
        let host = RecordedHost::builder(os, Arch::X86_64).build();
        let manifest = manifest(link, compiler);
        let needs = of_build(&host, WheelTable::embedded(), &Inventory::default(), &manifest, None);
        needs.libraries.into_keys().collect()
    }

    #[test]
    fn linker_names_map_to_libraries_of_the_toolkits_major() {
        let system = |name: &str| LinkItem::System { name: name.into() };
        let line = vec![system("cublas"), system("cudart"), system("m"), system("cuda")];
        assert_eq!(needed(Os::Linux, line.clone(), Some("12.4.131")), ["libcublas.so.12", "libcudart.so.12"]);
        assert_eq!(needed(Os::Linux, line.clone(), None), ["libcublas.so.13", "libcudart.so.13"]);
        assert_eq!(needed(Os::Windows, line, Some("12.9.86")), ["cublas64_12.dll", "cudart64_12.dll"]);
    }

    #[test]
    fn import_libraries_and_paths_are_included_and_static_libraries_are_not() {
        let shared = |path: &str| LinkItem::Shared { path: path.into() };
        let line = vec![
            shared("C:/CUDA/lib/x64/cublas.lib"),
            LinkItem::Static { path: "C:/CUDA/lib/x64/cudart_static.lib".into() },
        ];
        assert_eq!(needed(Os::Windows, line, Some("13.0.88")), ["cublas64_13.dll"]);
        // The file does not exist, so the library is found by its name.
        assert_eq!(needed(Os::Linux, vec![shared("/c/lib/libcufft.so")], Some("12.0")), ["libcufft.so.11"]);
    }
}
