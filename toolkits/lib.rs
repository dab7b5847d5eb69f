//! What gpubuild knows of toolkits, GPUs, build systems and projects, as TOML that is parsed when the crate is
//! compiled: `(name, bytes)` of the files in this folder, for `gpubuild_toml::from_bytes`.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable. A new file has to be named here: a test
//! fails until it is.

/// `(name, bytes)` of files in a folder.
macro_rules! files {
    ($folder:literal, $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $folder, $name, ".bin")).as_slice())),*]
    };
}

/// The bytes of a table.
macro_rules! table {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/tables/", $name, ".bin"))
    };
}

/// A toolkit or a tool each, by its id.
pub const DESCRIPTIONS: &[(&str, &[u8])] = files!("",
    "ccache" "clang" "cmake" "cuda" "distcc" "dpcpp-runtime" "gcc" "glslc" "icecream" "metal" "msvc" "ninja" "oneapi" "opencl"
    "python" "rocm" "sccache" "uv" "vulkan"
);

/// The wheels of a release of a toolkit each.
pub const LOCKS: &[(&str, &[u8])] = files!("locks/", "cuda-13.0" "cuda-13.5");

/// How build systems look for a toolkit, step by step.
pub const RESOLVERS: &[(&str, &[u8])] = files!("resolvers/", "cuda" "rocm" "vulkan" "oneapi");

/// Names of the options and targets of known CMake projects.
pub const PROFILES: &[(&str, &[u8])] =
    files!("profiles/", "cmake" "ggml" "gk" "llama" "stable-diffusion" "whisper");

/// Headers that profiles put before those of old toolkits.
pub const SHIMS: &[(&str, &str)] =
    &[("vulkan-layer-settings.hpp", include_str!("profiles/shims/vulkan-layer-settings.hpp"))];

/// Tables about one subject each.
pub mod tables {
    /// On which cards of NVIDIA's code runs.
    pub const CUDA_ARCHS: &[u8] = table!("cuda-archs");
    /// The functions of NVIDIA's driver by the release that brought them.
    pub const CUDA_FUNCTIONS: &[u8] = table!("cuda-functions");
    /// What distributions call a package.
    pub const DISTRIBUTIONS: &[u8] = table!("distributions");
    /// GPUs by their numbers and names.
    pub const GPUS: &[u8] = table!("gpus");
    /// Instruction sets, levels and processors.
    pub const ISA: &[u8] = table!("isa");
    /// The libclang that is fetched on machines without one.
    pub const LIBCLANG: &[u8] = table!("libclang");
    /// What the names of shared libraries tell.
    pub const LIBRARIES: &[u8] = table!("libraries");
    /// Which builds of PyTorch, CuPy and others go with which driver.
    pub const PACKAGES: &[u8] = table!("packages");
    /// How the wheels of a toolkit become an installation.
    pub const PROVISION: &[u8] = table!("provision");
    /// Which wheel holds which run-time library.
    pub const RUNTIME_WHEELS: &[u8] = table!("runtime-wheels");
    /// What the build store looks at.
    pub const STORE: &[u8] = table!("store");
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
    fn every_file_is_named() {
        for (folder, files) in [
            ("", super::DESCRIPTIONS),
            ("locks", super::LOCKS),
            ("resolvers", super::RESOLVERS),
            ("profiles", super::PROFILES),
        ] {
            let listed: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut there = names(folder);
            there.remove("Cargo");
            assert_eq!(listed, there, "{folder}");
        }
    }
}
