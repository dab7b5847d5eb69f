//! Profiles: options and targets of known CMake projects. The data is in `toolkits/profiles/`;
//! docs/reference/resolvers-and-profiles.md documents the format.

mod extra;
mod names;
mod package;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_toolkits::{PROFILES, SHIMS};
use serde::{Deserialize, Serialize};

use crate::artifacts::ModuleLoader;
pub use extra::{Extra, ExtraNeed};
pub use names::{WantedOption, declared};
pub use package::{PackageToolkit, WheelPackage};

/// Options, targets and restrictions of a project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the format: 1.
    pub schema: u32,
    /// Id for `profile` in `gpubuild.toml`.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Id of the profile that this one extends.
    pub extends: Option<String>,
    /// Backends that are part of every build.
    #[serde(default)]
    pub always: Vec<Backend>,
    /// Targets that a program links with any backend.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// Cache entries that are always set. A version of the project may lack some of the options.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The option that compiles for the processor of the build machine only.
    pub native: Option<String>,
    /// CMake scripts that declare options, relative to the source folder. Missing scripts are ignored.
    #[serde(default)]
    pub scripts: Vec<String>,
    /// Additional targets that gpubuild.toml may list, with the options that they require.
    #[serde(default, rename = "part")]
    pub parts: Vec<SourcePart>,
    /// Options and targets by backend.
    #[serde(default)]
    pub backends: BTreeMap<Backend, BackendRow>,
    /// Memory that one CUDA or HIP compiler process of this project needs: `2GiB`.
    pub memory_per_device_job: Option<String>,
    /// Extra backends by id: those of the project that gpubuild has no toolkit for.
    #[serde(default)]
    pub extra: BTreeMap<String, Extra>,
    /// Current names of options by former name.
    #[serde(default)]
    pub renamed: BTreeMap<String, String>,
    /// Options that were removed from the project.
    #[serde(default)]
    pub removed: BTreeMap<String, RemovedOption>,
    /// Properties that must be equal before two copies of the project's library may be in one program.
    pub abi: Option<Abi>,
    /// The test program of the project.
    pub tests: Option<Tests>,
    /// Backends that need a separate tree.
    #[serde(default)]
    pub separate: Vec<Separate>,
    /// Pairs of backends that cannot be linked into one program.
    #[serde(default)]
    pub conflict: Vec<Conflict>,
    /// Cache entries for shared libraries, in addition to `BUILD_SHARED_LIBS`.
    #[serde(default)]
    pub shared: BTreeMap<String, String>,
    /// How backends are built as modules, if the project supports it.
    pub modules: Option<Modules>,
    /// Options for processor features, by rustc's name of the feature. They are enabled if the crate is compiled with it.
    #[serde(default)]
    pub instructions: BTreeMap<String, String>,
    /// Libraries that can come from another project's build, by the name of their CMake package.
    #[serde(default)]
    pub share: BTreeMap<String, ShareRule>,
    /// CMake packages that wheels contain.
    #[serde(default, rename = "package")]
    pub packages: Vec<WheelPackage>,
    /// Cache entry for the CUDA architectures as PyTorch writes them: `8.0;9.0a;12.0+PTX`. If the user sets an environment variable of this
    /// name, it selects them.
    pub cuda_arch_list: Option<String>,
    /// Environment variable for the ROCm architectures: `gfx90a;gfx1100`. If the user sets it, it selects them.
    pub rocm_arch_variable: Option<String>,
    /// Patterns for libraries that releases and wheels leave to the user's machine.
    #[serde(default)]
    pub leave: Vec<String>,
}

/// How a project uses libraries from another project's build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRule {
    /// Cache entries that make the project find the CMake package.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Id of the profile with the options and targets of these libraries.
    pub profile: Option<String>,
}

