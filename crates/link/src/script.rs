//! The lines for cargo, collected so that tests can read them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use gpubuild_linker::search_path_arguments;

use crate::files::{self, Variables};
use crate::manifest::{Cargo, LinkManifest};
use crate::place;

/// Every backend that `cfg(gpubuild_backend)` can have as its value.
pub(crate) const BACKENDS: [&str; 7] = ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"];

/// The modules code of a program that links all its backends.
const NO_MODULES: &str = include_str!("linked.rs.in");

/// A message without hidden characters and without `##[` and `##vso[`, which CI services obey anywhere in a line.
fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => " ".to_owned(),
        c if is_hidden(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    text.chars().map(shown).collect::<String>().replace("##", "# #")
}

/// Lines for cargo.
#[derive(Default)]
pub(crate) struct BuildScript {
    text: String,
    watched: BTreeSet<String>,
}

impl BuildScript {
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Adds a directive. Line breaks become spaces, because each line is a directive.
    pub(crate) fn say(&mut self, directive: &str) {
        let line = directive.replace(['\n', '\r'], " ");
        writeln!(self.text, "cargo::{line}").expect("writing to a string");
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.say(&format!("warning={}", visible(text)));
    }

    /// Adds lines with which cargo fails the package after the script ends.
    pub(crate) fn error(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.say(&format!("error={}", visible(line)));
        }
    }

    /// Makes cargo rerun the script when this file changes, or while it is missing.
    pub(crate) fn watch(&mut self, path: &Path) {
        let path = path.display().to_string();
        if self.watched.insert(path.clone()) {
            self.say(&format!("rerun-if-changed={path}"));
        }
    }

    pub(crate) fn check_cfg(&mut self) {
        let values = BACKENDS.map(|backend| format!("\"{backend}\"")).join(", ");
        self.say(&format!("rustc-check-cfg=cfg(gpubuild_backend, values({values}))"));
    }

    pub(crate) fn cfgs(&mut self, backends: &[String]) {
        for backend in backends {
            self.say(&format!("rustc-cfg=gpubuild_backend=\"{backend}\""));
        }
    }

    /// Writes the code that opens modules and passes its path to cargo.
    pub(crate) fn modules(&mut self, variables: &Variables, cargo: Option<&Cargo>) {
        let Some(out) = variables.get("OUT_DIR") else { return };
        let path = Path::new(out).join("gpubuild_modules.rs");
        let code = cargo.and_then(|cargo| cargo.modules.as_deref()).unwrap_or(NO_MODULES);
        match files::write(&path, code.as_bytes()) {
            Ok(()) => self.say(&format!("rustc-env=GPUBUILD_MODULES_RS={}", path.display())),
            Err(error) => self.error(&format!("failed to write `{}`: {error}", path.display())),
        }
    }

    /// Adds the link lines; `environment` lists the folders of an environment with run-time libraries.
    pub(crate) fn link(&mut self, manifest: &LinkManifest, environment: Vec<String>, variables: &Variables) {
        let cargo = &manifest.cargo;
        let mut folders = cargo.search_path.clone();
        match place::beside_program(&manifest.project, cargo, variables) {
            Ok(true) => folders.clone_from(&cargo.search_path_beside),
            Ok(false) => {}
            Err(error) => {
                self.warning(&format!("failed to copy shared libraries beside the program: {error}"));
            }
        }
        for folder in environment {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        if folders.is_empty() {
            folders.clone_from(&cargo.search_path_alone);
        }
        for line in &cargo.lines {
            self.say(line);
        }
        for word in folders.iter().flat_map(|folder| search_path_arguments(folder)) {
            self.say(&format!("rustc-link-arg={word}"));
        }
    }
}
