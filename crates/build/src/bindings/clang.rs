//! Selects the libclang that bindgen loads: the machine's, or a pinned one that is fetched if the machine has no libclang.

use gpubuild_detect::toolkit::{Catalogue, libclang};
use gpubuild_exec::exec::InstalledTools;
use gpubuild_exec::python::fetch::fetched;
use gpubuild_exec::python::{Network, WheelAccess, WheelFetchError, fetch};
use gpubuild_host::{Host, HostPath, ReadFiles};
use gpubuild_plan::machine;
use gpubuild_plan::plan::Fetch;
use gpubuild_plan::plan::libclang::{VARIABLE, is_installed, pinned};

use crate::output;

/// The libclang that generates the bindings.
#[derive(Debug)]
pub(super) enum Clang {
    /// The machine's, which bindgen finds itself; name and size of its file if gpubuild finds it too.
    Own(Option<String>),
    /// The pinned one.
    Pinned(PinnedClang),
}

/// A libclang in gpubuild's cache.
#[derive(Debug)]
pub(super) struct PinnedClang {
    fetch: Fetch,
    /// Whether the script requests the pinned libclang even if the machine has another one.
    is_requested: bool,
}

impl Clang {
    /// Selects `LIBCLANG_PATH` first, then the pinned libclang if the script requests it, then the machine's. `may_fetch` allows
    /// the pinned one if the machine has no libclang.
    pub(super) fn choose(host: &dyn ReadFiles, is_requested: bool, may_fetch: bool) -> Self {
        let pinned = PinnedClang { fetch: pinned(), is_requested };
        let named = host.env().get(VARIABLE);
        // Earlier bindings of the same script may have set the variable to the pinned one.
        if named.is_some() && pinned.folder(host).as_ref().map(HostPath::as_str) == named {
            return Self::Pinned(pinned);
        }
        let found = libclang::find(host).0;
        // `llvm-config` may lead to no libclang, but then the pinned one was fetched.
        let is_there = || found.is_some() || is_installed(host) && pinned.folder(host).is_none();
        if named.is_some() || !is_requested && (!may_fetch || is_there()) {
            return Self::Own(found.and_then(|path| identity(host, &path)));
        }
        Self::Pinned(pinned)
    }

    /// Distinguishes its results from those of another libclang. `None`: any kept result is accepted.
    pub(super) fn identity(&self, host: &dyn ReadFiles) -> Option<String> {
        match self {
            Self::Own(identity) => identity.clone(),
            Self::Pinned(pinned) => {
                let is_sure = pinned.is_requested || fetched(host, &pinned.fetch).is_some();
                is_sure.then(|| format!("{} {}, pinned", pinned.fetch.tool, pinned.fetch.version))
            }
        }
    }

    /// Makes bindgen find the pinned libclang, after fetching it if necessary.
    pub(super) fn provide(&self, host: &dyn Host) -> Result<(), WheelFetchError> {
        let Self::Pinned(pinned) = self else { return Ok(()) };
        let library = match fetched(host, &pinned.fetch) {
            Some(library) => library,
            None => pinned.get(host)?,
        };
        let folder = library.parent().unwrap_or_else(|| library.clone());
        host.set_variable(VARIABLE, folder.as_str()).map_err(|error| WheelFetchError::Broken {
            tool: pinned.fetch.tool.clone(),
            version: pinned.fetch.version.clone(),
            message: format!("{VARIABLE} cannot be set: {error}"),
        })
    }
}

impl PinnedClang {
    /// The library's folder, if it was fetched.
    fn folder(&self, host: &dyn ReadFiles) -> Option<HostPath> {
        fetched(host, &self.fetch)?.parent()
    }

    fn get(&self, host: &dyn Host) -> Result<HostPath, WheelFetchError> {
        let tools = InstalledTools::of(&machine::inspect(host, Catalogue::embedded()).inventory);
        let network = Network::from_env(host.env());
        let access = WheelAccess { tools: &tools, network, index: None, direct: None };
        fetch(host, &self.fetch, access, &output::report)
    }
}

/// Identifies a file without loading it: name and size after resolving links.
fn identity(host: &dyn ReadFiles, path: &HostPath) -> Option<String> {
    let path = host.canonical(path).unwrap_or_else(|_| path.clone());
    let size = host.stat(&path).ok()?.size;
    Some(format!("{} {size}", path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn chosen(host: &RecordedHost, is_requested: bool, may_fetch: bool) -> String {
        match Clang::choose(host, is_requested, may_fetch) {
            Clang::Own(identity) => format!("own {}", identity.unwrap_or_default()),
            clang @ Clang::Pinned(_) => format!("pinned {}", clang.identity(host).unwrap_or_default()),
        }
    }

    #[test]
    fn a_named_libclang_comes_first_and_the_pinned_one_last() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64).env("PATH", "/usr/bin");
        let debian = || linux().file("/usr/lib/llvm-14/lib/libclang-14.so.1", "four");
        let bare = linux().build();
        assert_eq!(chosen(&bare, false, true), "pinned ", "not fetched yet: any kept result is accepted");
        assert_eq!(chosen(&bare, true, true), "pinned libclang 18.1.1, pinned");
        assert_eq!(chosen(&bare, false, false), "own ");
        assert_eq!(chosen(&debian().build(), false, true), "own libclang-14.so.1 4");
        assert_eq!(chosen(&debian().build(), true, true), "pinned libclang 18.1.1, pinned");
        let llvm_config = linux().executable("/usr/bin/llvm-config").build();
        assert_eq!(chosen(&llvm_config, false, true), "own ", "bindgen asks `llvm-config`");
        let named = debian().env("LIBCLANG_PATH", "/usr/lib/llvm-14/lib").build();
        assert_eq!(chosen(&named, true, true), "own libclang-14.so.1 4");
        // The state after an earlier call in the same script.
        let folder = "/c/tools/libclang-18.1.1";
        let marker = r#"{"package":"libclang","version":"18.1.1","program":"clang/native/libclang.so"}"#;
        let fetched = |host: RecordedHostBuilder| {
            host.env("GPUBUILD_CACHE", "/c")
                .file(&format!("{folder}/verified.json"), marker)
                .file(&format!("{folder}/clang/native/libclang.so"), "")
        };
        let ours = fetched(debian()).env("LIBCLANG_PATH", &format!("{folder}/clang/native"));
        assert_eq!(chosen(&ours.build(), false, true), "pinned libclang 18.1.1, pinned");
        assert_eq!(chosen(&fetched(debian()).build(), false, true), "own libclang-14.so.1 4");
        let llvm_config = fetched(linux()).executable("/usr/bin/llvm-config").build();
        assert_eq!(chosen(&llvm_config, false, true), "pinned libclang 18.1.1, pinned");
        let invalid = debian().env("LIBCLANG_PATH", "/nowhere").build();
        assert_eq!(chosen(&invalid, false, true), "own ", "a named libclang is not replaced silently");
    }
}
