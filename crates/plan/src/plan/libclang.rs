//! The libclang that bindgen loads in the build scripts of Rust programs: the pinned one, and whether a project needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use gpubuild_detect::toolkit::description::WheelName;
use gpubuild_detect::toolkit::libclang;
use gpubuild_host::{HostPath, ReadFiles, find_program};
use gpubuild_toolkits::tables;
use serde::Deserialize;

use super::{Fetch, kits};
use crate::project::Project;

/// The name of the tool in [`Fetch`].
pub const LIBCLANG: &str = "libclang";

/// The variable that bindgen reads first.
pub const VARIABLE: &str = "LIBCLANG_PATH";

/// The content of `toolkits/tables/libclang.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClangTable {
    /// The library's path in the wheel, by operating system.
    library: BTreeMap<String, String>,
    wheel: WheelName,
}

/// The largest number of crates whose Cargo.toml is read.
const MAX_CRATES: usize = 1000;

/// The part of a Cargo.toml that names dependencies.
#[derive(Debug, Default, Deserialize)]
struct CargoManifest {
    #[serde(default)]
    dependencies: CrateDependencies,
    #[serde(default, rename = "build-dependencies")]
    build: CrateDependencies,
    #[serde(default)]
    target: BTreeMap<String, CargoManifest>,
    workspace: Option<CargoWorkspace>,
}

/// `[workspace]`, from which members inherit dependencies.
#[derive(Debug, Default, Deserialize)]
struct CargoWorkspace {
    #[serde(default)]
    dependencies: CrateDependencies,
}

type CrateDependencies = BTreeMap<String, CrateDependency>;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CrateDependency {
    /// The version.
    #[expect(dead_code, reason = "only the shape matters")]
    Version(String),
    Table {
        /// The name of a renamed crate.
        package: Option<String>,
        /// The folder of the crate.
        path: Option<String>,
        /// Whether the workspace describes it.
        #[serde(default)]
        workspace: bool,
    },
}

/// The pinned libclang.
#[must_use]
pub fn pinned() -> Fetch {
    static TABLE: LazyLock<ClangTable> = LazyLock::new(|| {
        gpubuild_toml::from_static(tables::LIBCLANG).expect("a test reads the embedded table")
    });
    Fetch { file: TABLE.library.clone(), ..kits::of_wheel(LIBCLANG, &TABLE.wheel) }
}

/// Whether bindgen finds a libclang of the machine, or the user has selected one.
#[must_use]
pub fn is_installed(host: &dyn ReadFiles) -> bool {
    host.env().get(VARIABLE).is_some()
        || libclang::find(host).0.is_some()
        // bindgen asks `llvm-config` where LLVM is.
        || !find_program(host, "llvm-config").is_empty()
}

/// The pinned libclang, if a project, whose files are on `files`, needs it on the machine `host`.
#[must_use]
pub fn missing(project: &Project, files: &dyn ReadFiles, host: &dyn ReadFiles) -> Option<Fetch> {
    (is_used(files, project) && !is_installed(host)).then(pinned)
}

/// Whether a build script of the project's crate, of the program that gpubuild links, or of a crate that they name by path, generates
/// bindings with `gpubuild-build`.
fn is_used(host: &dyn ReadFiles, project: &Project) -> bool {
    let program = project.file.binary.as_ref().map(|binary| project.root.join(&binary.package));
    let mut open: Vec<HostPath> = std::iter::once(project.root.clone()).chain(program).collect();
    let mut seen = BTreeSet::new();
    while let Some(folder) = open.pop() {
        if !seen.insert(folder.key()) || seen.len() > MAX_CRATES {
            continue;
        }
        let Some(manifest) = CargoManifest::read(host, &folder) else { continue };
        if manifest.generates_bindings() {
            return true;
        }
        open.extend(manifest.folders(host, &folder));
    }
    false
}

impl CargoManifest {
    /// The manifest in a folder. Cargo reports an invalid file.
    fn read(host: &dyn ReadFiles, folder: &HostPath) -> Option<Self> {
        gpubuild_toml::from_str(&host.read_text(&folder.join("Cargo.toml")).ok()?).ok()
    }

    /// Whether the build script uses `gpubuild-build` and bindgen.
    fn generates_bindings(&self) -> bool {
        ["gpubuild-build", "bindgen"].iter().all(|name| self.builds_with(name))
    }

    fn builds_with(&self, wanted: &str) -> bool {
        self.build.iter().any(|(name, dependency)| dependency.package().unwrap_or(name) == wanted)
            || self.target.values().any(|table| table.builds_with(wanted))
    }

    /// The folders of the crates that it names by path, or that the workspace names by path for it.
    fn folders(&self, host: &dyn ReadFiles, folder: &HostPath) -> Vec<HostPath> {
        let all: Vec<(&String, &CrateDependency)> = self.all().collect();
        let own = all.iter().filter_map(|(_, dependency)| Some(folder.join(dependency.path()?).normalized()));
        let mut folders: Vec<HostPath> = own.collect();
        let inherited = all.iter().filter(|(_, dependency)| dependency.is_inherited()).map(|(name, _)| name);
        let mut inherited = inherited.peekable();
        if inherited.peek().is_some()
            && let Some((root, workspace)) = workspace_of(host, folder)
        {
            let path =
                |name: &&String| Some(root.join(workspace.dependencies.get(*name)?.path()?).normalized());
            folders.extend(inherited.copied().filter_map(|name| path(&name)));
        }
        folders
    }

    /// All dependencies except those of tests.
    fn all(&self) -> Box<dyn Iterator<Item = (&String, &CrateDependency)> + '_> {
        let inner = self.target.values().flat_map(Self::all);
        Box::new(self.dependencies.iter().chain(&self.build).chain(inner))
    }
}

