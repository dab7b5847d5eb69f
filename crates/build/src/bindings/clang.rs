//! Which libclang bindgen loads: the machine's, or a pinned one that is fetched where there is none.

use std::collections::BTreeMap;

use gpubuild_detect::toolkit::Catalogue;
use gpubuild_detect::toolkit::description::Wheel;
use gpubuild_detect::toolkit::libclang;
use gpubuild_exec::exec::Tools;
use gpubuild_exec::python::fetch::{Wanted, fetched};
use gpubuild_exec::python::{FetchError, Network};
use gpubuild_host::{Host, HostPath, find_program};
use gpubuild_plan::look;
use gpubuild_plan::plan::{Fetch, kits};
use gpubuild_toolkits::tables;
use serde::Deserialize;

use crate::talk;

/// The variable that bindgen asks first.
const VARIABLE: &str = "LIBCLANG_PATH";

/// `toolkits/tables/libclang.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// By operating system.
    library: BTreeMap<String, String>,
    wheel: Wheel,
}

/// The libclang that makes some bindings.
#[derive(Debug)]
pub(super) enum Clang {
    /// The machine's, which bindgen finds by itself: name and size of its file, where we find it too.
    Own(Option<String>),
    /// The pinned one.
    Pinned(Pinned),
}

/// A libclang in our own cache.
#[derive(Debug)]
pub(super) struct Pinned {
    fetch: Fetch,
    /// The library in the wheel.
    library: String,
    /// Asked for on every machine, not only where there is no other.
    is_asked: bool,
}

impl Clang {
    /// What somebody named comes first, then the pinned one if the script asks for it, then the machine's. `may_fetch` says
    /// whether the pinned one stands in where there is none.
    pub(super) fn choose(host: &dyn Host, is_asked: bool, may_fetch: bool) -> Self {
        let pinned = Pinned::read(host, is_asked);
        let named = host.env().get(VARIABLE);
        // Earlier bindings of the same script may have named ours.
        if named.is_some() && pinned.folder(host).as_ref().map(HostPath::as_str) == named {
            return Self::Pinned(pinned);
        }
        let found = libclang::find(host).0;
        let is_named = named.is_some();
        // bindgen asks that program where LLVM is.
        let is_there = || found.is_some() || !find_program(host, "llvm-config").is_empty();
        if is_named || !is_asked && (!may_fetch || is_there()) {
            return Self::Own(found.and_then(|path| identity(host, &path)));
        }
        Self::Pinned(pinned)
    }

    /// What tells its results from those of another. `None`: whatever there is has to do.
    pub(super) fn identity(&self, host: &dyn Host) -> Option<String> {
        match self {
            Self::Own(identity) => identity.clone(),
            Self::Pinned(pinned) => {
                let is_sure = pinned.is_asked || fetched(host, &pinned.fetch).is_some();
                is_sure.then(|| format!("{} {}, pinned", pinned.fetch.tool, pinned.fetch.version))
            }
        }
    }

    /// Has bindgen find it, after fetching it where that is needed.
    pub(super) fn provide(&self, host: &dyn Host) -> Result<(), FetchError> {
        let Self::Pinned(pinned) = self else { return Ok(()) };
        let library = match fetched(host, &pinned.fetch) {
            Some(library) => library,
            None => pinned.get(host)?,
        };
        let folder = library.parent().unwrap_or_else(|| library.clone());
        host.set_variable(VARIABLE, folder.as_str()).map_err(|error| FetchError::Broken {
            tool: pinned.fetch.tool.clone(),
            version: pinned.fetch.version.clone(),
            message: format!("{VARIABLE} cannot be set: {error}"),
        })
    }
}

impl Pinned {
    fn read(host: &dyn Host, is_asked: bool) -> Self {
        let table: Table = gpubuild_toml::from_bytes(tables::LIBCLANG).expect("the embedded table is tested");
        let library = table.library.get(host.platform().os.id()).cloned().unwrap_or_default();
        Self { fetch: kits::of_wheel("libclang", &table.wheel), library, is_asked }
    }

