//! Environment variables that affect compilers and CMake.

use gpubuild_core::backend::Backend;
use gpubuild_host::Environment;
use gpubuild_plan::plan::PlannedTree;

/// Names of variables that affect compilers and CMake.
const NAMES: [&str; 40] = [
    "CC",
    "CXX",
    "CUDACXX",
    "CUDAHOSTCXX",
    "HIPCXX",
    "OBJC",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "CUDAFLAGS",
    "HIPFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "CUDA_PATH",
    "CUDA_HOME",
    "ROCM_PATH",
    "HIP_PATH",
    "VULKAN_SDK",
    "PKG_CONFIG",
    "PKG_CONFIG_PATH",
    "PKG_CONFIG_LIBDIR",
    "PKG_CONFIG_SYSROOT_DIR",
    "ASM",
    "ASMFLAGS",
    "COMPILER_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "LD_RUN_PATH",
    "SOURCE_DATE_EPOCH",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
    "INCLUDE",
    "LIB",
    "CMAKE_PREFIX_PATH",
    "CMAKE_TOOLCHAIN_FILE",
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_CUDA_COMPILER_LAUNCHER",
];

/// Returns the variables of an environment that affect compilers and CMake.
#[must_use]
pub fn build_variables(env: &Environment) -> Vec<(&str, &str)> {
    env.select(&NAMES, &PREFIXES)
}

/// Returns those that affect a tree: variables of nvcc do not if the tree's options turn CUDA off.
#[must_use]
pub fn tree_variables<'e>(env: &'e Environment, tree: &PlannedTree) -> Vec<(&'e str, &'e str)> {
    let mut found = build_variables(env);
    if !may_use_cuda(tree) {
        let is_of_nvcc = |name: &str| name.starts_with(NVCC) || OF_NVCC.contains(&name);
        found.retain(|(name, _)| !is_of_nvcc(name));
    }
    found
}

fn may_use_cuda(tree: &PlannedTree) -> bool {
    let mut options = tree.cache.iter();
    tree.backends.contains(&Backend::Cuda)
        || !options.any(|(name, value)| name.ends_with("_CUDA") && value == "OFF")
}

/// Variables that only nvcc and CMake's language CUDA read, beside those with [`NVCC`].
const OF_NVCC: [&str; 3] = ["CUDACXX", "CUDAFLAGS", "CUDAHOSTCXX"];

/// Prefix of nvcc's own variables.
const NVCC: &str = "NVCC_";

/// Prefixes of further names.
const PREFIXES: [&str; 2] = ["CMAKE_", NVCC];
