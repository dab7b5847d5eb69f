//! Profiles: names of options and targets of known projects, as data in `profiles/`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::host::Os;

/// What a project calls its options and targets, and what it cannot combine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the form, 1.
    pub schema: u32,
    /// The name in `gpubuild.toml`.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// A profile whose rows this one takes over and adds to.
    pub extends: Option<String>,
    /// Backends that belong to every build.
    #[serde(default)]
    pub always: Vec<Backend>,
    /// Targets that a program links whatever the backends.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Cache entries that are always set.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Per backend.
    #[serde(default)]
    pub backends: BTreeMap<Backend, Row>,
    /// Memory that one CUDA or HIP compiler of this project needs, `2GiB`.
    pub memory_per_device_job: Option<String>,
    /// The program that compares every backend with a reference.
    pub tests: Option<Tests>,
    /// Backends that need a tree of their own.
    #[serde(default)]
    pub separate: Vec<Separate>,
    /// Backends that one program cannot hold together.
    #[serde(default)]
    pub conflict: Vec<Conflict>,
    /// Cache entries with shared libraries, beside `BUILD_SHARED_LIBS`.
    #[serde(default)]
    pub shared: BTreeMap<String, String>,
    /// How its backends become modules, if they can.
    pub modules: Option<Modules>,
    /// Where the sources tell the interface of the library that other projects contain as well.
    pub abi: Option<Abi>,
}

/// A backend of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The option that switches it.
    pub option: String,
    /// Further names under which the environment may ask for it.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Targets that a program links.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Cache entries while it is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// A file below the source folder that is there if the project has kernels for this backend.
    pub kernels: Option<String>,
    /// Whether a compiler is enough: what the kernels use of the backend they declare themselves and open at run time, so
    /// that neither its headers nor its libraries have to be here.
    #[serde(default)]
    pub self_contained: bool,
}

/// A program that tests backends: `TARGET --backend ID --json` prints one report and ends with 0, 1 (failures) or 3 (no
/// device).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// The option that adds it.
    pub option: String,
    /// Its target.
    pub target: String,
}

/// Backends that need a tree of their own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Separate {
    /// Which.
    pub backends: Vec<Backend>,
    /// Where; everywhere if it names none.
    #[serde(default)]
    pub os: Vec<Os>,
    /// Why.
    pub reason: String,
}

impl Separate {
    /// Whether this backend is one of them there.
    #[must_use]
    pub fn holds(&self, backend: Backend, os: Os) -> bool {
        self.backends.contains(&backend) && (self.os.is_empty() || self.os.contains(&os))
    }
}

/// How the backends of a project become modules that a program opens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    /// Cache entries of every tree, beside `BUILD_SHARED_LIBS`.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The option that builds a backend once per level of processors.
    #[serde(default)]
    pub variants: BTreeMap<Backend, String>,
    /// Functions of the project that open them.
    pub loader: Loader,
}

/// Where sources tell the interface of a library that several projects contain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abi {
    /// Its header, below the source folder: the first that is there.
    pub headers: Vec<String>,
    /// Constants that its structures depend on.
    pub defines: Vec<String>,
    /// The script that sets its version: the first that is there.
    pub scripts: Vec<String>,
    /// The variables that are its version, joined by dots.
    pub version: Vec<String>,
}

/// Functions with which a program opens modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// `void f(const char *folder)` opens all in a folder.
    pub folder: String,
    /// `void *f(const char *file)` opens one; null if it cannot be.
    pub file: String,
    /// `size_t f(void)` counts those that are open.
    pub count: String,
}

/// Two backends that one program cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Two ids; `*` stands for every other backend.
    pub backends: [String; 2],
    /// Backends that `*` does not stand for.
    #[serde(default)]
    pub except: Vec<Backend>,
    /// Where; everywhere if it names none.
    #[serde(default)]
    pub os: Vec<Os>,
    /// Why.
    pub reason: String,
}

