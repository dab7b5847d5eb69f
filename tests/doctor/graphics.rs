//! Vulkan, Metal, OpenCL and SYCL: one host per fault, healthy hosts, and hosts with two faults.

use gpubuild_core::Backend;
use gpubuild_detect::finding::Finding;

use super::machine::{
    ARC_A770, ARC_B580, H200, IRIS_XE, L4, MI210, Machine, RENDER, ROCM_6_2, RTX_3060, RTX_4070, RTX_4090,
    RX_6800, RX_7600, RX_7900, UHD_630, VIDEO,
};
use super::{check, check_asked, diagnose, healthy};

fn first(findings: &[Finding]) -> &Finding {
    findings.first().expect("a finding")
}

fn folded(findings: &[Finding]) -> Vec<&str> {
    first(findings).consequences.iter().map(|one| one.id.as_str()).collect()
}

/// An Arc GPU with everything that SYCL needs.
fn arc(machine: Machine) -> Machine {
    machine.intel(ARC_A770, "0000:03:00.0", "xe").level_zero_loader().level_zero_driver()
}

#[test]
fn healthy_graphics_hosts_have_no_findings() {
    // A compute server: libraries of Vulkan and OpenCL were installed as dependencies.
    let server = Machine::ubuntu("22.04").nvidia(H200, "570.86.15").cuda("12.8.0");
    healthy(
        "healthy-ubuntu-22.04-h200",
        &server.clone().user(1000, &[1000]).device_of("/dev/dri/renderD128", RENDER, "permission-denied"),
    );
    let lib = "/usr/lib/x86_64-linux-gnu";
    let headless =
        server.vulkan_loader().mesa("lvp").opencl_loader().without("/usr/share/vulkan/icd.d/nvidia_icd.json");
    healthy("healthy-ubuntu-22.04-h200-headless", &headless.without(&format!("{lib}/libGLX_nvidia.so.0")));
    // A laptop with only Intel graphics.
    healthy(
        "healthy-fedora-42-iris",
        &Machine::fedora("42").intel(IRIS_XE, "0000:00:02.0", "i915").user(1000, &[1000]),
    );
    healthy(
        "healthy-debian-12-uhd630-ssh",
        &Machine::debian("12").intel(UHD_630, "0000:00:02.0", "i915").user(1000, &[1000]).device_of(
            "/dev/dri/renderD128",
            RENDER,
            "permission-denied",
        ),
    );
    // A virtual machine with only llvmpipe.
    healthy("healthy-debian-12-llvmpipe", &Machine::debian("12").vulkan_development().mesa("lvp"));
    // Macs.
    healthy("healthy-macos-15-xcode", &Machine::mac("15.1").xcode("16.1", "15.1").homebrew_tools());
    let asset = "/private/var/run/com.apple.security.cryptexd/mnt/com.apple.MobileAsset.MetalToolchain-v17.1.54.0.abc123/Metal.xctoolchain/usr/bin/metal";
    healthy(
        "healthy-macos-26-xcode",
        &Machine::mac("26.0").xcode("26.0.1", "26.0").program(asset).homebrew_tools(),
    );
    // oneAPI, sourced.
    healthy(
        "healthy-ubuntu-24.04-arc",
        &arc(Machine::ubuntu("24.04")).oneapi("2025.2").oneapi_sourced("2025.2"),
    );
    // A Vulkan workstation with an SDK that is newer than the loader.
    let sdk = "/home/user/VulkanSDK/1.4.313.0/x86_64";
    let workstation = Machine::ubuntu("24.04")
        .amd(RX_7600)
        .vulkan_loader()
        .mesa("radeon")
        .vulkan_headers(&format!("{sdk}/include"), 313)
        .program(&format!("{sdk}/bin/glslc"))
        .env("VULKAN_SDK", sdk);
    healthy("healthy-ubuntu-24.04-vulkan-sdk", &workstation);
    // WSL: Mesa has no driver for the GPU there, CUDA has one.
    let wsl = Machine::ubuntu("24.04")
        .wsl()
        .opaque("/usr/lib/wsl/lib/libcuda.so.1")
        .opaque("/usr/lib/wsl/lib/libnvidia-ml.so.1")
        .cuda("12.6.3")
        .nvidia_answers(RTX_4070, "560.94")
        .vulkan_loader()
        .mesa("lvp");
    healthy("healthy-wsl-cuda-llvmpipe", &wsl);
}

