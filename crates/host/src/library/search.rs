//! Finds the libraries that a given executable or library needs: like [`LibraryLoader::find`](super::LibraryLoader::find), but
//! also considers the search paths that the file itself contains.

use serde::Serialize;

use super::{
    LibraryLoader, cache, configured_folders, default_folders, is_foreign_elf, multiarch, musl_folders,
    variable, windows_root,
};
use crate::{Arch, HostPath, Os};

/// The rule by which a loader finds a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Via {
    /// The needed name is a path.
    Path,
    /// `DT_RPATH` of the file or of a file that loaded it; on macOS `@rpath`.
    Rpath,
    /// `LD_LIBRARY_PATH`, `DYLD_LIBRARY_PATH`.
    LibraryPath,
    /// `DT_RUNPATH` of the file.
    Runpath,
    /// `/etc/ld.so.cache`.
    Cache,
    /// A folder from `/etc/ld.so.conf`.
    Configuration,
    /// A default folder of the loader.
    Default,
    /// The program's folder (Windows).
    Application,
    /// A system folder of Windows.
    System,
    /// A folder of PATH (Windows).
    ProgramPath,
    /// `DYLD_FALLBACK_LIBRARY_PATH`, or the default fallback folders if it is not set (macOS).
    Fallback,
}

/// A file that a loader finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The path of the file.
    pub path: HostPath,
    /// The rule by which it is found.
    pub via: Via,
}

/// The files that a loader finds for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryLookup {
    /// Files that it can load. It loads the first.
    pub usable: Vec<Match>,
    /// Files with this name for other machines, which it skips.
    pub foreign: Vec<Match>,
}

/// The dynamic loaders of Linux, named after their C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinuxLoader {
    /// The loader of the GNU C library.
    Glibc,
    /// The loader of musl.
    Musl,
}

/// The properties of an ELF file that affect how its libraries are found. All folders are absolute, with placeholders such as
/// `$ORIGIN` replaced.
#[derive(Debug, Clone)]
pub struct ElfRequest {
    /// The loader that the program requests.
    pub loader: LinuxLoader,
    /// Machine number in the ELF header, and whether the file is 64-bit.
    pub machine: (u16, bool),
    /// Folders in `DT_RPATH` of the file and of the files that loaded it.
    pub rpath: Vec<HostPath>,
    /// Folders in `DT_RUNPATH` of the file.
    pub runpath: Vec<HostPath>,
    /// The only default folder of a loader that is installed in an unusual place (Nix, Guix).
    pub own_folder: Option<HostPath>,
}

impl ElfRequest {
    /// A request without search paths.
    #[must_use]
    pub fn plain(arch: Arch, loader: LinuxLoader) -> Self {
        let machine = native(arch);
        Self { loader, machine, rpath: Vec::new(), runpath: Vec::new(), own_folder: None }
    }
}

/// Machine number in ELF headers, and whether the architecture is 64-bit.
pub(super) fn native(arch: Arch) -> (u16, bool) {
    match arch {
        Arch::X86_64 => (62, true),
        Arch::Aarch64 => (183, true),
    }
}

impl LibraryLoader<'_> {
    /// All files that a Linux loader finds for a name, in its search order.
    #[must_use]
    pub fn elf(&self, name: &str, request: &ElfRequest) -> LibraryLookup {
        self.classify(self.elf_candidates(name, request), |start| is_foreign_elf(start, request.machine))
    }

    /// The first usable file of [`Self::elf`]. Stops searching there.
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

    /// All files that the Windows loader finds for a name, in its search order. `application` is the program's folder; `wide` is
    /// true for 64-bit programs.
    #[must_use]
    pub fn windows(&self, name: &str, application: Option<&HostPath>, wide: bool) -> LibraryLookup {
        let host = self.host;
        let root = windows_root(host);
        // For 32-bit programs, Windows redirects `System32` to `SysWOW64`.
        let system = if wide { "System32" } else { "SysWOW64" };
        let path = host.env().get("PATH").unwrap_or_default();
        let path = path.split(';').map(|folder| host.path(folder.trim_matches('"')));
        let folders = application
            .map(|folder| (Via::Application, folder.clone()))
            .into_iter()
            .chain([(Via::System, root.join(system)), (Via::System, root)])
            .chain(path.filter(HostPath::is_absolute).map(|folder| (Via::ProgramPath, folder)));
        // The loader appends the default extension.
        let named = if name.contains('.') { name.to_owned() } else { format!("{name}.dll") };
        let candidates = folders.map(|(via, folder)| Match { path: folder.join(&named), via });
        self.classify(candidates, |_| false)
    }

    /// All files that the macOS loader finds, in its search order. `paths` are the expansions of the needed name, in order.
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
        self.classify(forced.chain(paths.iter().cloned()).chain(fallback), |_| false)
    }

    /// The value of `$LIB`: a folder relative to `/` and `/usr`.
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
            // musl treats both kinds of search paths alike, inherits them, and searches them after the variable.
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

    /// Candidates from the cache (or from `ld.so.conf` if there is no cache) and from the default folders.
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
            // Without a cache, the loader only searches its default folders. The configuration shows what `ldconfig` would add.
            None => in_folders(Via::Configuration, configured_folders(host)).chain(default).collect(),
        }
    }

    /// Classifies the candidates that exist. Each file is listed once.
    fn classify(
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
