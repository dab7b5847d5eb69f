//! What cargo passes to a build script about the crate, the target and the profile, and what the build derives from it.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{Environment, HostPath, ReadFiles};
use serde::Deserialize;

use super::ScriptError;

/// A crate that is being compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildingCrate {
    /// The package's name.
    pub name: String,
    /// The folder of its Cargo.toml.
    pub folder: HostPath,
    /// `OUT_DIR` of this run of the script.
    pub out: HostPath,
    /// The program's target triple.
    pub target: String,
    /// The triple of the machine that compiles.
    pub host: String,
    /// The target's operating system: `linux`, `windows`, `macos`.
    pub os: String,
    /// The target's architecture: `x86_64`, `aarch64`.
    pub arch: String,
    /// The target's environment: `gnu`, `msvc`, `musl` or empty.
    pub env: String,
    /// Backends for which Cargo.toml declares a feature.
    pub declared: BTreeSet<Backend>,
    /// Backends whose feature is enabled.
    pub enabled: BTreeSet<Backend>,
    /// The number of jobs of `cargo build --jobs`.
    pub jobs: Option<u32>,
    /// The profile's `opt-level`: `0` to `3`, `s`, `z`.
    pub opt_level: String,
    /// Whether the profile enables debug information.
    pub debug: bool,
    /// CPU features that the crate is compiled for, as rustc names them.
    pub instructions: BTreeSet<String>,
    /// Whether the C run-time library is linked statically (`-C target-feature=+crt-static`).
    pub static_crt: bool,
    /// Whether docs.rs is building the documentation: it links nothing and has no network.
    pub docs_rs: bool,
    /// The `links` key of Cargo.toml.
    pub links: Option<String>,
}

impl BuildingCrate {
    /// Reads the variables that cargo sets.
    ///
    /// # Errors
    /// A variable that cargo always sets is missing, so this is not a build script.
    pub(crate) fn read(host: &dyn ReadFiles) -> Result<Self, ScriptError> {
        let env = host.env();
        let need = |name: &str| {
            env.get(name).map(str::to_owned).ok_or_else(|| ScriptError::NoCargo { variable: name.to_owned() })
        };
        let text = |name: &str| env.get(name).unwrap_or_default().to_owned();
        let folder = host.path(&need("CARGO_MANIFEST_DIR")?);
        let declared = declared(&host.read_text(&folder.join("Cargo.toml")).unwrap_or_default());
        let enabled = declared.iter().filter(|(_, names)| names.iter().any(|name| is_enabled(env, name)));
        let instructions: BTreeSet<String> =
            text("CARGO_CFG_TARGET_FEATURE").split(',').map(str::to_owned).collect_set();
        Ok(Self {
            name: text("CARGO_PKG_NAME"),
            out: host.path(&need("OUT_DIR")?),
            target: need("TARGET")?,
            host: need("HOST")?,
            os: text("CARGO_CFG_TARGET_OS"),
            arch: text("CARGO_CFG_TARGET_ARCH"),
            env: text("CARGO_CFG_TARGET_ENV"),
            enabled: enabled.map(|(backend, _)| *backend).collect(),
            declared: declared.keys().copied().collect(),
            jobs: env.get("NUM_JOBS").and_then(|text| text.parse().ok()),
            opt_level: text("OPT_LEVEL"),
            debug: env.get("DEBUG").is_some_and(|value| !matches!(value, "false" | "0" | "none")),
            static_crt: instructions.contains("crt-static"),
            instructions,
            docs_rs: env.get("DOCS_RS").is_some(),
            links: env.get("CARGO_MANIFEST_LINKS").map(str::to_owned),
            folder,
        })
    }

    /// The backends that the crate's features name: `cpu` and the enabled ones. `None` if Cargo.toml has no feature with the
    /// name of a backend.
    #[must_use]
    pub(crate) fn backends(&self) -> Option<Vec<Backend>> {
        if self.declared.is_empty() {
            return None;
        }
        let mut list: Vec<Backend> = self.enabled.iter().copied().collect();
        // A declared but disabled feature `cpu` excludes the CPU backend.
        if !self.declared.contains(&Backend::Cpu) {
            list.push(Backend::Cpu);
        }
        list.sort_indirect();
        list.dedup();
        Some(list)
    }

    /// Cache entries that follow from cargo's profile and target. The project's options override them.
    #[must_use]
    pub(crate) fn options(&self) -> BTreeMap<String, String> {
        // Unoptimised kernels are tens of times slower, and Microsoft's debug run-time library is incompatible with the one that
        // Rust links: `opt-level = 0` is meant for the crate's Rust code.
        let build_type = match (self.opt_level.as_str(), self.debug) {
            ("s" | "z", _) => "MinSizeRel",
            ("1" | "2" | "3", true) => "RelWithDebInfo",
            _ => "Release",
        };
        let mut options = BTreeMap::from([("CMAKE_BUILD_TYPE".to_owned(), build_type.to_owned())]);
        if self.env == "msvc" {
            let library = if self.static_crt { "MultiThreaded" } else { "MultiThreadedDLL" };
            options.insert("CMAKE_MSVC_RUNTIME_LIBRARY".to_owned(), library.to_owned());
            // Old projects ignore the entry unless the policy is set.
            options.insert("CMAKE_POLICY_DEFAULT_CMP0091".to_owned(), "NEW".to_owned());
        }
        options
    }

