//! The variables of the environment that change what compilers and CMake make.

use gpubuild_host::Environment;

/// Variables that compilers and CMake listen to.
const LISTENED: [&str; 31] = [
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

/// The variables of an environment that compilers and CMake listen to.
#[must_use]
pub fn listened(env: &Environment) -> Vec<(&str, &str)> {
    env.select(&LISTENED, &STARTS)
}

/// How the names of others begin.
const STARTS: [&str; 2] = ["CMAKE_", "NVCC_"];