/// Options and targets of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendRow {
    /// The option that enables it.
    pub option: String,
    /// Additional options that get the same value.
    #[serde(default)]
    pub also: Vec<String>,
    /// Additional environment variables that request it.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Targets that a program links.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// The oldest supported release of the toolkit.
    pub minimum: Option<Version>,
    /// Parts of the toolkit that the project links and that gpubuild installs only on request: `cublas`.
    #[serde(default)]
    pub components: Vec<String>,
    /// Architectures for which the project requires a suffix.
    pub arch_suffix: Option<ArchSuffix>,
    /// Headers that add what older releases of the toolkit lack.
    #[serde(default)]
    pub shims: Vec<ShimRow>,
    /// Cache entries that are set if the backend is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// A path in the source folder that exists only if the project has kernels for this backend.
    pub kernels: Option<String>,
    /// Whether the backend builds without its toolkit: its sources declare the functions that they use and load the library at
    /// run time, so that neither headers nor libraries are needed.
    #[serde(default)]
    pub self_contained: bool,
    /// Whether a program opens the libraries of the backend at run time and links none of them: this machine's toolkit then also builds
    /// the kernels for other platforms.
    #[serde(default)]
    pub opened_at_run_time: bool,
    /// The time of a clean build.
    pub cost: Option<Cost>,
    /// Id of the toolkit that it is built with; `None` uses the default toolkit of the backend.
    pub toolkit: Option<String>,
}

/// A range of architectures that are built with a suffix: `120` becomes `120a`. Numbers are ten times the compute
/// capability.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchSuffix {
    /// The lowest number.
    pub from: u16,
    /// The highest number, inclusive.
    pub to: u16,
    /// The suffix: `a` or `f`.
    pub suffix: char,
}

/// A header of gpubuild that extends a header of the toolkit: it is found first and includes the original with
/// `#include_next`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShimRow {
    /// The path by which sources include it.
    pub header: String,
    /// File name in `toolkits/profiles/shims/`.
    pub file: String,
    /// The first release of the toolkit that does not need it.
    pub below: Version,
    /// Operating systems whose compilers support `#include_next`.
    pub os: Vec<String>,
    /// What older releases lack.
    pub reason: String,
}

impl ShimRow {
    /// The text of the header; `None` if the file does not exist, which a test rules out.
    #[must_use]
    pub fn text(&self) -> Option<&'static str> {
        SHIMS.iter().copied().find(|(name, _)| *name == self.file).map(|(_, text)| text)
    }
}

/// An optional target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePart {
    /// Its names in different versions of the project, the current name first.
    pub names: Vec<String>,
    /// Cache entries that enable it.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// An option that was removed from the project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedOption {
    /// Its replacement, or why it is no longer needed.
    pub say: String,
    /// Whether it can be dropped without changing the result.
    #[serde(default)]
    pub harmless: bool,
}

/// Properties that must be equal before two copies of a library may be in one program, and where to read them. The values
/// always come from the project, never from the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abi {
    /// The target whose compile definitions are compared.
    pub target: String,
    /// Headers with the defaults of the definitions, relative to the source folder. Missing headers are ignored.
    pub headers: Vec<String>,
    /// Names of the definitions.
    pub defines: Vec<String>,
    /// Scripts that set the version; the first one that sets it completely is used.
    #[serde(default)]
    pub version: Vec<VersionPlace>,
}

/// Where a project sets its version: `set(GGML_VERSION_MAJOR 0)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionPlace {
    /// The CMake script, relative to the source folder.
    pub file: String,
    /// Prefix of the variables: `GGML_VERSION` for `GGML_VERSION_MAJOR`, `_MINOR` and `_PATCH`.
    pub prefix: String,
}

/// Measured time of a clean build, in seconds on one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Time that does not depend on GPU architectures. For `cpu` it includes the program.
    pub seconds: u64,
    /// Additional time per GPU architecture.
    #[serde(default)]
    pub per_arch: u64,
}

/// A program that compares backends with a reference: `TARGET --backend ID --json` prints a report and exits with 0,
/// 1 (failures) or 3 (no device).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// The option that enables it.
    pub option: String,
    /// Its CMake target.
    pub target: String,
}

/// Backends that need a separate tree.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Separate {
    /// The backends.
    pub backends: Vec<Backend>,
    /// Operating systems to which the rule applies; all if empty.
    #[serde(default)]
    pub os: Vec<Os>,
    /// Reason for messages.
    pub reason: String,
}