    /// A folder in cargo's target folder that outlives this run of the script and is the same for `check`, `build` and every
    /// profile: `target/gpubuild`, with the triple in between if cargo was given one.
    #[must_use]
    pub(crate) fn shared_folder(&self) -> HostPath {
        let mut folder = self.out.parent();
        while let Some(here) = folder {
            // `target[/<triple>]/<profile>/build/…`
            if here.file_name() == Some("build")
                && let Some(target) = here.parent().and_then(|profile| profile.parent())
            {
                return target.join("gpubuild");
            }
            folder = here.parent();
        }
        self.out.join("gpubuild")
    }
}

fn is_enabled(env: &Environment, feature: &str) -> bool {
    let name = feature.to_ascii_uppercase().replace('-', "_");
    env.get_raw(&format!("CARGO_FEATURE_{name}")).is_some()
}

#[derive(Default, Deserialize)]
struct CrateManifest {
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

/// The features of a Cargo.toml that have the name of a backend, by backend.
fn declared(text: &str) -> BTreeMap<Backend, Vec<String>> {
    let mut found: BTreeMap<Backend, Vec<String>> = BTreeMap::new();
    // cargo itself reports an unreadable Cargo.toml.
    for name in gpubuild_toml::from_str::<CrateManifest>(text).unwrap_or_default().features.into_keys() {
        if let Ok(backend) = name.parse() {
            found.entry(backend).or_default().push(name);
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    /// A recorded host on which cargo runs a crate's build script.
    pub(crate) fn host(cargo_toml: &str, variables: &[(&str, &str)]) -> RecordedHost {
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/c/Cargo.toml", cargo_toml);
        let usual = [
            ("CARGO_MANIFEST_DIR", "/c"),
            ("CARGO_PKG_NAME", "x-sys"),
            ("OUT_DIR", "/t/debug/build/x-sys-1/out"),
            ("TARGET", "x86_64-unknown-linux-gnu"),
            ("HOST", "x86_64-unknown-linux-gnu"),
            ("CARGO_CFG_TARGET_OS", "linux"),
            ("CARGO_CFG_TARGET_ARCH", "x86_64"),
            ("CARGO_CFG_TARGET_ENV", "gnu"),
            ("OPT_LEVEL", "0"),
            ("DEBUG", "true"),
            ("NUM_JOBS", "3"),
        ];
        for (name, value) in usual.iter().chain(variables) {
            host = host.env(name, value);
        }
        host.build()
    }

    const FEATURES: &str = "[package]\nname = \"x-sys\"\n[features]\ncuda = []\nhip = []\nother = []\n";

    fn read(cargo_toml: &str, variables: &[(&str, &str)]) -> BuildingCrate {
        BuildingCrate::read(&host(cargo_toml, variables)).unwrap()
    }

    #[test]
    fn features_request_backends_if_any_is_named_after_one() {
        assert_eq!(read("", &[("CARGO_FEATURE_CUDA", "1")]).backends(), None);
        assert_eq!(read(FEATURES, &[]).backends(), Some(vec![Backend::Cpu]));
        let some = read(FEATURES, &[("CARGO_FEATURE_HIP", "1"), ("CARGO_FEATURE_OTHER", "1")]);
        assert_eq!(some.backends(), Some(vec![Backend::Cpu, Backend::Rocm]));
        let without_cpu = read("[features]\ncpu = []\nvulkan = []", &[("CARGO_FEATURE_VULKAN", "1")]);
        assert_eq!(without_cpu.backends(), Some(vec![Backend::Vulkan]));
    }

    #[test]
    fn profile_and_target_determine_the_build_type() {
        let build_type = |level: &str, debug: &str| {
            read("", &[("OPT_LEVEL", level), ("DEBUG", debug)]).options()["CMAKE_BUILD_TYPE"].clone()
        };
        assert_eq!(build_type("0", "true"), "Release");
        assert_eq!(build_type("3", "false"), "Release");
        assert_eq!(build_type("3", "2"), "RelWithDebInfo");
        assert_eq!(build_type("z", "false"), "MinSizeRel");
        let msvc = |features: &str| {
            let variables = [("CARGO_CFG_TARGET_ENV", "msvc"), ("CARGO_CFG_TARGET_FEATURE", features)];
            read("", &variables).options()["CMAKE_MSVC_RUNTIME_LIBRARY"].clone()
        };
        assert_eq!(msvc("fxsr,crt-static,sse2"), "MultiThreaded");
        assert_eq!(msvc("fxsr,sse2"), "MultiThreadedDLL");
        assert!(!read("", &[]).options().contains_key("CMAKE_MSVC_RUNTIME_LIBRARY"));
    }

    #[test]
    fn the_shared_folder_is_in_the_target_folder() {
        let folder = |out: &str| read("", &[("OUT_DIR", out)]).shared_folder().to_string();
        assert_eq!(folder("/t/debug/build/x-sys-1/out"), "/t/gpubuild");
        assert_eq!(
            folder("/t/aarch64-apple-darwin/release/build/x-sys-1/out"),
            "/t/aarch64-apple-darwin/gpubuild"
        );
        assert_eq!(folder("/t/debug/build/x-sys/0f/out"), "/t/gpubuild", "cargo's newer layout");
        assert_eq!(folder("/elsewhere/out"), "/elsewhere/out/gpubuild");
    }

    #[test]
    fn outside_of_cargo_is_an_error() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        let error = BuildingCrate::read(&host).unwrap_err();
        assert_eq!(error.id(), "script.no-cargo");
        assert!(error.to_string().contains("CARGO_MANIFEST_DIR"), "{error}");
    }
}