#[test]
fn wsl_without_dozen_is_diagnosed() {
    let machine = Machine::arch_linux().wsl().vulkan_development();
    let findings = check("vk.icd-missing-wsl", &machine, &["vk.icd-missing"]);
    let found = first(&findings);
    assert!(found.summary.contains("dzn"), "{}", found.summary);
    assert_eq!(found.remedy.commands, ["sudo pacman -S vulkan-dzn"]);
}

#[test]
fn missing_shader_compiler_is_diagnosed() {
    let machine =
        |base: Machine| base.amd(RX_7600).vulkan_development().mesa("radeon").without("/usr/bin/glslc");
    let findings = check("vk.glslc-missing", &machine(Machine::ubuntu("24.04")), &["vk.glslc-missing"]);
    let remedy = &first(&findings).remedy;
    assert_eq!(remedy.commands, ["gpubuild toolkit install vulkan"]);
    assert!(remedy.text.ends_with("or for all users with `sudo apt install glslc`"), "{}", remedy.text);
    assert!(remedy.needs.is_empty(), "{:?}", remedy.needs);
    // Ubuntu 22.04 has no package of it.
    let findings = check("vk.glslc-missing-jammy", &machine(Machine::ubuntu("22.04")), &["vk.glslc-missing"]);
    assert!(first(&findings).remedy.commands.last().unwrap().ends_with("sudo apt install shaderc"));
    let findings = check("vk.glslc-missing-arch", &machine(Machine::arch_linux()), &["vk.glslc-missing"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo pacman -S shaderc"]);
    // Without any Vulkan package it is a consequence.
    let bare = Machine::fedora("41").nvidia(RTX_4090, "560.35.03").cuda("12.6.3");
    let findings = check_asked(
        "asked-vulkan-bare",
        &bare,
        Some(&[Backend::Vulkan]),
        &["vk.sdk-missing", "vk.loader-missing"],
    );
    assert_eq!(folded(&findings), ["vk.glslc-missing"]);
    let evidence: Vec<&str> = first(&findings).evidence.iter().map(|one| one.place.as_str()).collect();
    for place in ["VULKAN_SDK", "/usr/include/vulkan/vulkan.h", "/home/user/VulkanSDK/*/x86_64"] {
        assert!(evidence.contains(&place), "{evidence:?}");
    }
}

#[test]
fn wrong_vulkan_sdk_variable_is_diagnosed() {
    let sdk = "/home/user/VulkanSDK/1.3.296.0/x86_64";
    let machine = |base: Machine| {
        base.amd(RX_6800)
            .vulkan_development()
            .mesa("radeon")
            .vulkan_headers(&format!("{sdk}/include"), 296)
            .program(&format!("{sdk}/bin/glslc"))
    };
    let parent = machine(Machine::ubuntu("24.04")).env("VULKAN_SDK", "/home/user/VulkanSDK/1.3.296.0");
    let findings = check("vk.sdk-path-wrong", &parent, &["vk.sdk-path-wrong"]);
    assert_eq!(first(&findings).remedy.commands, [format!("export VULKAN_SDK={sdk}")]);
    let removed = machine(Machine::debian("12")).env("VULKAN_SDK", "/home/user/VulkanSDK/1.3.250.0/x86_64");
    let findings = check("vk.sdk-path-wrong-removed", &removed, &["vk.sdk-path-wrong"]);
    assert_eq!(first(&findings).remedy.commands, [format!("export VULKAN_SDK={sdk}")]);
    let windows = Machine::windows("22631")
        .visual_studio("14.43.34808")
        .nvidia_windows(RTX_4070, "572.83")
        .vulkan_sdk_windows("1.4.309.0")
        .env("VULKAN_SDK", r"C:\VulkanSDK\1.3.268.0");
    let findings =
        check_asked("vk.sdk-path-wrong-windows", &windows, Some(&[Backend::Vulkan]), &["vk.sdk-path-wrong"]);
    assert_eq!(first(&findings).remedy.commands, [r"setx VULKAN_SDK C:\VulkanSDK\1.4.309.0"]);
}

#[test]
fn vulkan_header_mismatch_is_diagnosed() {
    let old = "/home/user/VulkanSDK/1.2.131.2/x86_64";
    let machine = Machine::ubuntu("24.04")
        .amd(RX_7900)
        .vulkan_development()
        .mesa("radeon")
        .file(&format!("{old}/include/vulkan/vulkan.h"), "#include \"vulkan_core.h\"\n")
        .file(
            &format!("{old}/include/vulkan/vulkan_core.h"),
            "#define VK_HEADER_VERSION 131\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_VERSION(1, 2, VK_HEADER_VERSION)\n",
        )
        .env("VULKAN_SDK", old);
    check("vk.header-mismatch", &machine, &["vk.header-mismatch"]);
    let cpp = Machine::fedora("41")
        .amd(RX_7600)
        .vulkan_development()
        .mesa("radeon")
        .file("/usr/local/include/vulkan/vulkan.hpp", "#include <vulkan/vulkan.h>\nstatic_assert( VK_HEADER_VERSION == 309, \"Wrong VK_HEADER_VERSION!\" );\n");
    let findings = check("vk.header-mismatch-cpp", &cpp, &["vk.header-mismatch"]);
    assert!(first(&findings).summary.contains("309") && first(&findings).summary.contains("1.3.275"));
}

#[test]
fn vulkan_loader_without_driver_is_diagnosed() {
    let machine = Machine::opensuse("tumbleweed").amd(RX_7900).vulkan_development();
    let findings = check("vk.icd-missing", &machine, &["vk.icd-missing"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo zypper install libvulkan_radeon libvulkan_intel"]);
    let broken = Machine::ubuntu("24.04")
        .amd(RX_7600)
        .vulkan_development()
        .mesa("radeon")
        .without("/usr/lib/x86_64-linux-gnu/libvulkan_radeon.so");
    let findings = check("vk.icd-missing-library", &broken, &["vk.icd-missing"]);
    assert!(first(&findings).summary.contains("libvulkan_radeon.so"), "{}", first(&findings).summary);
    let variable = Machine::arch_linux()
        .amd(RX_6800)
        .vulkan_development()
        .mesa("radeon")
        .env("VK_ICD_FILENAMES", "/usr/share/vulkan/icd.d/amd_icd64.json");
    let findings = check("vk.icd-missing-variable", &variable, &["vk.icd-missing"]);
    assert_eq!(first(&findings).remedy.commands[0], "unset VK_ICD_FILENAMES");
}

#[test]
fn software_only_vulkan_is_diagnosed() {
    let machine =
        Machine::ubuntu("24.04").intel(ARC_B580, "0000:03:00.0", "xe").vulkan_development().mesa("lvp");
    check("vk.software-only", &machine, &["vk.software-only"]);
    let variable = Machine::debian("13")
        .amd(RX_7600)
        .vulkan_development()
        .mesa("radeon")
        .mesa("lvp")
        .env("VK_DRIVER_FILES", "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json");
    let findings = check("vk.software-only-variable", &variable, &["vk.software-only"]);
    assert_eq!(first(&findings).remedy.commands[0], "unset VK_DRIVER_FILES");
}

#[test]
fn vulkan_headers_without_loader_are_diagnosed() {
    let lib = "/usr/lib64";
    let machine = Machine::fedora("40")
        .amd(RX_7900)
        .vulkan_development()
        .mesa("radeon")
        .without(&format!("{lib}/libvulkan.so.1"));
    let findings = check(
        "vk.loader-missing",
        &machine.without(&format!("{lib}/libvulkan.so.1.3.275")),
        &["vk.loader-missing"],
    );
    assert_eq!(first(&findings).remedy.commands, ["sudo dnf install vulkan-loader"]);
}

#[test]
fn mac_without_metal_compiler_is_diagnosed() {
    check(
        "metal.clt-only",
        &Machine::mac("14.5").command_line_tools("14.4").homebrew_tools(),
        &["metal.clt-only"],
    );
    let both = Machine::mac("15.1").xcode("16.1", "15.1").command_line_tools("15.1").homebrew_tools();
    let findings = check("metal.clt-only-not-selected", &both, &["metal.clt-only"]);
    assert_eq!(
        first(&findings).remedy.commands,
        ["sudo xcode-select -s /Applications/Xcode.app/Contents/Developer"]
    );
    let xcode = Machine::mac("26.1").xcode_without_metal("26.1", "26.1").homebrew_tools();
    let findings = check("metal.toolchain-asset", &xcode, &["metal.toolchain-asset"]);
    assert_eq!(first(&findings).remedy.commands, ["xcodebuild -downloadComponent MetalToolchain"]);
    // Xcode 26 has a stub `metal` that only reports what is missing.
    let stub = Machine::mac("26.0").xcode("26.0", "26.0").homebrew_tools();
    check("metal.toolchain-asset-stub", &stub, &["metal.toolchain-asset"]);
}

#[test]
fn opencl_without_driver_is_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .intel(IRIS_XE, "0000:00:02.0", "i915")
        .opencl_development()
        .program("/usr/bin/clinfo")
        .folder("/etc/OpenCL/vendors");
    let findings = check("ocl.no-icd", &machine, &["ocl.no-icd"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo apt install intel-opencl-icd"]);
    let broken = Machine::debian("12")
        .amd(RX_6800)
        .opencl_development()
        .file("/etc/OpenCL/vendors/amdocl64.icd", "/opt/amdgpu-pro/lib/x86_64-linux-gnu/libamdocl64.so\n");
    let findings = check("ocl.no-icd-library", &broken, &["ocl.no-icd"]);
    assert!(first(&findings).summary.contains("libamdocl64.so"));
    let variable =
        arc(Machine::fedora("41")).opencl_development().env("OCL_ICD_VENDORS", "/home/user/vendors");
    check("ocl.no-icd-variable", &variable, &["ocl.no-icd"]);
    let library = "/usr/local/nvidia/lib64/libnvidia-opencl.so.1";
    let in_pod = Machine::ubuntu("24.04")
        .nvidia(RTX_3060, "550.144.03")
        .opencl_development()
        .without("/etc/OpenCL/vendors/nvidia.icd")
        .file("/etc/OpenCL/vendors/pocl.icd", "libpocl.so.2\n")
        .opaque("/usr/lib/x86_64-linux-gnu/libpocl.so.2")
        .opaque(library);
    check_asked("ocl.software-only-in-pod", &in_pod, Some(&[Backend::Opencl]), &["ocl.software-only"]);
    let named = in_pod.env("OCL_ICD_FILENAMES", library);
    check_asked("ocl.driver-named-by-variable", &named, Some(&[Backend::Opencl]), &[]);
    let conda = "/home/user/miniforge3/envs/cl";
    let in_conda = Machine::ubuntu("24.04")
        .nvidia(RTX_3060, "550.144.03")
        .cuda("12.4.1")
        .opencl_loader()
        .env("CONDA_PREFIX", conda)
        .opaque(&format!("{conda}/lib/libOpenCL.so.1"))
        .folder(&format!("{conda}/etc/OpenCL/vendors"))
        .file(&format!("{conda}/lib/python3.12/site-packages/pyopencl/__init__.py"), "");
    let findings = check("ocl.no-icd-conda", &in_conda, &["ocl.no-icd"]);
    assert_eq!(first(&findings).remedy.commands, ["conda install -c conda-forge ocl-icd-system"]);
}

#[test]
fn level_zero_without_driver_is_diagnosed() {
    let machine = |base: Machine| {
        base.intel(ARC_A770, "0000:03:00.0", "xe")
            .level_zero_loader()
            .oneapi("2025.1")
            .oneapi_sourced("2025.1")
    };
    let findings =
        check("sycl.level-zero-missing", &machine(Machine::ubuntu("24.04")), &["sycl.level-zero-missing"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo apt install libze-intel-gpu1 intel-opencl-icd"]);
    let findings = check(
        "sycl.level-zero-missing-rocky",
        &machine(Machine::rhel_like("rocky", "9")),
        &["sycl.level-zero-missing"],
    );
    assert_eq!(first(&findings).remedy.commands, ["sudo dnf install intel-level-zero"]);
    let old = Machine::ubuntu("24.04")
        .intel(UHD_630, "0000:00:02.0", "i915")
        .level_zero_loader()
        .oneapi("2025.1")
        .oneapi_sourced("2025.1");
    let findings = check("sycl.level-zero-missing-legacy", &old, &["sycl.level-zero-missing"]);
    // Ubuntu 24.04 has release 23.43, which supports it.
    assert_eq!(first(&findings).remedy.commands, ["sudo apt install libze-intel-gpu1 intel-opencl-icd"]);
    let newer = old.level_zero_driver().opaque("/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1.6.33578");
    let findings = check("sycl.level-zero-left-out", &newer, &["sycl.level-zero-missing"]);
    let remedy = &first(&findings).remedy;
    assert!(remedy.commands.iter().any(|one| one.contains("24.35.30872.36")), "{:?}", remedy.commands);
}

#[test]
fn unsourced_oneapi_is_diagnosed() {
    let findings = check(
        "sycl.env-not-sourced",
        &arc(Machine::opensuse("15.6")).oneapi("2025.2"),
        &["sycl.env-not-sourced"],
    );
    assert_eq!(first(&findings).remedy.commands, ["source /opt/intel/oneapi/setvars.sh"]);
}

#[test]
fn render_group_permission_is_diagnosed() {
    let machine = arc(Machine::fedora("42"))
        .oneapi("2025.2")
        .oneapi_sourced("2025.2")
        .vulkan_loader()
        .mesa("intel")
        .user(1000, &[1000])
        .file("/etc/group", "root:x:0:\nwheel:x:10:user\nvideo:x:39:\nrender:x:105:\nuser:x:1000:\n")
        .device_of("/dev/dri/renderD128", 105, "permission-denied");
    let findings = check("sycl.render-group", &machine, &["sycl.render-group"]);
    assert_eq!(folded(&findings), ["vk.render-permission", "ocl.render-permission"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo usermod -aG render $USER"]);
    let nouveau = Machine::debian("12")
        .nvidia_card(RTX_3060, Some("nouveau"))
        .vulkan_development()
        .mesa("nouveau")
        .user(1000, &[1000])
        .file("/etc/group", "video:x:44:\nrender:x:109:\n")
        .device_of("/dev/dri/renderD128", VIDEO, "permission-denied");
    let findings =
        check_asked("vk.render-permission", &nouveau, Some(&[Backend::Vulkan]), &["vk.render-permission"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo usermod -aG video $USER"]);
}

#[test]
fn container_without_gpu_use_is_healthy() {
    let plain =
        Machine::debian("12").docker().intel(IRIS_XE, "0000:00:02.0", "i915").without("/dev/dri/renderD128");
    healthy("healthy-docker-on-a-laptop", &plain);
}

#[test]
fn two_graphics_faults_are_both_diagnosed() {
    let machine = arc(Machine::ubuntu("24.04"))
        .oneapi("2025.1")
        .vulkan_development()
        .mesa("intel")
        .without("/usr/bin/glslc");
    check("two-glslc-and-env-not-sourced", &machine, &["vk.glslc-missing", "sycl.env-not-sourced"]);
    let machine = Machine::ubuntu("22.04")
        .nvidia(L4, "570.86.15")
        .cuda("12.8.0")
        .vulkan_development()
        .env("VULKAN_SDK", "/opt/vulkan-sdk/1.3.250.1/x86_64")
        .opencl_development()
        .env("OCL_ICD_VENDORS", "/opt/vendors");
    check("two-sdk-path-and-ocl-vendors", &machine, &["ocl.no-icd", "vk.sdk-path-wrong"]);
    let machine = Machine::fedora("41")
        .amd(MI210)
        .rocm("6.2.0", ROCM_6_2)
        .without("/opt/rocm-6.2.0/lib/cmake/hip-lang")
        .vulkan_development()
        .mesa("radeon")
        .env("VK_ICD_FILENAMES", "/usr/share/vulkan/icd.d/radeon_icd.i686.json");
    check_asked(
        "two-cmake-config-and-icd-variable",
        &machine,
        Some(&[Backend::Rocm, Backend::Vulkan]),
        &["rocm.cmake-config", "vk.icd-missing"],
    );
}

#[test]
fn requested_missing_backends_are_diagnosed() {
    let asked = |name: &str, machine: &Machine, backend: Backend, causes: &[&str]| {
        check_asked(name, machine, Some(&[backend]), causes)
    };
    let laptop = Machine::ubuntu("24.04").intel(IRIS_XE, "0000:00:02.0", "i915");
    asked("sycl.toolkit.missing", &laptop, Backend::Sycl, &["sycl.toolkit.missing"]);
    asked("ocl.sdk-missing", &laptop, Backend::Opencl, &["ocl.sdk-missing"]);
    let removed = laptop
        .clone()
        .level_zero_loader()
        .level_zero_driver()
        .env("CMPLR_ROOT", "/opt/intel/oneapi/compiler/2024.0");
    asked("sycl.toolkit.root-invalid", &removed, Backend::Sycl, &["sycl.toolkit.root-invalid"]);
    let headers = laptop
        .clone()
        .opencl_development()
        .level_zero_driver()
        .without("/usr/lib/x86_64-linux-gnu/libOpenCL.so");
    asked("ocl.library-missing", &headers, Backend::Opencl, &["ocl.library-missing"]);
    let pocl = laptop
        .opencl_development()
        .file("/etc/OpenCL/vendors/pocl.icd", "libpocl.so.2\n")
        .opaque("/usr/lib/x86_64-linux-gnu/libpocl.so.2");
    asked("ocl.software-only", &pocl, Backend::Opencl, &["ocl.software-only"]);
    let unbound = Machine::debian("12")
        .pci("0000:03:00.0", "0x030000", "0x8086", ARC_B580, None)
        .level_zero_loader()
        .level_zero_driver()
        .oneapi("2025.2")
        .oneapi_sourced("2025.2");
    let found = check("sycl.driver.missing", &unbound, &["sycl.driver.missing"]);
    assert!(found[0].summary.contains("needs 6.12 or newer"), "{found:?}");
    assert!(found[0].remedy.commands.iter().any(|one| one.contains("bookworm-backports")), "{found:?}");
    let found = diagnose(&unbound.kernel("6.12.43+deb13-amd64"), None);
    assert!(found[0].remedy.commands.iter().any(|one| one.contains("modprobe xe")), "{found:?}");
}
