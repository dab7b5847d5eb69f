//! Hosts with a fault of the NVIDIA driver, one per cause, and healthy hosts that look similar.

use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_host::{Arch, Os};

use crate::machine::*;
use crate::{check, diagnose, healthy};

const SECURE_BOOT: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const SECURE: &[u8] = &[6, 0, 0, 0, 1];
const UNIT: &str = "/usr/lib/systemd/system/nvidia-fabricmanager.service";

/// Adds a driver on disk for a kernel, with nothing loaded.
fn on_disk(machine: Machine, kernel: &str, module: &str, version: &str) -> Machine {
    machine.nvidia_libraries(version).opaque(&format!("/lib/modules/{kernel}/{module}"))
}

/// Makes the first call of the CUDA probe fail.
pub(crate) fn refuses(machine: Machine, code: u32, message: &str) -> Machine {
    machine.probe_fails("cuda", &format!("cuInit answered {code}: {message} (driver version 12040)"))
}

pub(crate) fn commands(findings: &[Finding]) -> String {
    findings[0].remedy.commands.join(" && ")
}

pub(crate) fn consequences(findings: &[Finding]) -> Vec<&str> {
    findings[0].consequences.iter().map(|one| one.id.as_str()).collect()
}

#[test]
fn missing_driver_is_diagnosed() {
    let machine = Machine::debian("12").nvidia_card(RTX_3060, None);
    let found = check("nv.driver.missing", &machine, &["nv.driver.missing"]);
    assert!(commands(&found).contains("nvidia-driver firmware-misc-nonfree"), "{found:?}");
    assert_eq!(found[0].remedy.needs, ["sudo", "reboot"]);
}

#[test]
fn old_gpu_gets_a_legacy_driver() {
    let machine = Machine::arch_linux().nvidia_card(GTX_1080, None);
    let found = check("nv.driver.missing-pascal", &machine, &["nv.driver.missing"]);
    assert!(commands(&found).contains("nvidia-580xx-dkms"), "{found:?}");
}

#[test]
fn unloaded_driver_is_diagnosed() {
    let machine = Machine::arch_linux().nvidia_card(RTX_4070, None);
    let machine = on_disk(machine, "6.11.5-arch1-1", "extramodules/nvidia.ko.zst", "565.57.01").file(
        "/etc/modprobe.d/hybrid.conf",
        "# written by envycontrol\nblacklist nvidia\nalias nvidia off\n",
    );
    let found = check("nv.driver.missing-forbidden", &machine, &["nv.driver.missing"]);
    assert!(found[0].summary.contains("hybrid.conf"), "{}", found[0].summary);
    let found = diagnose(&machine.without("/etc/modprobe.d"), None);
    assert!(commands(&found).starts_with("sudo modprobe nvidia"), "{found:?}");
}

#[test]
fn windows_without_driver_is_diagnosed() {
    let card =
        r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI\VEN_10DE&DEV_2504&SUBSYS_397D1462&REV_A1\4&2283f625&0&0019";
    let machine = Machine::windows("22631")
        .visual_studio("14.38.33130")
        .registry(card, "DeviceDesc", "Video Controller (VGA Compatible)")
        .registry(card, "CompatibleIDs", r"PCI\VEN_10DE&DEV_2504&REV_A1 PCI\CC_030000 PCI\CC_0300");
    let found = check("nv.driver.missing-windows", &machine, &["nv.driver.missing"]);
    assert_eq!(commands(&found), "start https://www.nvidia.com/drivers");
    assert_eq!(consequences(&found), ["nv.driver.library-missing", "ocl.no-icd", "vk.icd-missing"]);
}

#[test]
fn nouveau_is_diagnosed() {
    let machine = Machine::fedora("41").nvidia_card(RTX_3060, Some("nouveau")).mesa("nouveau");
    let found = check("nv.driver.nouveau", &machine, &["nv.driver.nouveau"]);
    assert!(commands(&found).contains("akmod-nvidia"), "{found:?}");
}

