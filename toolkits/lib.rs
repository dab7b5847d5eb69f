//! Data about toolkits, GPUs, build systems and projects, as TOML that is parsed at compile time: `(name,
//! bytes)` of the files in this folder, for `gpubuild_toml::from_static`.
//!
//! Part of gpubuild. The interface is not stable. New files must be
//! listed here; a test verifies this.

/// Embeds files of a folder as a list of `(name, bytes)`.
macro_rules! files {
    ($folder:literal, $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $folder, $name, ".bin")).as_slice())),*]
    };
}

/// Embeds a table.
macro_rules! table {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/tables/", $name, ".bin"))
    };
}

/// Toolkits and tools, by id.
pub const DESCRIPTIONS: &[(&str, &[u8])] = files!("",
    "ccache" "clang" "cmake" "cuda" "distcc" "dpcpp-runtime" "gcc" "glslc" "icecream" "metal" "msvc" "ninja" "oneapi" "opencl"
    "python" "recc" "rocm" "sccache" "uv" "vulkan"
);

/// Wheels and archives of toolkit releases.
pub const LOCKS: &[(&str, &[u8])] =
    files!("locks/", "cuda-12.4" "cuda-12.6" "cuda-12.8" "cuda-12.9" "cuda-13.0" "cuda-13.5");

/// Packages of distributions that make up a toolkit, and how they become a prefix.
pub const PACKAGE_SETS: &[(&str, &[u8])] = files!("packages/", "opencl" "rocm" "vulkan");

/// How build systems find a toolkit, step by step.
pub const RESOLVERS: &[(&str, &[u8])] = files!("resolvers/", "cuda" "rocm" "vulkan" "oneapi");

/// Options and targets of known CMake projects.
pub const PROFILES: &[(&str, &[u8])] =
    files!("profiles/", "cmake" "ggml" "gk" "llama" "stable-diffusion" "torch-extension" "whisper");

/// Headers that profiles add before those of old toolkits.
pub const SHIMS: &[(&str, &str)] =
    &[("vulkan-layer-settings.hpp", include_str!("profiles/shims/vulkan-layer-settings.hpp"))];

/// Tables with data on a single subject.
pub mod tables {
    /// Which NVIDIA GPUs can run code of an architecture.
    pub const CUDA_ARCHS: &[u8] = table!("cuda-archs");
    /// Functions of NVIDIA's driver, by the release that introduced them.
    pub const CUDA_FUNCTIONS: &[u8] = table!("cuda-functions");
    /// Package names of distributions.
    pub const DISTRIBUTIONS: &[u8] = table!("distributions");
    /// Typical language models and published memory bandwidths.
    pub const ESTIMATE: &[u8] = table!("estimate");
    /// GPUs by PCI number and name.
    pub const GPUS: &[u8] = table!("gpus");
    /// Instruction sets, levels and CPUs.
    pub const ISA: &[u8] = table!("isa");
    /// The libclang that is downloaded if the machine has none.
    pub const LIBCLANG: &[u8] = table!("libclang");
    /// Properties of shared libraries, by name.
    pub const LIBRARIES: &[u8] = table!("libraries");
    /// The symbol versions that platform tags of Python wheels allow.
    pub const MANYLINUX: &[u8] = table!("manylinux");
    /// Package managers whose packages gpubuild unpacks.
    pub const PACKAGE_MANAGERS: &[u8] = table!("package-managers");
    /// Builds of PyTorch, CuPy and others, with the drivers that they need.
    pub const PACKAGES: &[u8] = table!("packages");
    /// How to create an installation from the wheels of a toolkit.
    pub const PROVISION: &[u8] = table!("provision");
    /// The wheels that contain each run-time library.
    pub const RUNTIME_WHEELS: &[u8] = table!("runtime-wheels");
    /// What the build store includes in its keys.
    pub const STORE: &[u8] = table!("store");
    /// Packages of distributions, and the files that show that they are installed.
    pub const SYSTEM_PACKAGES: &[u8] = table!("system-packages");
    /// Systems that are images, or declared by a configuration.
    pub const SYSTEMS: &[u8] = table!("systems");
    /// Other platforms to build for, and the wheel of their compiler.
    pub const TARGETS: &[u8] = table!("targets");
    /// Variables that build systems and loaders read.
    pub const VARIABLES: &[u8] = table!("variables");
    /// Providers of the properties of Python wheel variants.
    pub const WHEEL_VARIANTS: &[u8] = table!("wheel-variants");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The names of the TOML files in a folder.
    #[expect(clippy::disallowed_methods, reason = "a test reads the folder of its crate")]
    fn names(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_file_is_listed() {
        for (folder, files) in [
            ("", super::DESCRIPTIONS),
            ("locks", super::LOCKS),
            ("packages", super::PACKAGE_SETS),
            ("resolvers", super::RESOLVERS),
            ("profiles", super::PROFILES),
        ] {
            let listed: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut existing = names(folder);
            existing.remove("Cargo");
            assert_eq!(listed, existing, "{folder}");
        }
    }
}
