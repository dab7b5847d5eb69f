//! Toolkits, drivers and tools of which a part is missing.

use gpubuild_core::Backend;
use gpubuild_detect::finding::{Finding, Severity};

use crate::machine::{Machine, RTX_4090, RX_6800, RX_7900};
use crate::{check, check_asked, check_recording, diagnose};

const ROCM_ARCHS: &[&str] = &["gfx1030", "gfx1100"];
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libvulkan.so";

fn with_cuda() -> Machine {
    Machine::ubuntu("22.04").nvidia(RTX_4090, "550.144.03").cuda("12.4.1")
}

#[test]
fn cuda_without_the_runtime_header_is_diagnosed() {
    let machine = with_cuda()
        .without("/usr/local/cuda-12.4/include/cuda_runtime.h")
        .without("/usr/local/cuda-12.4/include/cuda_runtime_api.h");
    let found = check("cuda.toolkit.headers-missing-runtime", &machine, &["cuda.toolkit.headers-missing"]);
    assert!(found[0].summary.contains("cuda_runtime.h"), "{}", found[0].summary);
}

#[test]
fn cuda_without_the_runtime_library_is_diagnosed() {
    let library = "/usr/local/cuda-12.4/lib64/libcudart";
    let shared_only = with_cuda().without(&format!("{library}_static.a"));
    check("cuda-shared-runtime", &shared_only, &[]);
    let machine = shared_only.without(&format!("{library}.so"));
    let found = check("cuda.toolkit.headers-missing-library", &machine, &["cuda.toolkit.headers-missing"]);
    assert!(found[0].summary.contains("no `libcudart`"), "{}", found[0].summary);
}

#[test]
fn releases_of_one_major_version_are_distinguished() {
    let machine = with_cuda()
        .cuda_at("/opt/cuda-12.8", "12.8.1")
        .path_first("/opt/cuda-12.8/bin")
        .env("CUDA_HOME", "/usr/local/cuda-12.4");
    let found = check("cuda.toolkit.multiple-one-major", &machine, &["cuda.toolkit.multiple"]);
    assert!(found[0].summary.contains("12.4") && found[0].summary.contains("12.8"), "{}", found[0].summary);
}

#[test]
fn vulkan_headers_without_the_link_are_diagnosed() {
    let machine = Machine::ubuntu("24.04").amd(RX_6800).vulkan_development().mesa("radeon");
    check("vk.library-missing", &machine.clone().without(LIBRARY), &["vk.library-missing"]);
    // Headers of another folder with the library of the distribution.
    let elsewhere = machine
        .without("/usr/include/vulkan/vulkan.h")
        .without("/usr/include/vulkan/vulkan_core.h")
        .vulkan_headers("/usr/local/include", 275);
    check("vulkan-headers-in-usr-local", &elsewhere, &[]);
}

#[test]
fn incomplete_vulkan_headers_are_diagnosed() {
    let machine = Machine::ubuntu("24.04").amd(RX_6800).vulkan_development().mesa("radeon");
    let core = machine.clone().without("/usr/include/vulkan/vulkan_core.h");
    let found = check("vk.headers-missing-core", &core, &["vk.headers-missing"]);
    assert!(found[0].summary.contains("vulkan_core.h"), "{}", found[0].summary);
    let link_only = core.without("/usr/include/vulkan/vulkan.h");
    check_asked("vk.sdk-missing-link-only", &link_only, Some(&[Backend::Vulkan]), &["vk.sdk-missing"]);
}

#[test]
fn rocm_without_device_libraries_is_diagnosed() {
    let machine = Machine::debian("12").amd(RX_7900).rocm("6.2.0", ROCM_ARCHS);
    let without = machine.without("/opt/rocm-6.2.0/amdgcn");
    check("rocm.device-libs-missing", &without, &["rocm.device-libs-missing"]);
    let elsewhere = without.opaque("/opt/rocm-6.2.0/lib/llvm/amdgcn/bitcode/ockl.bc");
    check("rocm-device-libraries-of-llvm", &elsewhere, &[]);
}

#[test]
fn missing_node_of_the_card_is_diagnosed() {
    let machine =
        with_cuda().without("/dev/nvidia0").without("/usr/bin/nvidia-modprobe").without_probe("cuda");
    let found = check("nv.device-nodes-missing-card", &machine, &["nv.device-nodes-missing"]);
    assert!(found[0].summary.contains("/dev/nvidia0"), "{}", found[0].summary);
    // The only GPU of a container has the number that it has on the host.
    let second = machine.device_of("/dev/nvidia3", 0, "");
    check("nvidia-node-of-the-fourth-card", &second, &[]);
}

/// The finding about a tool that gpubuild fetches, which must be information.
fn note(name: &str, machine: &Machine, id: &str) -> Finding {
    check_recording(name, machine);
    let found = diagnose(machine, None).into_iter().find(|one| one.id == *id);
    let found = found.unwrap_or_else(|| panic!("{name}: no {id}"));
    assert_eq!(found.severity, Severity::Info);
    assert!(found.summary.contains("gpubuild fetches"), "{}", found.summary);
    found
}

#[test]
fn missing_build_tools_are_information() {
    let machine = Machine::ubuntu("24.04").nvidia(RTX_4090, "550.144.03").cuda("12.4.1");
    let without_cmake = machine.clone().without("/usr/bin/cmake");
    assert_eq!(
        note("cmake.missing", &without_cmake, "cmake.missing").remedy.commands,
        ["sudo apt install cmake"]
    );
    let old = machine.clone().without("/usr/share/cmake-3.28").folder("/usr/share/cmake-3.16/Modules");
    let found = note("cmake.outdated", &old, "cmake.outdated");
    assert!(found.summary.contains("3.16"), "{}", found.summary);
    let tools = machine.clone().without("/usr/bin/ninja");
    note("cmake.build-tool-missing", &tools, "cmake.build-tool-missing");
    for complete in
        [machine, tools.program("/usr/bin/make"), Machine::ubuntu("22.04").without("/usr/bin/cmake")]
    {
        let found = diagnose(&complete, None);
        assert!(!found.iter().any(|one| one.id.starts_with("cmake.")), "{found:#?}");
    }
}

#[test]
fn software_drivers_without_a_gpu_are_information() {
    let machine = Machine::debian("12").vulkan_development().mesa("lvp");
    check("software-vulkan-without-gpu", &machine, &[]);
    for asked in [None, Some(&[Backend::Vulkan][..])] {
        let found = diagnose(&machine, asked);
        let software = found.iter().find(|one| one.id == "vk.software-only").unwrap();
        assert_eq!(software.severity, Severity::Info, "{software:#?}");
        assert!(software.remedy.text.contains("passed through"), "{software:#?}");
    }
}