#[test]
fn nouveau_loaded_before_the_driver_is_diagnosed() {
    let machine = Machine::debian("12").nvidia_card(RTX_3090, Some("nouveau"));
    let machine = on_disk(machine, "6.1.0-26-amd64", "updates/dkms/nvidia-current.ko", "535.183.01");
    let found = check("nv.driver.nouveau-installed", &machine, &["nv.driver.nouveau"]);
    assert!(commands(&found).contains("update-initramfs"), "{found:?}");
}

#[test]
fn vfio_gpu_is_diagnosed() {
    let machine = Machine::ubuntu("22.04").nvidia_card(RTX_4090, Some("vfio-pci"));
    let found = check("nv.driver.vfio", &machine, &["nv.driver.vfio"]);
    assert!(commands(&found).contains("0000:01:00.0"), "{found:?}");
}

#[test]
fn secure_boot_blocking_the_module_is_diagnosed() {
    let machine = Machine::fedora("42").nvidia_card(RTX_4070, Some("nouveau")).bytes(SECURE_BOOT, SECURE);
    let machine = on_disk(machine, "6.14.0-63.fc42.x86_64", "extra/nvidia/nvidia.ko.xz", "570.144")
        .file("/usr/src/akmods/nvidia-kmod-570.144-1.fc42.src.rpm", "");
    let found = check("nv.driver.secureboot", &machine, &["nv.driver.secureboot"]);
    assert!(commands(&found).contains("mokutil --import /etc/pki/akmods"), "{found:?}");
    assert!(consequences(&found).contains(&"nv.driver.nouveau"), "{found:?}");
    // With Secure Boot off the cause is nouveau.
    let off = machine.bytes(SECURE_BOOT, &[6, 0, 0, 0, 0]);
    assert_eq!(diagnose(&off, None)[0].id, "nv.driver.nouveau");
}

#[test]
fn secure_boot_blocking_a_dkms_module_is_diagnosed() {
    let machine = Machine::ubuntu("24.04").nvidia_card(RTX_3060, None).bytes(SECURE_BOOT, SECURE);
    let machine = on_disk(machine, "6.8.0-45-generic", "updates/dkms/nvidia.ko.zst", "550.107.02");
    let found = check("nv.driver.secureboot-dkms", &machine, &["nv.driver.secureboot"]);
    assert!(commands(&found).contains("/var/lib/shim-signed/mok/MOK.der"), "{found:?}");
}

#[test]
fn kernel_without_dkms_module_is_diagnosed() {
    let machine = Machine::ubuntu("24.04").nvidia_card(RTX_4090, None);
    let machine = on_disk(machine, "6.8.0-41-generic", "updates/dkms/nvidia.ko.zst", "550.107.02")
        .folder("/var/lib/dkms/nvidia/550.107.02/6.8.0-41-generic/x86_64/module");
    let found = check("nv.driver.dkms", &machine, &["nv.driver.dkms"]);
    assert!(commands(&found).contains("linux-headers-6.8.0-45-generic"), "{found:?}");
    assert!(commands(&found).contains("dkms autoinstall -k 6.8.0-45-generic"), "{found:?}");
    assert!(consequences(&found).contains(&"nv.driver.missing"), "{found:?}");
}

#[test]
fn pending_reboot_after_kernel_update_is_diagnosed() {
    let machine = Machine::arch_linux().nvidia_card(RTX_4070, None).without("/lib/modules/6.11.5-arch1-1");
    let machine = on_disk(machine, "6.11.9-arch1-1", "extramodules/nvidia.ko.zst", "565.57.01");
    let found = check("nv.driver.dkms-reboot", &machine, &["nv.driver.dkms"]);
    assert_eq!(commands(&found), "sudo systemctl reboot");
}

#[test]
fn missing_prebuilt_ubuntu_module_is_diagnosed() {
    let machine = Machine::ubuntu("22.04").nvidia_card(T4, None);
    let machine = on_disk(machine, "6.5.0-41-generic", "kernel/nvidia-535srv/nvidia.ko", "535.183.01");
    let found = check("nv.driver.dkms-prebuilt", &machine, &["nv.driver.dkms"]);
    assert!(commands(&found).contains("linux-modules-nvidia-535-server-6.5.0-44-generic"), "{found:?}");
}

