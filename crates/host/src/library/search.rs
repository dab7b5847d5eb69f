//! Where a loader looks for a library that a given file names: as [`LibraryLoader::find`](super::LibraryLoader::find), with what that
//! file itself says about folders.

use serde::Serialize;

use super::{
    LibraryLoader, cache, configured_folders, default_folders, is_foreign_elf, multiarch, musl_folders,
    variable, windows_root,
};
use crate::{Arch, HostPath, Os};

/// Which place a library comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Via {
    /// The name is a path.
    Path,
    /// `DT_RPATH` of the file or of one that loaded it; `@rpath` of macOS.
    Rpath,
    /// `LD_LIBRARY_PATH`, `DYLD_LIBRARY_PATH`.
    LibraryPath,
    /// `DT_RUNPATH` of the file.
    Runpath,
    /// `/etc/ld.so.cache`.
    Cache,
    /// A folder of the loader's configuration.
    Configuration,
    /// A folder that every loader of the platform searches.
    Default,
    /// The folder of the program (Windows).
    Application,
    /// A folder of Windows itself.
    System,
    /// A folder of PATH (Windows).
    ProgramPath,
    /// `DYLD_FALLBACK_LIBRARY_PATH`, or what stands for it.
    Fallback,
}

/// A file that a loader comes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Where.
    pub path: HostPath,
    /// By which rule.
    pub via: Via,
}

/// What a loader finds under a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryLookup {
    /// The files that it can load; it takes the first.
    pub usable: Vec<Match>,
    /// Files of that name for another processor, which it passes over.
    pub foreign: Vec<Match>,
}

/// C libraries of Linux: each has a loader of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinuxLoader {
    /// GNU's.
    Glibc,
    /// musl's.
    Musl,
}

/// What a file on Linux brings to the search for its libraries. All folders are absolute, placeholders filled.
#[derive(Debug, Clone)]
pub struct ElfRequest {
    /// Whose loader it is.
    pub loader: LinuxLoader,
    /// The processor's number in the header of ELF files, and whether addresses have 64 bits.
    pub machine: (u16, bool),
    /// Folders of `DT_RPATH`, of the file and of those that loaded it.
    pub rpath: Vec<HostPath>,
    /// Folders of the file's `DT_RUNPATH`.
    pub runpath: Vec<HostPath>,
    /// The folder of a loader that lies outside of the usual places and knows only its own (Nix, Guix).
    pub own_folder: Option<HostPath>,
}

impl ElfRequest {
    /// The request of a program that says nothing about folders.
    #[must_use]
    pub fn plain(arch: Arch, loader: LinuxLoader) -> Self {
        let machine = native(arch);
        Self { loader, machine, rpath: Vec::new(), runpath: Vec::new(), own_folder: None }
    }
}

/// A processor's number in the header of ELF files, and whether addresses have 64 bits.
pub(super) fn native(arch: Arch) -> (u16, bool) {
    match arch {
        Arch::X86_64 => (62, true),
        Arch::Aarch64 => (183, true),
    }
}

