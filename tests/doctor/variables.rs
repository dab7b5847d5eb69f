//! Variables that name what is not there.

use gpubuild_detect::finding::Severity;

use crate::machine::{Machine, RTX_4090};
use crate::{check, check_asked, healthy};
use gpubuild_core::Backend;

fn workstation() -> Machine {
    Machine::ubuntu("22.04").nvidia(RTX_4090, "550.144.03").cuda("12.4.1")
}

#[test]
fn compilers_that_do_not_exist_are_errors() {
    // nicolasavru/ppf-registration-spatial-hashing#2 (g++-5 of an older Ubuntu), NVIDIA/cutlass#1269 (CUDACXX).
    for (name, variable, value, commands) in [
        ("env.cc-missing", "CC", "gcc-9", "export CC=/usr/bin/gcc"),
        ("env.ccbin-missing", "NVCC_CCBIN", "/usr/bin/g++-9", "export NVCC_CCBIN=/usr/bin/g++"),
        (
            "env.cudahostcxx-missing",
            "CUDAHOSTCXX",
            "/opt/rh/gcc-toolset-9/root/usr/bin/g++",
            "export CUDAHOSTCXX=/usr/bin/g++",
        ),
    ] {
        let findings = check(name, &workstation().env(variable, value), &["env.program-missing"]);
        assert_eq!(findings[0].severity, Severity::Error, "{name}");
        assert_eq!(findings[0].remedy.commands, [commands], "{name}");
        assert!(findings[0].summary.contains(value), "{}", findings[0].summary);
    }
}

#[test]
fn several_wrong_variables_are_one_finding() {
    let machine =
        workstation().env("CC", "clang-19").env("CXX", "clang++-19").env("CUDAHOSTCXX", "clang++-19");
    let findings = check("env.clang-missing", &machine, &["env.program-missing"]);
    assert_eq!(findings[0].evidence.len(), 3);
    assert_eq!(findings[0].backend, None);
    assert_eq!(findings[0].remedy.commands.len(), 3);
}

#[test]
fn paths_that_do_not_exist_are_warnings() {
    let layers = workstation()
        .vulkan_development()
        .env("VK_LAYER_PATH", "/home/user/vulkan/1.3.204/etc/vulkan/explicit_layer.d");
    let findings = check_asked("env.layer-path", &layers, Some(&[Backend::Vulkan]), &["env.path-missing"]);
    assert_eq!(findings[0].remedy.commands, ["unset VK_LAYER_PATH"]);
    let toolchain = workstation().env("CMAKE_TOOLCHAIN_FILE", "/opt/vcpkg/scripts/buildsystems/vcpkg.cmake");
    let findings = check("env.toolchain-file", &toolchain, &["env.path-missing"]);
    assert_eq!(findings[0].severity, Severity::Error);
}

#[test]
fn invalid_architectures_are_errors() {
    let findings =
        check("env.cudaarchs-invalid", &workstation().env("CUDAARCHS", "ada"), &["cuda.arch.invalid"]);
    assert_eq!(findings[0].remedy.commands, ["unset CUDAARCHS"]);
    let torch = |list: &str| workstation().env("TORCH_CUDA_ARCH_LIST", list);
    let findings = check("env.torch-archs-invalid", &torch("8.9;Amper"), &["cuda.arch.invalid"]);
    assert!(findings[0].summary.contains("`Amper`"), "{}", findings[0].summary);
    assert_eq!(findings[0].remedy.commands, ["unset TORCH_CUDA_ARCH_LIST"]);
}

#[test]
fn launchers_options_and_relative_paths_are_not_faults() {
    let machine = workstation()
        .program("/usr/bin/ccache")
        .env("CC", "ccache gcc -m64")
        .env("CXX", "g++")
        .env("CUDAARCHS", "89-real")
        .env("CMAKE_TOOLCHAIN_FILE", "cmake/toolchain.cmake");
    healthy("healthy-ubuntu-22.04-compiler-variables", &machine);
}