#[test]
fn pending_reboot_after_driver_update_is_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(L4, "550.120")
        .nvidia_libraries("550.127.05")
        .without("/usr/lib/x86_64-linux-gnu/libcuda.so.550.120");
    let machine = refuses(machine, 803, "the user-mode driver does not match the kernel's").cuda("12.4.1");
    let found = check("nv.driver.lib-mismatch", &machine, &["nv.driver.lib-mismatch"]);
    assert_eq!(found[0].remedy.needs, ["sudo", "reboot"]);
}

#[test]
fn shadowing_driver_library_is_diagnosed() {
    let machine = Machine::rhel_like("rocky", "9")
        .nvidia(A100, "550.90.07")
        .nvidia_libraries_in("/usr/local/lib/nvidia-470", "470.256.02")
        .file("/etc/ld.so.conf.d/a-old-driver.conf", "/usr/local/lib/nvidia-470\n")
        .cuda("12.4.1")
        .without_probe("cuda");
    let found = check("nv.driver.lib-mismatch-shadowed", &machine, &["nv.driver.lib-mismatch"]);
    assert!(found[0].summary.contains("/usr/local/lib/nvidia-470"), "{}", found[0].summary);
}

#[test]
fn blackwell_with_proprietary_modules_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .nvidia_card(RTX_5090, None)
        .nvidia_module("570.133.07", false)
        .nvidia_libraries("570.133.07")
        .device_of("/dev/nvidiactl", 0, "")
        .cuda("12.8.1");
    let machine = refuses(machine, 100, "no CUDA device is visible");
    let found = check("nv.driver.open-required", &machine, &["nv.driver.open-required"]);
    assert_eq!(commands(&found), "sudo apt install nvidia-driver-580-open");
}

#[test]
fn gpu_dropped_by_driver_branch_is_diagnosed() {
    // The module supports no GPU of the host and unloads.
    let machine = Machine::arch_linux().nvidia_card(GTX_1080, None);
    let machine = on_disk(machine, "6.11.5-arch1-1", "extramodules/nvidia.ko.zst", "590.48.01");
    let found = check("nv.driver.branch-dropped", &machine, &["nv.driver.branch-dropped"]);
    assert!(commands(&found).contains("nvidia-580xx-dkms"), "{found:?}");
    assert!(consequences(&found).contains(&"nv.driver.missing"), "{found:?}");
}

#[test]
fn server_gpu_dropped_by_driver_branch_is_diagnosed() {
    let machine = Machine::rhel_like("almalinux", "9")
        .nvidia_card(V100, None)
        .nvidia_module("595.58.03", true)
        .nvidia_libraries("595.58.03")
        .cuda("12.6.3");
    let machine = refuses(machine, 100, "no CUDA device is visible");
    check("nv.driver.branch-dropped-v100", &machine, &["nv.driver.branch-dropped"]);
}

#[test]
fn driver_too_old_for_toolkit_is_diagnosed() {
    let machine = Machine::rhel_like("rocky", "8").nvidia(T4, "470.256.02").cuda("12.4.1");
    let found = check("nv.driver.too-old", &machine, &["nv.driver.too-old"]);
    assert!(found[0].summary.contains("525.60.13"), "{}", found[0].summary);
}

#[test]
fn too_new_ptx_is_diagnosed() {
    let machine =
        Machine::ubuntu("24.04").nvidia(L4, "580.95.05").cuda("13.2.1").env("CUDAARCHS", "75-virtual");
    let found = check("nv.ptx.too-new", &machine, &["nv.ptx.too-new"]);
    assert!(found[0].summary.contains("13.0"), "{}", found[0].summary);
    // Machine code runs by minor version compatibility; that is worth a note.
    let found = diagnose(&machine.without_env("CUDAARCHS"), None);
    assert_eq!((found[0].id.as_str(), found[0].severity), ("nv.ptx.too-new", Severity::Info));
}

#[test]
fn missing_kernel_image_is_diagnosed() {
    let machine =
        Machine::debian("12").nvidia(RTX_3060, "535.183.01").cuda("12.2.2").env("CUDAARCHS", "89;90-real");
    let found = check("nv.no-kernel-image", &machine, &["nv.no-kernel-image"]);
    assert!(found[0].summary.contains("sm_86"), "{}", found[0].summary);
}

