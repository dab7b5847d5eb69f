//! Profiles: names of options and targets of known projects, as data in `toolkits/profiles/`
//! (docs/reference/resolvers-and-profiles.md has the form).

mod extra;
mod names;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_toolkits::{PROFILES, SHIMS};
use serde::{Deserialize, Serialize};

use crate::artifacts::ModuleLoader;
pub use extra::{Extra, ExtraNeed};
pub use names::{WantedOption, declared};

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
    pub targets: Vec<WantedOption>,
    /// Cache entries that are always set. A version of the project that does not know one is fine.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The switch for code that only runs on processors like the build machine's.
    pub native: Option<String>,
    /// Scripts in which the project declares its options, below the source folder; those that are there are read.
    #[serde(default)]
    pub scripts: Vec<String>,
    /// Further targets that a project may name, with what has to be switched on for them.
    #[serde(default, rename = "part")]
    pub parts: Vec<SourcePart>,
    /// Per backend.
    #[serde(default)]
    pub backends: BTreeMap<Backend, BackendRow>,
    /// Memory that one CUDA or HIP compiler of this project needs, `2GiB`.
    pub memory_per_device_job: Option<String>,
    /// Backends of the project that gpubuild has no toolkit for, by id.
    #[serde(default)]
    pub extra: BTreeMap<String, Extra>,
    /// Options by their former names.
    #[serde(default)]
    pub renamed: BTreeMap<String, String>,
    /// Options that are gone.
    #[serde(default)]
    pub removed: BTreeMap<String, RemovedOption>,
    /// What has to agree before two copies of the project may share libraries or structures.
    pub abi: Option<Abi>,
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
    /// Switches for features of processors, by rustc's word for them, where a crate is compiled for these.
    #[serde(default)]
    pub instructions: BTreeMap<String, String>,
    /// Libraries that another project may have built, by the name of their CMake package.
    #[serde(default)]
    pub share: BTreeMap<String, ShareRule>,
}

/// How a project uses libraries that another one has built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRule {
    /// Cache entries that make it look for the package.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The profile whose options and targets belong to those libraries.
    pub profile: Option<String>,
}

/// A backend of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendRow {
    /// The option that switches it.
    pub option: String,
    /// Further options that get the same value.
    #[serde(default)]
    pub also: Vec<String>,
    /// Further names under which the environment may ask for it.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Targets that a program links.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// The oldest release of the toolkit that the project takes.
    pub minimum: Option<Version>,
    /// Architectures that the project builds only with a suffix.
    pub arch_suffix: Option<ArchSuffix>,
    /// Headers that supply what older releases of the toolkit lack.
    #[serde(default)]
    pub shims: Vec<ShimRow>,
    /// Cache entries while it is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// A file below the source folder that is there if the project has kernels for this backend.
    pub kernels: Option<String>,
    /// Whether a compiler is enough: what the kernels use of the backend they declare themselves and open at run time, so
    /// that neither its headers nor its libraries have to be here.
    #[serde(default)]
    pub self_contained: bool,
    /// What it takes to compile from clean.
    pub cost: Option<Cost>,
    /// The toolkit that it is built with, by the id of its description, where that is not the backend's own.
    pub toolkit: Option<String>,
}

/// Compute capabilities, times ten, that are built for one architecture only: `120` becomes `120a`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchSuffix {
    /// The lowest.
    pub from: u16,
    /// The highest.
    pub to: u16,
    /// `a` or `f`.
    pub suffix: char,
}

/// A header of ours that stands before one of the toolkit and leads on to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimRow {
    /// The name under which sources include it.
    pub header: String,
    /// Its text, in `toolkits/profiles/shims/`.
    pub file: String,
    /// The first release of the toolkit that does without it.
    pub below: Version,
    /// Operating systems whose compilers know `#include_next`.
    pub os: Vec<String>,
    /// What the older releases lack.
    pub reason: String,
}