impl LibraryLoader<'_> {
    /// Every file that the loader of Linux comes by under a name, in its order.
    #[must_use]
    pub fn elf(&self, name: &str, request: &ElfRequest) -> LibraryLookup {
        self.sorted(self.elf_candidates(name, request), |start| is_foreign_elf(start, request.machine))
    }

    /// The first of [`Self::elf`], without looking further.
    pub(super) fn first_elf(&self, name: &str, request: &ElfRequest) -> Option<HostPath> {
        let usable = |found: &Match| {
            self.host.is_file(&found.path)
                && self
                    .host
                    .read_start(&found.path, 20)
                    .map_or(true, |start| !is_foreign_elf(&start, request.machine))
        };
        self.elf_candidates(name, request).find(usable).map(|found| found.path)
    }

    /// Every file that the loader of Windows comes by under a name. `application` is the program's folder.
    #[must_use]
    pub fn windows(&self, name: &str, application: Option<&HostPath>, wide: bool) -> LibraryLookup {
        let host = self.host;
        let root = windows_root(host);
        // Programs of 32 bits see another folder under the name of the first.
        let system = if wide { "System32" } else { "SysWOW64" };
        let path = host.env().get("PATH").unwrap_or_default();
        let path = path.split(';').map(|folder| host.path(folder.trim_matches('"')));
        let folders = application
            .map(|folder| (Via::Application, folder.clone()))
            .into_iter()
            .chain([(Via::System, root.join(system)), (Via::System, root)])
            .chain(path.filter(HostPath::is_absolute).map(|folder| (Via::ProgramPath, folder)));
        // The loader adds the extension.
        let named = if name.contains('.') { name.to_owned() } else { format!("{name}.dll") };
        let candidates = folders.map(|(via, folder)| Match { path: folder.join(&named), via });
        self.sorted(candidates, |_| false)
    }

    /// Every file that the loader of macOS comes by under a name: `paths` are what the name stands for, in order.
    #[must_use]
    pub fn macos(&self, paths: &[Match]) -> LibraryLookup {
        let host = self.host;
        let Some(leaf) = paths.first().and_then(|first| first.path.file_name()) else {
            return LibraryLookup::default();
        };
        let folder = |via| move |folder: HostPath| Match { path: folder.join(leaf), via };
        let forced = variable(host, "DYLD_LIBRARY_PATH").into_iter().map(folder(Via::LibraryPath));
        let fallback = match host.env().get("DYLD_FALLBACK_LIBRARY_PATH") {
            Some(_) => variable(host, "DYLD_FALLBACK_LIBRARY_PATH"),
            None => ["/usr/local/lib", "/usr/lib"].iter().map(|folder| host.path(folder)).collect(),
        };
        let fallback = fallback.into_iter().map(folder(Via::Fallback));
        self.sorted(forced.chain(paths.iter().cloned()).chain(fallback), |_| false)
    }

    /// The folder that `$LIB` stands for, below `/` and `/usr`.
    #[must_use]
    pub fn lib(&self) -> &'static str {
        let host = self.host;
        let names = match host.platform().arch {
            Arch::X86_64 => ["lib/x86_64-linux-gnu", "lib64", "lib"],
            Arch::Aarch64 => ["lib/aarch64-linux-gnu", "lib64", "lib"],
        };
        let has_libc = |name: &&&str| host.is_file(&host.path(&format!("/usr/{name}/libc.so.6")));
        if let Some(found) = names.iter().find(has_libc) {
            return found;
        }
        if host.is_dir(&host.path(&format!("/usr/lib/{}", multiarch(host)))) { names[0] } else { names[1] }
    }

    fn elf_candidates<'a>(
        &'a self,
        name: &'a str,
        request: &'a ElfRequest,
    ) -> Box<dyn Iterator<Item = Match> + 'a> {
        let host = self.host;
        let in_folders = move |via: Via, folders: Vec<HostPath>| {
            folders.into_iter().map(move |folder| Match { path: folder.join(name), via })
        };
        let rpath = in_folders(Via::Rpath, request.rpath.clone());
        let runpath = in_folders(Via::Runpath, request.runpath.clone());
        let library_path =
            std::iter::once_with(move || in_folders(Via::LibraryPath, variable(host, "LD_LIBRARY_PATH")))
                .flatten();
        if request.loader == LinuxLoader::Musl {
            // musl knows one kind of such folders, inherited, and asks them after the variable.
            let default =
                std::iter::once_with(move || in_folders(Via::Default, musl_folders(host))).flatten();
            return Box::new(library_path.chain(rpath).chain(runpath).chain(default));
        }
        let system: Box<dyn Iterator<Item = Match> + 'a> = match &request.own_folder {
            Some(folder) => Box::new(in_folders(Via::Default, vec![folder.clone()])),
            None => Box::new(std::iter::once_with(move || self.elf_system(name, request)).flatten()),
        };
        Box::new(rpath.chain(library_path).chain(runpath).chain(system))
    }

    /// The cache, or without one what `ldconfig` would put into it, and the default folders.
    fn elf_system(&self, name: &str, request: &ElfRequest) -> Vec<Match> {
        let host = self.host;
        let in_folders = |via: Via, folders: Vec<HostPath>| {
            folders.into_iter().map(move |folder| Match { path: folder.join(name), via })
        };
        let cache = self.cache.get_or_init(|| host.read(&host.path("/etc/ld.so.cache")).ok());
        let cached = cache.as_ref().and_then(|bytes| cache::lookup(bytes, name, request.machine));
        let default = in_folders(Via::Default, default_folders(host, request.machine));
        match cached {
            Some(paths) => {
                let cached = paths.iter().map(|path| Match { path: host.path(path), via: Via::Cache });
                cached.chain(default).collect()
            }
            // Without a cache the loader knows its default folders only; the configuration says what `ldconfig` would add.
            None => in_folders(Via::Configuration, configured_folders(host)).chain(default).collect(),
        }
    }

    /// Those of the candidates that are there, each file once.
    fn sorted(
        &self,
        candidates: impl Iterator<Item = Match>,
        is_foreign: impl Fn(&[u8]) -> bool,
    ) -> LibraryLookup {
        let mut lookup = LibraryLookup::default();
        let mut seen = std::collections::BTreeSet::new();
        for found in candidates {
            if !self.host.is_file(&found.path) {
                continue;
            }
            let real = self.host.canonical(&found.path).unwrap_or_else(|_| found.path.clone());
            if !seen.insert(real.key()) {
                continue;
            }
            let foreign = self.host.platform().os == Os::Linux
                && self.host.read_start(&found.path, 20).is_ok_and(|start| is_foreign(&start));
            if foreign { &mut lookup.foreign } else { &mut lookup.usable }.push(found);
        }
        lookup
    }
}