#[test]
fn driver_error_codes_are_explained() {
    for (message, id) in [
        ("cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "nv.ptx.too-new"),
        ("no kernel image is available for execution on the device", "nv.no-kernel-image"),
        ("cuInit: CUDA_ERROR_SYSTEM_NOT_READY", "nv.fabricmanager"),
        ("CUDA driver version is insufficient for CUDA runtime version", "nv.driver.too-old"),
        ("cuInit returned 804", "nv.compat-on-geforce"),
        ("cuInit answered 803: mismatch", "nv.driver.lib-mismatch"),
        ("cuInit answered 999: unknown", "nv.suspend"),
        ("cuInit answered 34: this is the stub library", "cuda.stub-at-runtime"),
        ("cuDeviceGetUuid: libcuda.so.1: undefined symbol: cuDeviceGetUuid", "nv.symbol-too-new"),
    ] {
        let machine = Machine::ubuntu("22.04")
            .nvidia(RTX_4090, "550.144.03")
            .cuda("12.4.1")
            .probe_fails("cuda", message);
        let found = diagnose(&machine, None);
        assert_eq!(
            (found[0].id.as_str(), found[0].severity),
            (id, Severity::Error),
            "{message}: {}",
            crate::lines(&found)
        );
        assert_eq!(consequences(&found), ["probe.failed"], "{message}");
    }
}

#[test]
fn compat_libraries_on_geforce_are_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(RTX_4090, "535.183.01")
        .cuda("12.6.3")
        .nvidia_libraries_in("/usr/local/cuda-12.6/compat", "560.35.05")
        .env("LD_LIBRARY_PATH", "/usr/local/cuda/compat:/usr/local/cuda/lib64");
    let machine =
        refuses(machine, 804, "forward compatibility was attempted on hardware that does not support it");
    let found = check("nv.compat-on-geforce", &machine, &["nv.compat-on-geforce"]);
    assert_eq!(commands(&found), "unset LD_LIBRARY_PATH");
}

/// An HGX board.
fn hgx(machine: Machine) -> Machine {
    let switches = ["0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"];
    let machine = switches.iter().fold(machine, |machine, at| {
        machine.pci(at, "0x068000", "0x10de", "0x22a3", Some("nvidia-nvswitch"))
    });
    machine.nvidia(H100, "550.127.08").cuda("12.4.1")
}

#[test]
fn missing_fabric_manager_is_diagnosed() {
    let machine = refuses(hgx(Machine::ubuntu("22.04")), 802, "the system is not ready");
    let found = check("nv.fabricmanager", &machine, &["nv.fabricmanager"]);
    // Ubuntu's packages of the branch 550 install 580.
    assert!(commands(&found).contains("nvidia-driver-580 nvidia-fabricmanager-580"), "{found:?}");
    let repository = machine.clone().file("/etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list", "deb");
    assert!(commands(&diagnose(&repository, None)).contains("nvidia-fabricmanager-550"));
}

#[test]
fn stopped_fabric_manager_is_diagnosed() {
    let machine = hgx(Machine::rhel_like("rocky", "9")).program("/usr/bin/nv-fabricmanager").opaque(UNIT);
    let machine = machine.without_probe("cuda");
    let found = check("nv.fabricmanager-stopped", &machine, &["nv.fabricmanager"]);
    assert!(commands(&found).starts_with("sudo systemctl enable --now"), "{found:?}");
}

#[test]
fn missing_uvm_device_is_diagnosed() {
    let machine = Machine::debian("12")
        .nvidia(A100, "550.127.08")
        .cuda("12.4.1")
        .without("/dev/nvidia-uvm")
        .without("/dev/nvidia-uvm-tools")
        .without("/sys/module/nvidia_uvm");
    let machine = refuses(machine, 999, "unknown; often /dev/nvidia-uvm is missing");
    let found = check("nv.uvm-missing", &machine, &["nv.uvm-missing"]);
    assert!(commands(&found).contains("nvidia-modprobe -u -c=0"), "{found:?}");
}

