//! Environment variables whose values are not UTF-8.

use gpubuild_detect::id;
use gpubuild_host::HostInfo;

use super::Failure;

/// Variables with paths that gpubuild uses, beside its own ones. Without them, it would use other folders or other tools.
const PATH_VARIABLES: [&str; 30] = [
    "APPDATA",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CC",
    "CMAKE_PREFIX_PATH",
    "CMAKE_TOOLCHAIN_FILE",
    "CONDA_PREFIX",
    "CUDACXX",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CXX",
    "DOCKER_CONFIG",
    "HIPCXX",
    "HIP_PATH",
    "HOME",
    "LOCALAPPDATA",
    "NETRC",
    "NVCC_CCBIN",
    "ONEAPI_ROOT",
    "REGISTRY_AUTH_FILE",
    "ROCM_PATH",
    "TMPDIR",
    "USERPROFILE",
    "VIRTUAL_ENV",
    "VULKAN_SDK",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Refuses a variable that gpubuild uses and whose value is not UTF-8.
pub(super) fn check(host: &dyn HostInfo) -> Result<(), Failure> {
    let is_used = |name: &&String| name.starts_with("GPUBUILD_") || PATH_VARIABLES.contains(&name.as_str());
    match host.env().not_utf8().iter().find(is_used) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::usage(id!("usage.variable-not-utf8"), format!("the value of {name} is not UTF-8"))
                .hint("set it to a path in UTF-8, or unset it"))
        }
    }
}
