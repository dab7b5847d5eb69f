//! Compiling for CUDA: host compilers, C libraries, architectures, and what Python and Rust need beside it.

mod archs;
mod compilers;
mod python;
mod rust;

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[
    Check { id: "cuda.host.gcc-too-new", run: compilers::gcc },
    Check { id: "cuda.host.clang-window", run: compilers::clang },
    Check { id: "cuda.host.msvc-window", run: compilers::msvc },
    Check { id: "cuda.host.cl-missing", run: compilers::cl_missing },
    Check { id: "cuda.host.glibc", run: compilers::glibc },
    Check { id: "cuda.arch.too-new-for-toolkit", run: archs::too_new },
    Check { id: "cuda.arch.dropped-by-toolkit", run: archs::dropped },
    Check { id: "cuda.arch.not-in-table", run: archs::not_in_table },
    Check { id: "cuda.arch.native-no-gpu", run: archs::native_no_gpu },
    Check { id: "cuda.arch.needs-smi", run: rust::needs_smi },
    Check { id: "cuda.libclang-missing", run: rust::libclang_missing },
    Check { id: "cuda.torch-mismatch", run: python::torch_mismatch },
    Check { id: "conda.build-no-gpu", run: python::conda_build_no_gpu },
    Check { id: "uv.auto-wrong", run: python::uv_auto_wrong },
];