#[test]
fn cuda_after_suspend_is_diagnosed() {
    let machine = Machine::fedora("41")
        .nvidia(RTX_4070, "565.57.01")
        .cuda("12.6.3")
        .gcc_beside(13)
        .file("/sys/power/suspend_stats/success", "4\n")
        .file("/proc/driver/nvidia/params", "PreserveVideoMemoryAllocations: 0\n");
    let machine = refuses(machine, 999, "unknown; often /dev/nvidia-uvm is missing");
    let found = check("nv.suspend", &machine, &["nv.suspend"]);
    assert!(found[0].summary.contains("4 times"), "{}", found[0].summary);
}

#[test]
fn mixed_cuda_runtimes_are_diagnosed() {
    let cudnn = |machine: Machine, version: &str| {
        let folder = format!("/opt/cudnn-{version}/lib");
        machine
            .opaque(&format!("{folder}/libcudnn.so.{version}"))
            .link(&format!("{folder}/libcudnn.so.8"), &format!("libcudnn.so.{version}"))
    };
    let machine = Machine::ubuntu("20.04").nvidia(V100, "535.183.01").cuda("11.8.0");
    let machine = cudnn(cudnn(machine, "8.6.0"), "8.9.7")
        .env("LD_LIBRARY_PATH", "/opt/cudnn-8.6.0/lib:/opt/cudnn-8.9.7/lib");
    let found = check("nv.cudart-mixed", &machine, &["nv.cudart-mixed"]);
    assert!(found[0].remedy.safe && commands(&found) == "unset LD_LIBRARY_PATH", "{found:?}");
}

#[test]
fn search_path_hiding_a_wheel_library_is_diagnosed() {
    let machine = Machine::debian("12")
        .nvidia(RTX_3090, "550.127.05")
        .cuda("12.1.1")
        .opaque("/usr/local/cuda-12.1/lib64/libnvJitLink.so.12.1.105")
        .env("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")
        .env("VIRTUAL_ENV", "/home/user/venv")
        .folder("/home/user/venv/lib/python3.11/site-packages/nvidia_nvjitlink_cu12-12.4.127.dist-info");
    let found = check("nv.cudart-mixed-wheel", &machine, &["nv.cudart-mixed"]);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn program_needing_a_newer_driver_is_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(RTX_3090, "535.183.01")
        .cuda("12.2.2")
        .env("CUDARC_CUDA_VERSION", "12080");
    let found = check("nv.symbol-too-new", &machine, &["nv.symbol-too-new"]);
    assert!(found[0].summary.contains("12.8") && found[0].summary.contains("12.2"), "{}", found[0].summary);
}

#[test]
fn hidden_device_variable_is_diagnosed() {
    let machine = Machine::opensuse("tumbleweed")
        .nvidia(RTX_4090, "570.133.07")
        .cuda("12.8.1")
        .env("CUDA_VISIBLE_DEVICES", "-1");
    let machine = refuses(machine, 100, "no CUDA device is visible");
    let found = check("nv.device-hidden", &machine, &["nv.device-hidden"]);
    assert_eq!(commands(&found), "unset CUDA_VISIBLE_DEVICES");
    // Without a probe result it is a warning: the setting works and may be intended.
    let found = diagnose(&machine.without_probe("cuda"), None);
    assert_eq!((found[0].id.as_str(), found[0].severity), ("nv.device-hidden", Severity::Warning));
}

fn jetson() -> Machine {
    let lib = "/usr/lib/aarch64-linux-gnu";
    let root = "/usr/local/cuda-12.2";
    Machine::new(Os::Linux, Arch::Aarch64)
        .env("PATH", "/usr/local/cuda/bin:/usr/bin:/bin")
        .env("HOME", "/home/user")
        .user(1000, &[1000, VIDEO])
        .file(
            "/etc/os-release",
            "PRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nVERSION_ID=\"22.04\"\nID=ubuntu\nID_LIKE=debian\n",
        )
        .file("/etc/group", "root:x:0:\nvideo:x:44:user\nuser:x:1000:\n")
        .kernel("5.15.136-tegra")
        .glibc(35)
        .file(
            "/etc/nv_tegra_release",
            "# R36 (release), REVISION: 3.0, GCID: 36191598, BOARD: generic, EABI: aarch64\n",
        )
        .file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
        .folder("/sys/module/nvgpu/holders")
        .opaque(&format!("{lib}/nvidia/libcuda.so.1.1"))
        .link(&format!("{lib}/nvidia/libcuda.so.1"), "libcuda.so.1.1")
        .file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        .file("/etc/ld.so.conf.d/nvidia-tegra.conf", &format!("{lib}/nvidia\n"))
        .opaque(&format!("{lib}/libc.so.6"))
        .device_of("/dev/nvmap", VIDEO, "")
        .gcc_plain(11, "aarch64-linux-gnu")
        .program("/usr/bin/cmake")
        .folder("/usr/share/cmake-3.22/Modules")
        .program("/usr/bin/ninja")
        .cuda_at(root, "12.2.2")
        .link("/usr/local/cuda", root)
}

