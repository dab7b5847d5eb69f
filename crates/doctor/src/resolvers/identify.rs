//! Identifies the copy that a folder or a compiler belongs to, whatever path it was reached by.

use gpubuild_detect::toolkit::description::{Description, PlatformText};
use gpubuild_detect::toolkit::pattern::fill;
use gpubuild_detect::toolkit::places::go_up;
use gpubuild_detect::toolkit::versions::{VersionLocation, from_files};
use gpubuild_detect::toolkit::{Installation, Inventory};
use gpubuild_host::{HostPath, InspectHost};

use super::TakenPath;

/// Folders of a copy that can contain its compilers. Other folders of a shared prefix, such as `/usr/local/cuda-12.4` in `/usr`, can
/// belong to other copies.
const OWN_FOLDERS: [&str; 8] = ["bin", "lib", "lib64", "libexec", "llvm", "hip", "targets", "linux"];

/// Identifies the copies of a toolkit on a host.
pub(super) struct Identifier<'a> {
    host: &'a dyn InspectHost,
    description: Option<&'a Description>,
    copies: &'a [Installation],
}

impl<'a> Identifier<'a> {
    pub(super) fn new(
        host: &'a dyn InspectHost,
        description: Option<&'a Description>,
        inventory: &'a Inventory,
    ) -> Self {
        let copies = description.map_or(&[] as &[Installation], |description| inventory.of(&description.id));
        Self { host, description, copies }
    }

    /// Root folder of the copy that a compiler belongs to.
    pub(super) fn root_of(&self, compiler: &HostPath) -> HostPath {
        let real = self.real(compiler);
        let by_part = |copy: &&Installation| {
            copy.parts
                .iter()
                .filter(|(id, _)| id.contains("compiler") || id.as_str() == "clang")
                .filter_map(|(_, part)| part.path.as_ref())
                .any(|path| self.real(path).key() == real.key())
        };
        if let Some(copy) = self.copies.iter().find(by_part).or_else(|| self.around(&real)) {
            // Users recognise the path by which it was reached better than the real path.
            let above = go_up(compiler, 2);
            return if self.real(&above).key() == copy.root.key() { above } else { copy.root.clone() };
        }
        go_up(&real, 2)
    }

    /// Identifies the copy of a root, and the other copy that the compiler belongs to, if any.
    pub(super) fn identify(&self, root: HostPath, compiler: Option<HostPath>, separate: bool) -> TakenPath {
        let real = self.real(&root);
        let is_it = |copy: &&Installation| copy.root.key() == real.key();
        // A folder in `targets` that a variable names is detected as a separate, incomplete copy.
        let known = (self.copies.iter().find(|copy| is_it(copy) && copy.is_complete()))
            .or_else(|| self.around_target(&real))
            .or_else(|| self.copies.iter().find(is_it));
        let copy = known.map_or_else(|| real.clone(), |copy| copy.root.clone());
        let compiler_copy = compiler
            .as_ref()
            .filter(|_| !separate)
            .map(|compiler| self.real(&self.root_of(compiler)))
            .filter(|other| other.key() != copy.key());
        let version = match known {
            Some(known) => known.version().cloned(),
            None => self.description.and_then(|description| {
                let place = VersionLocation { root: &root, real: &real };
                from_files(self.host, description, &place).map(|fact| fact.value)
            }),
        };
        let compiler = compiler.or_else(|| self.own_compiler(&root));
        TakenPath { root, compiler, version, copy, compiler_copy }
    }

    fn real(&self, path: &HostPath) -> HostPath {
        self.host.canonical(path).unwrap_or_else(|_| path.normalized())
    }

    /// The innermost copy that contains a file.
    fn around(&self, real: &HostPath) -> Option<&'a Installation> {
        let is_own = |copy: &&Installation| {
            real.is_inside(&copy.root)
                && below(real, &copy.root).is_some_and(|first| OWN_FOLDERS.contains(&first.as_str()))
        };
        self.copies.iter().filter(is_own).max_by_key(|copy| copy.root.as_str().len())
    }

    /// The complete copy that contains a folder of `targets`.
    fn around_target(&self, real: &HostPath) -> Option<&'a Installation> {
        let is_target = |copy: &&Installation| {
            real.is_inside(&copy.root) && below(real, &copy.root).is_some_and(|first| first == "targets")
        };
        self.copies.iter().filter(|copy| copy.is_complete()).find(is_target)
    }

    fn own_compiler(&self, root: &HostPath) -> Option<HostPath> {
        let part = self.description?.parts.get("compiler")?;
        let on = |candidate: &PlatformText| {
            let relative = fill(candidate.on(self.host.platform())?, self.host)?;
            Some(root.join(&relative)).filter(|path| self.host.is_file(path))
        };
        part.paths.iter().find_map(on)
    }
}

/// First folder below `root` on the path to `path`, in lowercase.
fn below(path: &HostPath, root: &HostPath) -> Option<String> {
    let separator = path.rules().separator();
    let (path, root) = (path.key(), root.key());
    let rest = path.strip_prefix(root.trim_end_matches(separator))?.strip_prefix(separator)?;
    rest.split(separator).next().map(str::to_lowercase).filter(|name| !name.is_empty())
}