impl ShimRow {
    /// The text of the header.
    #[must_use]
    pub fn text(&self) -> Option<&'static str> {
        SHIMS.iter().copied().find(|(name, _)| *name == self.file).map(|(_, text)| text)
    }
}

/// A target that is not part of every build.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePart {
    /// Its names in the versions of the project, the current one first.
    pub names: Vec<String>,
    /// Cache entries without which it is not there.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// An option that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedOption {
    /// What replaced it, or why it is not needed.
    pub say: String,
    /// Whether it may be left out without changing what was meant.
    #[serde(default)]
    pub harmless: bool,
}

/// What has to agree before two copies of a library may meet in one program. It is read from the project, never copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abi {
    /// The target whose definitions count.
    pub target: String,
    /// Headers below the source folder that hold the definitions' defaults; those that are there are read.
    pub headers: Vec<String>,
    /// Definitions.
    pub defines: Vec<String>,
    /// A script that sets the parts of the version, and what their names begin with.
    #[serde(default)]
    pub version: Vec<VersionPlace>,
}

/// Where the project's version stands: `set(GGML_VERSION_MAJOR 0)` and its like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionPlace {
    /// A script below the source folder.
    pub file: String,
    /// `GGML_VERSION`: `_MAJOR`, `_MINOR` and `_PATCH` follow.
    pub prefix: String,
}

/// What it takes to compile something from clean, in seconds of one core, as it was measured once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Whatever the architectures; of `cpu` the program as well.
    pub seconds: u64,
    /// For each architecture of GPUs.
    #[serde(default)]
    pub per_arch: u64,
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
    pub loader: ModuleLoader,
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