/// The workspace of a crate, and its folder.
fn workspace_of(host: &dyn ReadFiles, folder: &HostPath) -> Option<(HostPath, CargoWorkspace)> {
    let folders = std::iter::successors(Some(folder.clone()), HostPath::parent);
    folders.into_iter().find_map(|folder| {
        let workspace = CargoManifest::read(host, &folder)?.workspace?;
        Some((folder, workspace))
    })
}

impl CrateDependency {
    fn package(&self) -> Option<&String> {
        match self {
            Self::Table { package, .. } => package.as_ref(),
            Self::Version(_) => None,
        }
    }

    fn path(&self) -> Option<&String> {
        match self {
            Self::Table { path, .. } => path.as_ref(),
            Self::Version(_) => None,
        }
    }

    fn is_inherited(&self) -> bool {
        matches!(self, Self::Table { workspace: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, HostInfo as _, Os, Platform, RecordedHost};

    use super::*;
    use crate::wheels::tag::WheelLibc;

    #[test]
    fn crates_of_build_scripts_are_recognised() {
        for (text, expected) in [
            ("[build-dependencies]\nbindgen = \"0.73\"\ngpubuild-build = { path = \"../b\" }", true),
            ("[build-dependencies]\nbindgen.workspace = true\ngpubuild-build.workspace = true", true),
            (
                "[build-dependencies]\nb = { package = \"bindgen\", version = \"0.73\" }\n\
                 [target.'cfg(unix)'.build-dependencies]\ngpubuild-build = \"0.1\"",
                true,
            ),
            ("[build-dependencies]\nbindgen = { package = \"other\" }\ngpubuild-build = \"0.1\"", false),
            ("[build-dependencies]\ngpubuild-build = \"0.1\"\n[dev-dependencies]\nbindgen = \"0.73\"", false),
            ("[build-dependencies]\nbindgen = \"0.73\"\ngpubuild-link = \"0.1\"", false),
            ("[workspace]\nmembers = [\"a\"]", false),
            ("[build-dependencies\nbindgen = \"0.73\"", false),
        ] {
            let manifest: CargoManifest = gpubuild_toml::from_str(text).unwrap_or_default();
            assert_eq!(manifest.generates_bindings(), expected, "{text}");
        }
    }

    /// Crates in the folders `/p` (the project), `/p/sys` and `/p/other`, of a workspace in `/p`.
    #[test]
    fn crates_that_are_named_by_path_are_considered() {
        const SYS: &str = "[build-dependencies]\nbindgen = \"0.73\"\ngpubuild-build = \"0.1\"";
        let workspace = "[workspace.dependencies]\nsys = { path = \"sys\" }\n";
        let used = |root: &str, other: &str| {
            let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
                .file("/p/Cargo.toml", root)
                .file("/p/sys/Cargo.toml", SYS)
                .file("/p/other/Cargo.toml", other)
                .file(
                    "/p/gpubuild.toml",
                    "schema = 1\n[project]\nname = \"p\"\nsource = \".\"\nprofile = \"cmake\"",
                )
                .file("/p/CMakeLists.txt", "")
                .build();
            let project = crate::project::load(&host, &host.path("/p/gpubuild.toml")).unwrap();
            is_used(&host, &project)
        };
        let by_path = "[dependencies]\nsys = { path = \"sys\" }";
        let of_target = "[target.'cfg(unix)'.dependencies]\nsys = { path = \"./sys\" }";
        let inherited = format!("{workspace}[dependencies]\nsys.workspace = true");
        let through = "[dependencies]\nother = { path = \"other\" }";
        for (root, other, expected) in [
            (by_path, "", true),
            (of_target, "", true),
            (&inherited, "", true),
            (through, "[dependencies]\nsys = { path = \"../sys\" }", true),
            (through, "[dependencies]\nroot = { path = \"..\" }", false),
            (workspace, "", false),
            ("[dev-dependencies]\nsys = { path = \"sys\" }", "", false),
            ("[dependencies]\nsys = \"1\"", "", false),
        ] {
            assert_eq!(used(root, other), expected, "{root}\n{other}");
        }
    }

    #[test]
    fn libclang_of_the_machine_and_of_the_user_is_recognised() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64).env("PATH", "/usr/bin");
        for (host, expected) in [
            (linux(), false),
            (linux().opaque("/usr/lib/llvm-14/lib/libclang-14.so.1"), true),
            (linux().executable("/usr/bin/llvm-config"), true),
            (linux().env(VARIABLE, "/nowhere"), true),
        ] {
            assert_eq!(is_installed(&host.build()), expected);
        }
    }

    #[test]
    fn every_platform_has_a_wheel_and_a_library_in_it() {
        let fetch = pinned();
        let glibc = WheelLibc::Glibc(None);
        for os in [Os::Linux, Os::Macos, Os::Windows] {
            assert!(fetch.file[os.id()].starts_with("clang/native/libclang."), "{os:?}");
            for arch in [Arch::X86_64, Arch::Aarch64] {
                assert!(fetch.fits(Platform { os, arch }, &glibc), "{os:?} {arch:?}");
            }
        }
        let musl = |arch| fetch.fits(Platform { os: Os::Linux, arch }, &WheelLibc::Musl);
        assert!(musl(Arch::X86_64) && !musl(Arch::Aarch64), "wheels for musl are for x86_64 only");
        assert!(fetch.sha256.len() == fetch.wheels.len() && fetch.sha256.iter().all(|sum| sum.len() == 64));
    }
}