#[test]
fn jetson_is_noted() {
    let found = healthy("nv.jetson", &jetson());
    assert_eq!(found[0].id, "nv.jetson", "{}", crate::lines(&found));
    assert_eq!(commands(&found), "export CUDA_COMPUTE_CAP=87");
}

#[test]
fn driver_without_libraries_is_diagnosed() {
    let machine = Machine::fedora("40")
        .nvidia(RTX_3060, "560.35.03")
        .without_probe("cuda")
        .cuda("12.6.3")
        .gcc_beside(13);
    let machine = ["libcuda.so.1", "libcuda.so.560.35.03"]
        .iter()
        .fold(machine, |machine, name| machine.without(&format!("/usr/lib64/{name}")));
    let found = check("nv.driver.library-missing", &machine, &["nv.driver.library-missing"]);
    assert!(commands(&found).contains("xorg-x11-drv-nvidia-cuda-libs"), "{found:?}");
    let unlinked = machine.opaque("/usr/lib64/libcuda.so.560.35.03");
    assert_eq!(commands(&diagnose(&unlinked, None)), "sudo ldconfig");
}

#[test]
fn driver_without_device_nodes_is_diagnosed() {
    let machine =
        Machine::rhel_like("rocky", "9").nvidia(L4, "550.90.07").cuda("12.4.1").without_probe("cuda");
    let machine = ["nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
        .iter()
        .fold(machine, |machine, node| machine.without(&format!("/dev/{node}")))
        .without("/usr/bin/nvidia-modprobe");
    let found = check("nv.device-nodes-missing", &machine, &["nv.device-nodes-missing"]);
    assert_eq!(consequences(&found), ["nv.uvm-missing"]);
}

/// Device nodes with a group.
fn closed(machine: Machine, gid: u32) -> Machine {
    ["nvidiactl", "nvidia0", "nvidia-uvm"]
        .iter()
        .fold(machine, |machine, node| machine.device_of(&format!("/dev/{node}"), gid, "permission-denied"))
}

#[test]
fn device_group_permission_is_diagnosed() {
    let machine =
        Machine::opensuse("15.6").nvidia(RTX_3060, "550.127.05").cuda("12.4.1").without_probe("cuda");
    let machine = closed(machine, 482)
        .file("/etc/group", "root:x:0:\nvideo:x:482:other\nuser:x:1000:\n")
        .user(1000, &[1000]);
    let found = check("nv.device-permission", &machine, &["nv.device-permission"]);
    assert_eq!(commands(&found), "sudo usermod -aG video $USER");
    assert_eq!(found[0].remedy.needs, ["sudo", "relogin"]);
    let member = machine.file("/etc/group", "root:x:0:\nvideo:x:482:user\nuser:x:1000:\n");
    assert_eq!(commands(&diagnose(&member, None)), "newgrp video");
}

#[test]
fn secure_boot_with_a_loaded_module_is_healthy() {
    let machine = Machine::ubuntu("24.04")
        .intel("0xa780", "0000:00:02.0", "i915")
        .nvidia(RTX_4070, "550.107.02")
        .cuda("12.4.1")
        .bytes(SECURE_BOOT, SECURE)
        .file("/sys/power/suspend_stats/success", "12\n")
        .opaque("/lib/modules/6.8.0-41-generic/updates/dkms/nvidia.ko.zst");
    healthy("healthy-ubuntu-24.04-secureboot", &machine);
}

#[test]
fn device_node_created_on_demand_is_healthy() {
    let machine = Machine::opensuse("tumbleweed")
        .nvidia(RTX_3090, "570.133.07")
        .cuda("12.8.1")
        .without("/dev/nvidia-uvm")
        .without("/dev/nvidia-uvm-tools")
        .env("CUDA_VISIBLE_DEVICES", "0")
        .without_probe("cuda");
    healthy("healthy-opensuse-on-demand", &machine);
}

#[test]
fn running_fabric_manager_is_healthy() {
    let machine = hgx(Machine::ubuntu("22.04"))
        .program("/usr/bin/nv-fabricmanager")
        .opaque(UNIT)
        .link("/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service", UNIT)
        .without_probe("cuda");
    healthy("healthy-ubuntu-22.04-hgx-h100", &machine);
}

#[test]
fn compat_libraries_on_datacenter_gpu_are_healthy() {
    let machine = Machine::rhel_like("rocky", "9")
        .nvidia(H100, "535.183.06")
        .cuda("12.6.3")
        .nvidia_libraries_in("/usr/local/cuda-12.6/compat", "560.35.05")
        .env("LD_LIBRARY_PATH", "/usr/local/cuda/compat");
    healthy("healthy-rocky-9-compat-h100", &machine);
}

#[test]
fn nouveau_on_a_second_gpu_is_healthy() {
    let machine = Machine::ubuntu("22.04").amd(RX_7900).rocm("6.2.0", ROCM_6_2).nvidia_card_at(
        "0000:0a:00.0",
        GTX_970,
        Some("nouveau"),
    );
    healthy("healthy-ubuntu-22.04-nouveau-second", &machine);
}

#[test]
fn old_second_gpu_on_nouveau_is_healthy() {
    let machine = Machine::ubuntu("24.04").nvidia(RTX_3090, "580.95.05").cuda("13.0.2").nvidia_card_at(
        "0000:0a:00.0",
        GTX_970,
        Some("nouveau"),
    );
    healthy("healthy-ubuntu-24.04-old-second-card", &machine);
}

#[test]
fn secure_boot_and_missing_compiler_are_both_diagnosed() {
    let machine =
        Machine::debian("13").nvidia_card(RTX_4070, None).bytes(SECURE_BOOT, SECURE).without_compiler();
    let machine = on_disk(machine, "6.12.43+deb13-amd64", "updates/dkms/nvidia-current.ko.xz", "550.163.01");
    check("two-secureboot-compiler", &machine, &["cpu.compiler-missing", "nv.driver.secureboot"]);
}

#[test]
fn old_driver_and_closed_nodes_are_both_diagnosed() {
    let machine =
        Machine::rhel_like("rocky", "8").nvidia(V100, "470.256.02").cuda("12.4.1").without_probe("cuda");
    let machine = closed(machine, 44).user(1000, &[1000]);
    check("two-driver-permission", &machine, &["nv.device-permission", "nv.driver.too-old"]);
}

#[test]
fn missing_uvm_and_mixed_runtimes_are_both_diagnosed() {
    let machine = Machine::debian("12")
        .nvidia(A100, "550.127.08")
        .cuda("12.4.1")
        .without("/dev/nvidia-uvm")
        .without("/usr/bin/nvidia-modprobe")
        .without_probe("cuda")
        .opaque("/opt/a/lib/libcudnn.so.9.1.0")
        .opaque("/opt/b/lib/libcudnn.so.9.5.1")
        .env("LD_LIBRARY_PATH", "/opt/a/lib:/opt/b/lib");
    check("two-uvm-mixed", &machine, &["nv.uvm-missing", "nv.cudart-mixed"]);
}

#[test]
fn nouveau_and_too_new_compiler_are_both_diagnosed() {
    let machine = Machine::fedora("41").nvidia_card(RTX_3060, Some("nouveau")).cuda("12.4.1");
    check("two-nouveau-gcc", &machine, &["nv.driver.nouveau", "cuda.host.gcc-too-new"]);
}

#[test]
fn dropped_gpu_and_dropped_architecture_are_both_diagnosed() {
    let machine = Machine::arch_linux().nvidia_card(GTX_970, None).cuda("13.0.1");
    let machine = on_disk(machine, "6.11.5-arch1-1", "extramodules/nvidia.ko.zst", "590.48.01");
    check("two-dropped", &machine, &["nv.driver.branch-dropped", "cuda.arch.dropped-by-toolkit"]);
}
