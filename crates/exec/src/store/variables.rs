//! Environment variables that affect compilers and CMake.

use gpubuild_host::Environment;

/// Names of variables that affect compilers and CMake.
const NAMES: [&str; 31] = [
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
    "PKG_CONFIG_PATH",
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

/// Prefixes of further names.
const PREFIXES: [&str; 2] = ["CMAKE_", "NVCC_"];