impl Conflict {
    /// Whether these two are the ones there.
    #[must_use]
    pub fn holds(&self, left: Backend, right: Backend, os: Os) -> bool {
        if !self.os.is_empty() && !self.os.contains(&os) {
            return false;
        }
        let named = |text: &str, backend: Backend| match text {
            "*" => !self.except.contains(&backend),
            id => id == backend.id(),
        };
        let [a, b] = &self.backends;
        (named(a, left) && named(b, right)) || (named(a, right) && named(b, left))
    }
}

const SOURCES: [(&str, &str); 6] = [
    ("cmake", include_str!("../../profiles/cmake.toml")),
    ("ggml", include_str!("../../profiles/ggml.toml")),
    ("gk", include_str!("../../profiles/gk.toml")),
    ("llama", include_str!("../../profiles/llama.toml")),
    ("stable-diffusion", include_str!("../../profiles/stable-diffusion.toml")),
    ("whisper", include_str!("../../profiles/whisper.toml")),
];

impl Profile {
    /// Ids of the profiles that are built in, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SOURCES.into_iter().map(|(name, _)| name)
    }

    /// A built-in profile with what it extends already merged in.
    ///
    /// # Panics
    /// Never on a released version: a test reads every file.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = SOURCES.into_iter().find(|(id, _)| *id == name)?;
        let own: Self = toml::from_str(text).expect("the profiles in the crate are tested");
        Some(match own.extends.as_deref().and_then(Self::builtin) {
            Some(base) => own.on_top_of(base),
            None => own,
        })
    }

    fn on_top_of(self, base: Self) -> Self {
        let mut merged = base;
        merged.id = self.id;
        merged.name = self.name;
        merged.extends = self.extends;
        merged.memory_per_device_job = self.memory_per_device_job.or(merged.memory_per_device_job);
        merged.always.extend(self.always);
        // What stands on top is linked first; CMake settles the order in any case.
        merged.targets.splice(0..0, self.targets);
        merged.options.extend(self.options);
        for (backend, row) in self.backends {
            let targets = merged.backends.get(&backend).map(|old| old.targets.clone()).unwrap_or_default();
            let row = if row.targets.is_empty() { Row { targets, ..row } } else { row };
            merged.backends.insert(backend, row);
        }
        merged.separate.extend(self.separate);
        merged.conflict.extend(self.conflict);
        merged.shared.extend(self.shared);
        merged.modules = self.modules.or(merged.modules);
        merged.abi = self.abi.or(merged.abi);
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_in_the_crate_is_read_and_bears_its_name() {
        for name in Profile::names() {
            let profile = Profile::builtin(name).unwrap();
            assert_eq!((profile.id.as_str(), profile.schema), (name, 1));
            for (backend, row) in &profile.backends {
                assert!(!row.option.is_empty() && !row.targets.is_empty(), "{name}: {backend}");
            }
        }
        assert_eq!(Profile::builtin("no-such"), None);
    }

    #[test]
    fn llama_stands_on_ggml() {
        let llama = Profile::builtin("llama").unwrap();
        assert_eq!(llama.targets, ["llama", "ggml", "ggml-base"]);
        assert_eq!(llama.options["GGML_NATIVE"], "OFF");
        assert_eq!(llama.backends[&Backend::Rocm].option, "GGML_HIP");
        let diffusion = Profile::builtin("stable-diffusion").unwrap();
        assert_eq!(diffusion.backends[&Backend::Cuda].option, "SD_CUDA");
        assert_eq!(diffusion.backends[&Backend::Cuda].targets, ["ggml-cuda"]);
    }

    #[test]
    fn conflicts_are_symmetric_and_spare_the_exceptions() {
        let ggml = Profile::builtin("ggml").unwrap();
        let clash = |a, b| ggml.conflict.iter().any(|rule| rule.holds(a, b, Os::Linux));
        assert!(clash(Backend::Cuda, Backend::Rocm) && clash(Backend::Rocm, Backend::Cuda));
        assert!(clash(Backend::Sycl, Backend::Vulkan) && !clash(Backend::Sycl, Backend::Cpu));
        assert!(!clash(Backend::Cuda, Backend::Vulkan));
    }
}
