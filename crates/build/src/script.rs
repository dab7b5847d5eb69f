//! The lines that a build script prints for cargo, collected so that tests can read them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_exec::exec::stage;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use gpubuild_linker::search_path_arguments;
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::glue;
use gpubuild_plan::link;

/// The lines for cargo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScriptEnvironment {
    text: String,
    watched: BTreeSet<String>,
}

impl ScriptEnvironment {
    /// All lines so far.
    #[must_use]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a directive. Line breaks become spaces, because each line is a directive.
    pub(super) fn say(&mut self, directive: &str) {
        let line = directive.replace(['\n', '\r'], " ");
        writeln!(self.text, "cargo::{line}").expect("writing to a string");
    }

    /// Adds complete lines.
    pub(super) fn append(&mut self, lines: &str) {
        self.text.push_str(lines);
    }

    /// Adds a warning. Cargo shows it for workspace packages, and for other packages only if they fail.
    pub(super) fn warning(&mut self, text: &str) {
        self.say(&format!("warning={}", clean::line(text)));
    }

    /// Adds lines with which cargo fails the package after the script ends.
    pub(super) fn error(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.say(&format!("error={}", clean::line(line)));
        }
    }

    /// Makes cargo rerun the script when this file changes, or while it is missing.
    pub(super) fn watch(&mut self, path: &str) {
        if self.watched.insert(path.to_owned()) {
            self.say(&format!("rerun-if-changed={path}"));
        }
    }

    /// Makes cargo rerun the script when one of these variables changes, except those that cargo sets and compares itself.
    pub(super) fn watch_variables<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a str>,
        ignored: &BTreeSet<String>,
    ) {
        for name in names {
            if !is_of_cargo(name) && !ignored.contains(name) && self.watched.insert(format!("${name}")) {
                self.say(&format!("rerun-if-env-changed={name}"));
            }
        }
    }

    /// Declares every value that `cfg(gpubuild_backend)` can have.
    pub(super) fn check_cfg(&mut self) {
        let ids: Vec<String> = Backend::ALL.iter().map(|backend| format!("\"{backend}\"")).collect();
        self.say(&format!("rustc-check-cfg=cfg(gpubuild_backend, values({}))", ids.join(", ")));
    }

    /// Sets `cfg(gpubuild_backend = "cuda")` for each backend.
    pub(super) fn cfgs(&mut self, backends: &[Backend]) {
        for backend in backends {
            self.say(&format!("rustc-cfg=gpubuild_backend=\"{backend}\""));
        }
    }

    /// Adds a value that dependent crates see as `DEP_<LINKS>_<NAME>`.
    pub(super) fn metadata(&mut self, name: &str, value: &str) {
        self.say(&format!("metadata={name}={value}"));
    }

    /// Adds a manifest's link lines; `folders` lists the folders of an environment with run-time libraries.
    pub(super) fn link(
        &mut self,
        host: &dyn WriteFiles,
        manifest: &Manifest,
        folders: Vec<String>,
    ) -> Vec<String> {
        let cargo = link::for_cargo(manifest, manifest.os(host.platform().os));
        let mut search_path = cargo.search_path;
        match place(host, manifest) {
            Ok(true) => search_path = cargo.search_path_beside,
            Ok(false) => {}
            Err(error) => {
                self.warning(&format!("failed to copy shared libraries beside the program: {error}"));
            }
        }
        search_path
            .extend(folders.into_iter().filter(|folder| !search_path.contains(folder)).collect::<Vec<_>>());
        if search_path.is_empty() {
            search_path = cargo.search_path_alone;
        }
        for line in &cargo.lines {
            self.say(line);
        }
        for word in search_path.iter().flat_map(|folder| search_path_arguments(folder)) {
            self.say(&format!("rustc-link-arg={word}"));
        }
        let statics = link::directives(manifest, manifest.os(host.platform().os)).statics;
        statics.into_iter().map(|library| library.name).collect()
    }

    /// Writes the code that opens modules and passes its path to cargo.
    pub(super) fn glue(&mut self, host: &dyn WriteFiles, manifest: Option<&Manifest>) {
        let Some(out) = host.env().get("OUT_DIR") else { return };
        let path = host.path(out).join(glue::FILE_NAME);
        let code = manifest.and_then(|manifest| manifest.cargo.as_ref()?.modules.as_deref());
        let code = code.unwrap_or(gpubuild_link::internal::NO_MODULES);
        match host.write(&path, code.as_bytes()) {
            Ok(()) => self.say(&format!("rustc-env={}={path}", glue::VARIABLE)),
            Err(error) => self.say(&format!("error=failed to write `{path}`: {error}")),
        }
    }

    /// Watches the files that the trees were built from, or the source folders if no build recorded them.
    pub(super) fn watch_sources(&mut self, host: &dyn ReadFiles, manifest: &Manifest, root: &HostPath) {
        let cache = gpubuild_host::folders::cache_folder(host);
        for tree in &manifest.trees {
            let build = host.path(&tree.build);
            let Some(stamp) = gpubuild_exec::exec::stamp::BuildStamp::read_in(host, &build) else {
                self.watch(&tree.source);
                continue;
            };
            for path in stamp.read.iter().filter(|path| is_watched(host, path, cache.as_ref())) {
                // Generated files follow from watched ones.
                if host.path(path).is_inside(root) {
                    continue;
                }
                self.watch(path);
            }
        }
    }
}

/// Copies shared libraries and modules to the folders of this package's programs and tests. `false` if those are unknown.
fn place(host: &dyn WriteFiles, manifest: &Manifest) -> std::io::Result<bool> {
    let Some(out) = host.env().get("OUT_DIR") else { return Ok(false) };
    let folders = stage::cargo_folders(&host.path(out));
    for folder in &folders {
        stage::place(host, manifest, folder)?;
    }
    Ok(!folders.is_empty())
}

/// Whether a file that the build read can be watched. Git rewrites its files without a change. Files in gpubuild's cache are
/// pinned by hash and can be newer than the start of this script, which cargo would treat as a change.
fn is_watched(host: &dyn HostInfo, path: &str, cache: Option<&HostPath>) -> bool {
    let path = host.path(path);
    let of_git = path.as_str().contains("/.git/") || path.as_str().contains("\\.git\\");
    !of_git && !cache.is_some_and(|cache| path.is_inside(cache))
}

/// Whether cargo sets a variable for build scripts and therefore compares it itself.
fn is_of_cargo(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "CARGO",
        "DEBUG",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC",
        "RUSTC_LINKER",
        "RUSTDOC",
        "TARGET",
    ];
    const STARTS: [&str; 5] = ["CARGO_CFG_", "CARGO_FEATURE_", "CARGO_MANIFEST_", "CARGO_PKG_", "DEP_"];
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_replaced_and_files_are_watched_once() {
        let mut script = ScriptEnvironment::default();
        script.warning("one\ntwo");
        script.watch("/a");
        script.watch("/a");
        script.watch_variables(
            ["CC", "OUT_DIR", "CARGO_FEATURE_CUDA", "CC", "HOME"],
            &BTreeSet::from(["HOME".into()]),
        );
        assert_eq!(
            script.text(),
            "cargo::warning=one two\ncargo::rerun-if-changed=/a\ncargo::rerun-if-env-changed=CC\n"
        );
    }

    #[test]
    fn each_line_of_an_error_is_an_error_line() {
        let mut script = ScriptEnvironment::default();
        script.error("what\n\n  hint: do\n");
        assert_eq!(script.text(), "cargo::error=what\ncargo::error=  hint: do\n");
    }
}
