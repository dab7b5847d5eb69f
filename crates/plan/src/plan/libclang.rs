//! The libclang that bindgen loads in the build scripts of Rust programs: the pinned one, and whether a project needs it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gpubuild_detect::toolkit::description::WheelName;
use gpubuild_detect::toolkit::libclang;
use gpubuild_host::{ReadFiles, find_program};
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

/// The part of a Cargo.toml that names the crates of its build script.
#[derive(Debug, Default, Deserialize)]
struct BuildDependencies {
    #[serde(default, rename = "build-dependencies")]
    crates: BTreeMap<String, CrateDependency>,
    #[serde(default)]
    target: BTreeMap<String, BuildDependencies>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CrateDependency {
    /// The version.
    #[expect(dead_code, reason = "only the shape matters")]
    Version(String),
    Table {
        /// The name of a renamed crate.
        package: Option<String>,
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

/// Whether a build script of the project's crate, or of the program that gpubuild links, generates bindings with `gpubuild-build`.
fn is_used(host: &dyn ReadFiles, project: &Project) -> bool {
    let program = project.file.binary.as_ref().map(|binary| project.root.join(&binary.package));
    let crates = std::iter::once(project.root.clone()).chain(program);
    crates
        .into_iter()
        .any(|folder| host.read_text(&folder.join("Cargo.toml")).is_ok_and(|text| generates_bindings(&text)))
}

/// Whether a build script uses `gpubuild-build` and bindgen. Cargo reports an invalid file.
fn generates_bindings(cargo_toml: &str) -> bool {
    let table: BuildDependencies = gpubuild_toml::from_str(cargo_toml).unwrap_or_default();
    ["gpubuild-build", "bindgen"].iter().all(|name| table.has(name))
}

impl BuildDependencies {
    fn has(&self, wanted: &str) -> bool {
        let is_wanted = |(name, dependency): (&String, &CrateDependency)| match dependency {
            CrateDependency::Table { package: Some(package) } => package == wanted,
            CrateDependency::Table { package: None } | CrateDependency::Version(_) => name == wanted,
        };
        self.crates.iter().any(is_wanted) || self.target.values().any(|table| table.has(wanted))
    }
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, Os, Platform, RecordedHost};

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
            assert_eq!(generates_bindings(text), expected, "{text}");
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