    /// The library's folder, once it was fetched.
    fn folder(&self, host: &dyn Host) -> Option<HostPath> {
        fetched(host, &self.fetch)?.parent()
    }

    fn get(&self, host: &dyn Host) -> Result<HostPath, FetchError> {
        let tools = Tools::of(&look::look(host, Catalogue::embedded()).inventory);
        let network = Network::from_env(host.env());
        gpubuild_exec::python::fetch::fetch_wanted(
            host,
            &self.fetch,
            Wanted::File(&self.library),
            &tools,
            network,
            &talk::tell,
        )
    }
}

/// Which file it is, without loading it: name and size behind the links.
fn identity(host: &dyn Host, path: &HostPath) -> Option<String> {
    let path = host.canonical(path).unwrap_or_else(|_| path.clone());
    let size = host.stat(&path).ok()?.size;
    Some(format!("{} {size}", path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::Platform;
    use gpubuild_host::{Arch, Os, RecordedHost};
    use gpubuild_plan::wheels::tag::{Fit, Libc, fit};

    fn chosen(host: &RecordedHost, is_asked: bool, may_fetch: bool) -> String {
        match Clang::choose(host, is_asked, may_fetch) {
            Clang::Own(identity) => format!("own {}", identity.unwrap_or_default()),
            clang @ Clang::Pinned(_) => format!("pinned {}", clang.identity(host).unwrap_or_default()),
        }
    }

    #[test]
    fn what_somebody_named_comes_first_and_the_pinned_one_last() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64).env("PATH", "/usr/bin");
        let debian = || linux().file("/usr/lib/llvm-14/lib/libclang-14.so.1", "four");
        let bare = linux().build();
        assert_eq!(chosen(&bare, false, true), "pinned ", "not fetched yet: what there is has to do");
        assert_eq!(chosen(&bare, true, true), "pinned libclang 18.1.1, pinned");
        assert_eq!(chosen(&bare, false, false), "own ");
        assert_eq!(chosen(&debian().build(), false, true), "own libclang-14.so.1 4");
        assert_eq!(chosen(&debian().build(), true, true), "pinned libclang 18.1.1, pinned");
        let asked = linux().executable("/usr/bin/llvm-config").build();
        assert_eq!(chosen(&asked, false, true), "own ", "bindgen asks it");
        let named = debian().env("LIBCLANG_PATH", "/usr/lib/llvm-14/lib").build();
        assert_eq!(chosen(&named, true, true), "own libclang-14.so.1 4");
        // As after an earlier call of the same script.
        let folder = "/c/tools/libclang-18.1.1";
        let marker = r#"{"package":"libclang","version":"18.1.1","program":"clang/native/libclang.so"}"#;
        let ours = debian()
            .env("GPUBUILD_CACHE", "/c")
            .file(&format!("{folder}/verified.json"), marker)
            .file(&format!("{folder}/clang/native/libclang.so"), "")
            .env("LIBCLANG_PATH", &format!("{folder}/clang/native"));
        assert_eq!(chosen(&ours.build(), false, true), "pinned libclang 18.1.1, pinned");
        let dead_end = debian().env("LIBCLANG_PATH", "/nowhere").build();
        assert_eq!(chosen(&dead_end, false, true), "own ", "what is named is not replaced in silence");
    }

    #[test]
    fn every_platform_has_a_wheel_and_a_library_in_it() {
        let table: Table = gpubuild_toml::from_bytes(tables::LIBCLANG).unwrap();
        for (os, arch) in [
            (Os::Linux, Arch::X86_64),
            (Os::Linux, Arch::Aarch64),
            (Os::Macos, Arch::X86_64),
            (Os::Macos, Arch::Aarch64),
            (Os::Windows, Arch::X86_64),
        ] {
            assert!(table.library[os.id()].starts_with("clang/native/libclang."), "{os:?}");
            let mut fits = table
                .wheel
                .files
                .iter()
                .map(|file| fit(&file.name, Platform { os, arch }, &Libc::Glibc(None)));
            assert!(fits.any(|fit| fit == Fit::Yes), "{os:?} {arch:?}");
        }
        assert!(table.wheel.files.iter().all(|file| file.sha256.len() == 64));
    }
}