impl Profile {
    /// Ids of the profiles that are built in, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().copied().map(|(name, _)| name)
    }

    /// A built-in profile with what it extends already merged in.
    ///
    /// # Panics
    /// Never on a released version: a test reads every file.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, bytes) = PROFILES.iter().copied().find(|(id, _)| *id == name)?;
        let own: Self = gpubuild_toml::from_bytes(bytes).expect("the profiles in the crate are tested");
        Some(match own.extends.as_deref().and_then(Self::builtin) {
            Some(base) => own.on_top_of(base),
            None => own,
        })
    }

    /// The part that one of these names means.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&SourcePart> {
        self.parts.iter().find(|part| part.names.iter().any(|other| other == name))
    }

    /// The backend or the extra one that an option switches, by id.
    #[must_use]
    pub fn switched_by(&self, option: &str) -> Option<&str> {
        let of = |own: &str, also: &[String]| own == option || also.iter().any(|other| other == option);
        let backend = self.backends.iter().find(|(_, row)| of(&row.option, &row.also));
        backend.map(|(backend, _)| backend.id()).or_else(|| {
            let extra = self.extra.iter().find(|(_, extra)| of(&extra.option, &extra.also));
            extra.map(|(id, _)| id.as_str())
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
        merged.native = self.native.or(merged.native);
        merged.scripts.splice(0..0, self.scripts);
        merged.parts.extend(self.parts);
        for (backend, row) in self.backends {
            let row = match merged.backends.remove(&backend) {
                Some(base) => row.on_top_of(base),
                None => row,
            };
            merged.backends.insert(backend, row);
        }
        for (id, extra) in self.extra {
            let extra = match merged.extra.remove(&id) {
                Some(base) => extra.on_top_of(base),
                None => extra,
            };
            merged.extra.insert(id, extra);
        }
        merged.renamed.extend(self.renamed);
        merged.removed.extend(self.removed);
        merged.abi = self.abi.or(merged.abi);
        merged.tests = self.tests.or(merged.tests);
        merged.instructions.extend(self.instructions);
        merged.share.extend(self.share);
        merged.separate.extend(self.separate);
        merged.conflict.extend(self.conflict);
        merged.shared.extend(self.shared);
        merged.modules = self.modules.or(merged.modules);
        merged
    }
}

impl BackendRow {
    fn on_top_of(self, base: Self) -> Self {
        let targets = if self.targets.is_empty() { base.targets } else { self.targets };
        let mut options = base.options;
        options.extend(self.options);
        Self {
            targets,
            options,
            environment: [base.environment, self.environment].concat(),
            minimum: self.minimum.or(base.minimum),
            arch_suffix: self.arch_suffix.or(base.arch_suffix),
            shims: [base.shims, self.shims].concat(),
            ..self
        }
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
                assert!(row.shims.iter().all(|shim| shim.text().is_some()), "{name}: {backend}");
            }
        }
        assert_eq!(Profile::builtin("no-such"), None);
    }

    #[test]
    fn llama_stands_on_ggml() {
        let llama = Profile::builtin("llama").unwrap();
        let names: Vec<String> = llama.targets.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["llama", "ggml", "ggml-base?"]);
        assert_eq!(llama.options["GGML_NATIVE"], "OFF");
        assert_eq!(llama.backends[&Backend::Rocm].option, "GGML_HIP");
        let diffusion = Profile::builtin("stable-diffusion").unwrap();
        assert_eq!(diffusion.backends[&Backend::Cuda].option, "SD_CUDA");
        assert_eq!(diffusion.backends[&Backend::Cuda].targets[0].to_string(), "ggml-cuda");
        assert_eq!(diffusion.backends[&Backend::Rocm].minimum, Some("6.1".parse().unwrap()));
        assert_eq!(diffusion.backends[&Backend::Opencl].options["GGML_OPENCL_EMBED_KERNELS"], "ON");
        assert_eq!(diffusion.switched_by("GGML_METAL"), Some("metal"));
        assert_eq!(diffusion.switched_by("SD_MUSA"), Some("musa"));
        assert_eq!(llama.switched_by("GGML_RPC"), Some("rpc"));
        assert_eq!(llama.switched_by("GGML_NATIVE"), None);
    }

    /// The data has to be consistent: no name is both current and former, and what replaces a name is current.
    #[test]
    fn former_names_lead_to_current_ones() {
        for name in Profile::names() {
            let profile = Profile::builtin(name).unwrap();
            for (old, new) in &profile.renamed {
                assert!(!profile.renamed.contains_key(new), "{name}: {old} -> {new} is renamed again");
                assert!(!profile.removed.contains_key(new), "{name}: {old} -> {new} is removed");
                assert!(!profile.options.contains_key(old), "{name}: {old} is former and set");
                assert_eq!(profile.switched_by(old), None, "{name}: {old} is former and a switch");
            }
            for (old, gone) in &profile.removed {
                let set = profile.options.contains_key(old);
                assert!(!set || gone.harmless, "{name}: {old} is removed and set");
            }
        }
    }

    /// A row with a toolkit that nothing describes would be built with the backend's own, without a word.
    #[test]
    fn toolkits_of_rows_are_described() {
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        let mut named = 0;
        for name in Profile::names() {
            for row in Profile::builtin(name).unwrap().backends.values() {
                let Some(id) = &row.toolkit else { continue };
                assert!(catalogue.get(id).is_some(), "{name}: there is no toolkit `{id}`");
                named += 1;
            }
        }
        assert!(named > 0);
    }

    #[test]
    fn every_backend_of_ggml_has_a_row() {
        let ggml = Profile::builtin("ggml").unwrap();
        assert_eq!(ggml.backends.len(), Backend::ALL.len());
        let extra: Vec<&str> = ggml.extra.keys().map(String::as_str).collect();
        assert_eq!(
            extra,
            [
                "blas", "cann", "et", "hexagon", "kompute", "musa", "openvino", "rpc", "virtgpu", "webgpu",
                "zdnn", "zendnn"
            ]
        );
        for (id, extra) in &ggml.extra {
            assert_eq!(extra.removed.is_some(), extra.targets.is_empty(), "{id}");
        }
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
