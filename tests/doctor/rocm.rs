//! AMD GPUs: one host per ROCm fault, healthy hosts, and hosts with two faults.

use gpubuild_core::Backend;
use gpubuild_detect::finding::Finding;

use super::machine::{
    MI210, MI300X, Machine, PHOENIX, RAPHAEL, RENDER, ROCM_6_2, ROCM_7_0, RTX_4090, RX_580, RX_5700, RX_6700,
    RX_6800, RX_7600, RX_7900, RX_9070, VEGA_64, VIDEO,
};
use super::{check, check_asked, healthy};

/// Adds AMD's DKMS kernel module of a version.
fn dkms(machine: Machine, version: &str) -> Machine {
    machine.file("/sys/module/amdgpu/version", &format!("{version}\n"))
}

/// Adds a desktop with Mesa's Vulkan and no development tools.
fn desktop(machine: Machine) -> Machine {
    machine.vulkan_loader().mesa("radeon").mesa("lvp")
}

fn first(findings: &[Finding]) -> &Finding {
    findings.first().expect("a finding")
}

fn folded(findings: &[Finding]) -> Vec<&str> {
    first(findings).consequences.iter().map(|one| one.id.as_str()).collect()
}

#[test]
fn healthy_amd_hosts_have_no_findings() {
    healthy(
        "healthy-ubuntu-24.04-rx7900",
        &dkms(Machine::ubuntu("24.04").amd(RX_7900).rocm("6.2.4", ROCM_6_2), "6.8.5"),
    );
    healthy(
        "healthy-rocky-9-mi300x",
        &dkms(Machine::rhel_like("rocky", "9").amd(MI300X).rocm("7.0.2", ROCM_7_0), "6.14.14"),
    );
    // A gaming desktop: Vulkan works, ROCm is not installed, and only the session's user may open the render node.
    let gaming = desktop(Machine::fedora("42")).amd(RX_9070).user(1000, &[1000]).device_of(
        "/dev/kfd",
        RENDER,
        "permission-denied",
    );
    healthy("healthy-fedora-42-gaming", &gaming.opencl_loader().folder("/etc/OpenCL/vendors"));
    // An old GPU with Vulkan: a host without ROCm gets no ROCm findings.
    healthy(
        "healthy-debian-13-rx580-vulkan",
        &Machine::debian("13").amd(RX_580).vulkan_development().mesa("radeon"),
    );
    // A laptop with only integrated graphics.
    healthy("healthy-arch-780m-bare", &Machine::arch_linux().amd(PHOENIX).user(1000, &[1000, 998]));
    // Two releases side by side; the link names one.
    let two = Machine::ubuntu("22.04")
        .amd(MI210)
        .rocm_at("/opt/rocm-6.1.0", "6.1.0", ROCM_6_2)
        .rocm("6.2.0", ROCM_6_2);
    healthy("healthy-ubuntu-22.04-mi210-two-releases", &two);
    // A safe override, and a GPU with the integrated graphics after it.
    let override_ = Machine::ubuntu("22.04")
        .amd(RX_6700)
        .rocm("6.2.0", ROCM_6_2)
        .env("HSA_OVERRIDE_GFX_VERSION", "10.3.0");
    healthy("healthy-ubuntu-22.04-rx6700-override", &override_);
    // root in a container that has access to the GPU.
    healthy("healthy-docker-rocm", &Machine::ubuntu("24.04").docker().amd(RX_7900).rocm("6.2.4", ROCM_6_2));
}