impl Separate {
    /// Whether the rule applies to a backend on an operating system.
    #[must_use]
    pub fn holds(&self, backend: Backend, os: Os) -> bool {
        self.backends.contains(&backend) && (self.os.is_empty() || self.os.contains(&os))
    }
}

/// How the backends of a project are built and loaded as modules.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    /// Cache entries of every tree, in addition to `BUILD_SHARED_LIBS`.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Options that build a backend once per processor level.
    #[serde(default)]
    pub variants: BTreeMap<Backend, String>,
    /// Functions of the project that load modules.
    pub loader: ModuleLoader,
}

/// Two backends that cannot be linked into one program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Two ids; `*` matches every other backend.
    pub backends: [String; 2],
    /// Backends that `*` does not match.
    #[serde(default)]
    pub except: Vec<Backend>,
    /// Operating systems to which the rule applies; all if empty.
    #[serde(default)]
    pub os: Vec<Os>,
    /// Reason for messages.
    pub reason: String,
}

impl Conflict {
    /// Whether the rule applies to these backends, in any order, on an operating system.
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
    /// Ids of the built-in profiles, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().copied().map(|(name, _)| name)
    }

    /// A built-in profile, merged with the profiles that it extends.
    ///
    /// # Panics
    /// Panics if the profile is invalid, which tests rule out.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, bytes) = PROFILES.iter().copied().find(|(id, _)| *id == name)?;
        let own: Self = gpubuild_toml::from_static(bytes).expect("the profiles in the crate are tested");
        Some(match own.extends.as_deref().and_then(Self::builtin) {
            Some(base) => own.merged_onto(base),
            None => own,
        })
    }

    /// The optional target with this current or former name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&SourcePart> {
        self.parts.iter().find(|part| part.names.iter().any(|other| other == name))
    }

    /// Id of the backend or extra backend that an option enables.
    #[must_use]
    pub fn switched_by(&self, option: &str) -> Option<&str> {
        let of = |own: &str, also: &[String]| own == option || also.iter().any(|other| other == option);
        let backend = self.backends.iter().find(|(_, row)| of(&row.option, &row.also));
        backend.map(|(backend, _)| backend.id()).or_else(|| {
            let extra = self.extra.iter().find(|(_, extra)| of(&extra.option, &extra.also));
            extra.map(|(id, _)| id.as_str())
        })
    }

    fn merged_onto(self, base: Self) -> Self {
        let mut merged = base;
        merged.id = self.id;
        merged.name = self.name;
        merged.extends = self.extends;
        merged.memory_per_device_job = self.memory_per_device_job.or(merged.memory_per_device_job);
        merged.always.extend(self.always);
        // Targets of the extending profile depend on the base targets, so they are first; CMake determines the final order.
        merged.targets.splice(0..0, self.targets);
        merged.options.extend(self.options);
        merged.native = self.native.or(merged.native);
        merged.scripts.splice(0..0, self.scripts);
        merged.parts.extend(self.parts);
        for (backend, row) in self.backends {
            let row = match merged.backends.remove(&backend) {
                Some(base) => row.merged_onto(base),
                None => row,
            };
            merged.backends.insert(backend, row);
        }
        for (id, extra) in self.extra {
            let extra = match merged.extra.remove(&id) {
                Some(base) => extra.merged_onto(base),
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
        merged.packages.extend(self.packages);
        merged.cuda_arch_list = self.cuda_arch_list.or(merged.cuda_arch_list);
        merged.rocm_arch_variable = self.rocm_arch_variable.or(merged.rocm_arch_variable);
        merged.leave.extend(self.leave);
        merged
    }
}

impl BackendRow {
    fn merged_onto(self, base: Self) -> Self {
        let targets = if self.targets.is_empty() { base.targets } else { self.targets };
        let components = if self.components.is_empty() { base.components } else { self.components };
        let mut options = base.options;
        options.extend(self.options);
        Self {
            targets,
            components,
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
mod tests;
