//! Selects the environment variables that are recorded: those that are relevant for diagnosis, except variables whose names
//! mark them as secret. Secrets inside values are redacted later.

use gpubuild_core::secret;

use crate::Os;

/// Names of variables that affect GPUs, toolkits, compilers or the system.
const VARIABLES: [&str; 57] = [
    "APPDATA",
    "APPTAINER_CONTAINER",
    "APPTAINER_NAME",
    "AR",
    "CC",
    "CFLAGS",
    "CI",
    "CL",
    "CPATH",
    "CXX",
    "CXXFLAGS",
    "DEVELOPER_DIR",
    "GITHUB_ACTIONS",
    "HOME",
    "INCLUDE",
    "JETSON_JETPACK",
    "KUBERNETES_SERVICE_HOST",
    "LD",
    "LDFLAGS",
    "LIB",
    "LIBPATH",
    "LIBRARY_PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LIBCLANG_PATH",
    "LLVM_HOME",
    "LLVM_PATH",
    "LOCALAPPDATA",
    "MACOSX_DEPLOYMENT_TARGET",
    "MSYSTEM",
    "NUMBER_OF_PROCESSORS",
    "PATH",
    "PATHEXT",
    "PKG_CONFIG_PATH",
    "PROCESSOR_ARCHITECTURE",
    "PROCESSOR_IDENTIFIER",
    "ProgramData",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "ProgramW6432",
    "PYTHONPATH",
    "PYTORCH_ROCM_ARCH",
    "SDKROOT",
    "SINGULARITY_CONTAINER",
    "SINGULARITY_NAME",
    "SystemDrive",
    "SystemRoot",
    "TBBROOT",
    "TORCH_CUDA_ARCH_LIST",
    "USERPROFILE",
    "UV_AMD_GPU_ARCHITECTURE",
    "UV_CUDA_DRIVER_VERSION",
    "UV_TORCH_BACKEND",
    "VIRTUAL_ENV",
    "WSL_DISTRO_NAME",
    "container",
    "windir",
];
/// Prefixes of such names.
const PREFIXES: [&str; 37] = [
    "AMD_",
    "CCACHE_",
    "CMAKE_",
    "CMPLR_ROOT",
    "CONDA_",
    "CUDA",
    "CUDNN",
    "DYLD_",
    "GALLIUM_",
    "GGML_",
    "GK_",
    "GPUBUILD_",
    "GPU_",
    "HCC_",
    "HIP",
    "HSA_",
    "ICPP_",
    "LIBGL_",
    "LP_",
    "MESA_",
    "MTL_",
    "NCCL_",
    "NINJA_",
    "NVCC",
    "NVIDIA_",
    "OCL_",
    "ONEAPI_",
    "OPENCL",
    "ROCM",
    "ROCR_",
    "SCCACHE_",
    "SYCL_",
    "VC",
    "VK_",
    "VS",
    "VULKAN_",
    "XDG_",
];

/// Whether a variable is recorded. `more` are the names of additional variables to record.
pub(super) fn is_kept(os: Os, name: &str, more: &[String]) -> bool {
    let same = |left: &str, right: &str| match os {
        Os::Windows => left.eq_ignore_ascii_case(right),
        Os::Linux | Os::Macos => left == right,
    };
    let upper = name.to_uppercase();
    if secret::is_secret_name(name) {
        return false;
    }
    VARIABLES.iter().any(|known| same(known, name))
        || more.iter().any(|known| same(known, name))
        || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}