#[test]
fn missing_group_membership_is_one_error() {
    let machine = desktop(Machine::ubuntu("22.04"))
        .amd(RX_7900)
        .rocm("6.2.0", ROCM_6_2)
        .opencl_loader()
        .user(1000, &[1000, 27])
        .file("/etc/group", "root:x:0:\nsudo:x:27:user\nvideo:x:44:\nrender:x:109:\nuser:x:1000:\n")
        .device_of("/dev/kfd", RENDER, "permission-denied")
        .device_of("/dev/dri/renderD128", RENDER, "permission-denied")
        .file("/etc/OpenCL/vendors/amdocl64.icd", "libamdocl64.so\n")
        .opaque("/opt/rocm-6.2.0/lib/libamdocl64.so");
    let findings = check("rocm.kfd-permission", &machine, &["rocm.kfd-permission"]);
    assert_eq!(folded(&findings), ["vk.render-permission", "ocl.render-permission"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo usermod -aG render $USER"]);
    assert!(first(&findings).remedy.needs.contains(&"relogin".to_owned()));
    // Older distributions use the group `video`.
    let machine = Machine::ubuntu("20.04")
        .amd(VEGA_64)
        .rocm("5.4.0", &["gfx900", "gfx906"])
        .user(1000, &[1000, 27])
        .device_of("/dev/kfd", VIDEO, "permission-denied")
        .device_of("/dev/dri/renderD128", VIDEO, "permission-denied");
    let findings = check("rocm.kfd-permission-joined", &machine, &["rocm.kfd-permission"]);
    assert!(first(&findings).summary.contains("joined `video`"), "{}", first(&findings).summary);
    assert!(first(&findings).remedy.commands.is_empty());
}

#[test]
fn missing_kfd_causes_are_distinguished() {
    let machine = |base: Machine| base.amd(RX_6800).rocm("6.2.0", ROCM_6_2).without("/dev/kfd");
    let findings = check("rocm.kfd-missing", &machine(Machine::opensuse("15.6")), &["rocm.kfd-missing"]);
    assert!(first(&findings).summary.contains("does not support compute"));
    // No driver at all.
    let bare = Machine::ubuntu("24.04").amd_card_at(RX_6800, "0000:03:00.0", None).rocm("6.2.0", ROCM_6_2);
    let findings = check("rocm.kfd-missing-driver", &bare, &["rocm.kfd-missing"]);
    assert_eq!(folded(&findings), ["rocm.driver.missing"]);
    assert!(first(&findings).remedy.commands.iter().any(|one| one.contains("linux-modules-extra")));
    let nomodeset =
        Machine::fedora("41").amd_card_at(RX_7900, "0000:03:00.0", None).rocm("6.2.0", ROCM_6_2).file(
            "/proc/cmdline",
            "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.11.4 root=UUID=1234 ro nomodeset rhgb quiet\n",
        );
    let findings = check("rocm.kfd-missing-nomodeset", &nomodeset, &["rocm.kfd-missing"]);
    assert_eq!(first(&findings).remedy.commands, ["sudo grubby --update-kernel=ALL --remove-args=nomodeset"]);
}

#[test]
fn gpu_missing_from_rocm_libraries_is_diagnosed() {
    let findings = check(
        "rocm.gfx-unsupported",
        &Machine::ubuntu("22.04").amd(RX_6700).rocm("6.2.0", ROCM_6_2),
        &["rocm.gfx-unsupported"],
    );
    assert_eq!(first(&findings).remedy.commands, ["export HSA_OVERRIDE_GFX_VERSION=10.3.0"]);
    // A GPU without a compatible architecture.
    let findings = check(
        "rocm.gfx-unsupported-rx5700",
        &Machine::arch_linux().amd(RX_5700).rocm("6.2.0", ROCM_6_2),
        &["rocm.gfx-unsupported"],
    );
    assert!(first(&findings).remedy.commands.is_empty());
    assert!(first(&findings).remedy.text.contains("Vulkan"));
    // Debian's layout without a compiler: only the library is installed.
    let library = Machine::debian("13")
        .amd(VEGA_64)
        .opaque("/usr/lib/x86_64-linux-gnu/libamdhip64.so.6")
        .opaque("/usr/lib/x86_64-linux-gnu/rocblas/4.2.4/library/TensileLibrary_lazy_gfx1030.dat")
        .opaque("/usr/lib/x86_64-linux-gnu/rocblas/4.2.4/library/TensileLibrary_lazy_gfx1100.dat");
    check("rocm.gfx-unsupported-library", &library, &["rocm.gfx-unsupported"]);
}

#[test]
fn dangerous_and_ineffective_overrides_are_diagnosed() {
    let machine =
        Machine::arch_linux().amd(PHOENIX).rocm("6.2.0", ROCM_6_2).env("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    let findings = check("rocm.override-dangerous", &machine, &["rocm.override-dangerous"]);
    assert!(first(&findings).summary.contains("gfx1103"));
    let machine = Machine::ubuntu("24.04")
        .amd(RX_6700)
        .rocm("6.2.0", ROCM_6_2)
        .env("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    let findings = check("rocm.override-dangerous-family", &machine, &["rocm.override-dangerous"]);
    assert_eq!(first(&findings).remedy.commands, ["export HSA_OVERRIDE_GFX_VERSION=10.3.0"]);
    let windows = hip_sdk(
        Machine::windows("22631").visual_studio("14.43.34808").amd_windows("AMD Radeon RX 6700 XT", "73DF"),
    )
    .env("HSA_OVERRIDE_GFX_VERSION", "10.3.0");
    let findings = check("rocm.override-windows", &windows, &["rocm.override-windows"]);
    assert_eq!(folded(&findings), ["rocm.gfx-unsupported"]);
    let works = hip_sdk(
        Machine::windows("26100").visual_studio("14.43.34808").amd_windows("AMD Radeon RX 7900 XTX", "744C"),
    )
    .env("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    check("rocm.override-windows-works", &works, &["rocm.override-windows"]);
}

/// AMD's HIP SDK for Windows.
fn hip_sdk(machine: Machine) -> Machine {
    let root = r"C:\Program Files\AMD\ROCm\6.2";
    let mut machine = machine
        .env("HIP_PATH", &format!(r"{root}\"))
        .program(&format!(r"{root}\bin\hipcc.exe"))
        .program(&format!(r"{root}\bin\clang++.exe"))
        .file(
            &format!(r"{root}\include\hip\hip_version.h"),
            "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 2\n",
        )
        .file(&format!(r"{root}\include\hip\hip_runtime.h"), "#pragma once\n")
        .opaque(&format!(r"{root}\lib\amdhip64.lib"))
        .opaque(&format!(r"{root}\lib\hipblas.lib"))
        .opaque(&format!(r"{root}\lib\cmake\hip\hip-config.cmake"))
        .opaque(&format!(r"{root}\lib\cmake\hip-lang\hip-lang-config.cmake"))
        .opaque(&format!(r"{root}\amdgcn\bitcode\ockl.bc"));
    for arch in ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx906"] {
        machine = machine.opaque(&format!(r"{root}\bin\rocblas\library\TensileLibrary_lazy_{arch}.dat"));
    }
    machine
}

#[test]
fn integrated_gpu_listed_first_is_diagnosed() {
    let machine = |base: Machine| {
        base.amd_at(RAPHAEL, "0000:03:00.0", 1).amd_at(RX_7900, "0000:07:00.0", 2).rocm("6.2.0", ROCM_6_2)
    };
    let findings = check("rocm.igpu-first", &machine(Machine::ubuntu("24.04")), &["rocm.igpu-first"]);
    assert_eq!(first(&findings).remedy.commands, ["export HIP_VISIBLE_DEVICES=1"]);
    healthy(
        "healthy-ubuntu-24.04-igpu-hidden",
        &machine(Machine::ubuntu("24.04")).env("HIP_VISIBLE_DEVICES", "1"),
    );
}

#[test]
fn gpu_dropped_by_rocm_is_diagnosed() {
    let machine =
        desktop(Machine::ubuntu("22.04")).amd(RX_580).rocm("5.7.0", &["gfx900", "gfx906", "gfx1030"]);
    let findings = check("rocm.gfx803", &machine, &["rocm.gfx803"]);
    assert!(first(&findings).remedy.text.contains("Vulkan"));
    // Nothing is installed for the GPU: the finding is about Vulkan, not ROCm.
    let bare = Machine::debian("12").amd(RX_580);
    let findings = check("rocm.gfx803-bare", &bare, &["rocm.gfx803"]);
    assert_eq!(folded(&findings), ["vk.loader-missing"]);
    assert!(first(&findings).remedy.commands[0].contains("mesa-vulkan-drivers"));
}

#[test]
fn mixed_rocm_installations_are_diagnosed() {
    let stale =
        Machine::ubuntu("22.04").amd(RX_7900).rocm("6.2.0", ROCM_6_2).env("HIP_PATH", "/opt/rocm-5.7.1/hip");
    let findings = check("rocm.two-installs", &stale, &["rocm.two-installs"]);
    assert_eq!(first(&findings).remedy.commands[0], "unset HIP_PATH");
    let pinned = Machine::rhel_like("almalinux", "9")
        .amd(MI210)
        .rocm_at("/opt/rocm-6.1.0", "6.1.0", ROCM_6_2)
        .rocm("6.2.0", ROCM_6_2)
        .env("ROCM_PATH", "/opt/rocm-6.1.0");
    check("rocm.two-installs-path", &pinned, &["rocm.two-installs"]);
    let both = debian_rocm(Machine::ubuntu("24.04").amd(RX_7900).rocm("6.2.0", ROCM_6_2));
    let findings = check("rocm.two-installs-packages", &both, &["rocm.two-installs"]);
    assert!(first(&findings).remedy.commands.contains(&"export ROCM_PATH=/opt/rocm-6.2.0".to_owned()));
}

/// ROCm packages of Debian and Ubuntu.
fn debian_rocm(machine: Machine) -> Machine {
    let lib = "/usr/lib/x86_64-linux-gnu";
    machine
        .program("/usr/bin/hipcc")
        .program("/usr/bin/hipconfig")
        .program("/usr/bin/rocminfo")
        .program("/usr/lib/llvm-17/bin/clang++")
        .file("/usr/include/hip/hip_runtime.h", "#pragma once\n")
        .file("/usr/include/hip/hip_version.h", "#define HIP_VERSION_MAJOR 5\n#define HIP_VERSION_MINOR 7\n")
        .opaque(&format!("{lib}/libamdhip64.so.5"))
        .link(&format!("{lib}/libamdhip64.so"), "libamdhip64.so.5")
        .opaque(&format!("{lib}/libhsa-runtime64.so.1"))
        .opaque(&format!("{lib}/cmake/hip/hip-config.cmake"))
        .opaque(&format!("{lib}/cmake/hip-lang/hip-lang-config.cmake"))
        .opaque(&format!("{lib}/amdgcn/bitcode/ockl.bc"))
}

#[test]
fn distribution_rocm_layout_is_diagnosed() {
    let findings = check(
        "rocm.distro-layout",
        &debian_rocm(Machine::debian("12").amd(RX_6800)),
        &["rocm.distro-layout"],
    );
    assert_eq!(
        first(&findings).remedy.commands,
        ["export ROCM_PATH=/usr", "export HIP_DEVICE_LIB_PATH=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"]
    );
    let set = debian_rocm(Machine::debian("12").amd(RX_6800))
        .env("ROCM_PATH", "/usr")
        .env("HIP_DEVICE_LIB_PATH", "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode");
    healthy("healthy-debian-12-distro-rocm", &set);
    // Fedora's compiler finds its own device libraries.
    let fedora = Machine::fedora("43")
        .amd(RX_7600)
        .program("/usr/bin/hipcc")
        .program("/usr/bin/rocminfo")
        .program("/usr/lib64/rocm/llvm/bin/clang++")
        .file("/usr/include/hip/hip_runtime.h", "#pragma once\n")
        .file("/usr/include/hip/hip_version.h", "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n")
        .opaque("/usr/lib64/libamdhip64.so.6")
        .link("/usr/lib64/libamdhip64.so", "libamdhip64.so.6")
        .opaque("/usr/lib64/cmake/hip/hip-config.cmake")
        .opaque("/usr/lib64/cmake/hip-lang/hip-lang-config.cmake")
        .opaque("/usr/lib64/rocm/llvm/lib/clang/19/lib/amdgcn/bitcode/ockl.bc")
        .opaque("/usr/lib64/rocblas/library/TensileLibrary_lazy_gfx1102.dat");
    healthy("healthy-fedora-43-distro-rocm", &fedora.clone().program("/usr/bin/lsmod"));
    let without = fedora.without("/usr/lib64/rocm/llvm/lib/clang").program("/usr/bin/lsmod");
    let findings = check("rocm.distro-layout-fedora", &without, &["rocm.distro-layout"]);
    assert!(first(&findings).remedy.commands[0].contains("rocm-device-libs"));
}

#[test]
fn missing_hip_cmake_config_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .amd(RX_9070)
        .rocm("7.0.2", ROCM_7_0)
        .without("/opt/rocm-7.0.2/lib/cmake/hip-lang");
    let findings = check("rocm.cmake-config", &machine, &["rocm.cmake-config"]);
    assert!(first(&findings).summary.contains("hip-lang-config.cmake"));
    // The header package is missing completely: its files are one cause.
    let machine = Machine::opensuse("15.6")
        .amd(MI210)
        .rocm("6.2.0", ROCM_6_2)
        .without("/opt/rocm-6.2.0/lib/cmake/hip")
        .without("/opt/rocm-6.2.0/lib/cmake/hip-lang")
        .without("/opt/rocm-6.2.0/include/hip/hip_runtime.h");
    let findings = check("rocm.cmake-config-headers", &machine, &["rocm.cmake-config"]);
    assert_eq!(folded(&findings), ["rocm.toolkit.headers-missing"]);
}

#[test]
fn rocm_kernel_driver_mismatch_is_diagnosed() {
    let machine = |rocm: &str, driver: &str, archs| {
        dkms(Machine::ubuntu("22.04").amd(MI300X).rocm(rocm, archs), driver)
    };
    let findings =
        check("rocm.kernel-mismatch", &machine("7.0.2", "6.7.0", ROCM_7_0), &["rocm.kernel-mismatch"]);
    assert_eq!(first(&findings).remedy.needs, ["sudo", "reboot"]);
    check("rocm.kernel-mismatch-major", &machine("7.1.0", "6.10.5", ROCM_7_0), &["rocm.kernel-mismatch"]);
    healthy("healthy-ubuntu-22.04-newer-driver", &machine("6.3.0", "6.14.14", ROCM_6_2));
}

#[test]
fn false_negative_of_rocm_tools_is_diagnosed() {
    let release = "6.6.58-gentoo";
    let machine = Machine::arch_linux().kernel(release).amd(RX_7900).rocm("6.2.0", ROCM_6_2).file(
        &format!("/lib/modules/{release}/modules.builtin"),
        "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko\nkernel/fs/ext4/ext4.ko\n",
    );
    check("rocm.tools-false-negative", &machine, &["rocm.tools-false-negative"]);
    // Without `lsmod` it is only a note.
    let container = Machine::ubuntu("22.04").docker().amd(RX_7900).rocm("6.2.0", ROCM_6_2);
    let findings = check("rocm.tools-no-lsmod", &container, &[]);
    assert_eq!(first(&findings).id, "rocm.tools-false-negative");
}

#[test]
fn two_faults_with_amd_are_both_diagnosed() {
    // A GPU that the libraries do not support, and a missing shader compiler.
    let machine = Machine::ubuntu("24.04")
        .amd(RX_5700)
        .rocm("6.2.0", ROCM_6_2)
        .vulkan_development()
        .mesa("radeon")
        .without("/usr/bin/glslc");
    check("two-gfx-unsupported-and-glslc", &machine, &["rocm.gfx-unsupported", "vk.glslc-missing"]);
    // An invalid variable, and an old kernel driver.
    let machine = dkms(Machine::rhel_like("rocky", "9").amd(MI300X).rocm("7.0.2", ROCM_7_0), "6.3.6")
        .env("ROCM_PATH", "/opt/rocm-6.0.0");
    check("two-kernel-mismatch-and-two-installs", &machine, &["rocm.kernel-mismatch", "rocm.two-installs"]);
    // A user outside the group, and missing CMake files.
    let machine = Machine::debian("12")
        .amd(RX_7900)
        .rocm("6.2.0", ROCM_6_2)
        .without("/opt/rocm-6.2.0/lib/cmake/hip")
        .user(1000, &[1000])
        .file("/etc/group", "render:x:109:\nvideo:x:44:\n")
        .device_of("/dev/kfd", RENDER, "permission-denied")
        .device_of("/dev/dri/renderD128", RENDER, "permission-denied");
    check("two-kfd-permission-and-cmake-config", &machine, &["rocm.kfd-permission", "rocm.cmake-config"]);
    // No KFD for the AMD GPU, and a healthy NVIDIA GPU beside it.
    let machine = Machine::ubuntu("22.04")
        .nvidia(RTX_4090, "550.144.03")
        .cuda("12.4.1")
        .amd_at(RX_7900, "0000:03:00.0", 1)
        .rocm("6.2.0", ROCM_6_2)
        .without("/dev/kfd")
        .env("VULKAN_SDK", "/opt/vulkan-sdk/1.3.239.0");
    check("two-kfd-missing-and-sdk-path", &machine, &["rocm.kfd-missing", "vk.sdk-path-wrong"]);
}

#[test]
fn requested_rocm_lists_what_is_missing() {
    let rocm = [Backend::Rocm];
    check_asked(
        "asked-rocm-missing",
        &desktop(Machine::fedora("41")).amd(RX_7900),
        Some(&rocm),
        &["rocm.toolkit.missing"],
    );
    check_asked(
        "asked-rocm-no-card",
        &Machine::debian("12").rocm("6.2.0", ROCM_6_2),
        Some(&rocm),
        &["rocm.hardware.absent"],
    );
}

#[test]
fn blockers_between_gpu_and_rocm_are_diagnosed() {
    let rocm = [Backend::Rocm];
    let invalid = Machine::ubuntu("24.04").amd(RX_7900).env("ROCM_PATH", "/opt/rocm-5.4.0");
    check_asked("rocm.toolkit.root-invalid", &invalid, Some(&rocm), &["rocm.toolkit.root-invalid"]);
    let library = Machine::rhel_like("rocky", "9")
        .amd(MI210)
        .rocm("6.2.0", ROCM_6_2)
        .without("/opt/rocm-6.2.0/lib/libamdhip64.so.6")
        .without("/opt/rocm-6.2.0/lib/libamdhip64.so");
    check("rocm.runtime-missing", &library, &["rocm.runtime-missing"]);
    let radeon =
        Machine::debian("12").amd_card_at(RX_580, "0000:03:00.0", Some("radeon")).rocm("5.7.0", ROCM_6_2);
    check("rocm.driver.radeon", &radeon, &["rocm.driver.radeon"]);
    // A GPU reserved for a virtual machine is intended.
    let kept = desktop(Machine::fedora("41")).intel("0x4680", "0000:00:02.0", "i915").mesa("intel");
    healthy("healthy-fedora-41-vfio", &kept.amd_card_at(RX_7900, "0000:03:00.0", Some("vfio-pci")));
}
