//! Compiling for CUDA: host compilers, C libraries, architectures, and the requirements of Python and Rust packages.

mod archs;
mod compilers;
mod python;
mod rust;

use gpubuild_detect::id;

use super::DoctorCheck;

pub(super) use compilers::host_compiler;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("cuda.host.gcc-too-new"), run: compilers::gcc },
    DoctorCheck { id: id!("cuda.host.clang-window"), run: compilers::clang },
    DoctorCheck { id: id!("cuda.host.msvc-window"), run: compilers::msvc },
    DoctorCheck { id: id!("cuda.host.cl-missing"), run: compilers::cl_missing },
    DoctorCheck { id: id!("cuda.host.glibc"), run: compilers::glibc },
    DoctorCheck { id: id!("cuda.arch.too-new-for-toolkit"), run: archs::too_new },
    DoctorCheck { id: id!("cuda.arch.dropped-by-toolkit"), run: archs::dropped },
    DoctorCheck { id: id!("cuda.arch.not-in-table"), run: archs::not_in_table },
    DoctorCheck { id: id!("cuda.arch.native-no-gpu"), run: archs::native_no_gpu },
    DoctorCheck { id: id!("cuda.arch.needs-smi"), run: rust::needs_smi },
    DoctorCheck { id: id!("cuda.libclang-missing"), run: rust::libclang_missing },
    DoctorCheck { id: id!("cuda.torch-mismatch"), run: python::torch_mismatch },
    DoctorCheck { id: id!("conda.build-no-gpu"), run: python::conda_build_no_gpu },
    DoctorCheck { id: id!("uv.auto-wrong"), run: python::uv_auto_wrong },
];
