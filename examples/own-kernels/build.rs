//! Compiles the crate's kernels: a library with CMake, C++ with cc, and CUDA with cc if a toolkit is available.

use gpubuild_build::Backend;
use gpubuild_build::Language;

fn main() {
    // Backends that cannot be built here are skipped, with a warning that says why.
    let plan = gpubuild_build::Build::new().backends(["cpu", "cuda"]).allow_missing().plan();
    let plan = plan.unwrap_or_else(|error| panic!("{}", error.full_message()));

    let mut sum = cmake::Config::new("native");
    let folder = plan.apply_to_cmake(Backend::Cpu, &mut sum).build_target("sum").build();
    println!("cargo::rustc-link-search=native={}", folder.join("build").display());
    println!("cargo::rustc-link-lib=static=sum");

    let mut cpu = cc::Build::new();
    plan.apply_to_cc(Backend::Cpu, Language::Cxx, &mut cpu).file("kernels/scale.cpp").compile("scale");

    if plan.has(Backend::Cuda) {
        let mut cuda = cc::Build::new();
        plan.apply_to_cc(Backend::Cuda, Language::Cuda, &mut cuda).file("kernels/scale.cu");
        cuda.compile("scale_cuda");
    }
    let why = plan.why_not(Backend::Cuda).unwrap_or_default();
    println!("cargo::rustc-env=OWN_KERNELS_WITHOUT_CUDA={why}");
}
