//! Image-based and declared systems, unloaded modules, and libraries outside of the loader's path.

use gpubuild_core::Backend;
use gpubuild_detect::facts::{self, Vendor};
use gpubuild_detect::finding::Severity;
use gpubuild_detect::matrix::Readiness;
use gpubuild_plan::machine;

use crate::machine::{GTX_1080, Machine, RTX_4090, RTX_5090};
use crate::{CATALOGUE, check, check_asked};

fn release(machine: Machine, text: &str) -> Machine {
    machine.without("/etc/os-release").file("/etc/os-release", text)
}

#[test]
fn silverblue_layers_the_driver() {
    // The steps are those of rpmfusion.org/Howto/NVIDIA for Silverblue.
    let machine = release(
        Machine::fedora("42").nvidia_card(RTX_4090, Some("nouveau")).file("/run/ostree-booted", ""),
        "ID=fedora\nVERSION_ID=42\nVARIANT_ID=silverblue\nPRETTY_NAME=\"Fedora Linux 42 (Silverblue)\"\n",
    );
    let findings = check("sys.silverblue-nouveau", &machine, &["nv.driver.nouveau"]);
    let remedy = &findings[0].remedy;
    assert!(remedy.commands.iter().all(|one| one.contains("rpm-ostree")), "{:?}", remedy.commands);
    assert_eq!(remedy.needs, ["sudo", "reboot"]);
}

#[test]
fn silverblue_layers_the_key_of_its_modules() {
    // CheariX/silverblue-akmods-keys: rpm-ostree builds without the keys of the running system.
    let kernel = Machine::fedora("42").kernel_release();
    let machine = release(
        Machine::fedora("42").nvidia_card(RTX_4090, None).nvidia_libraries("580.95.05"),
        "ID=fedora\nVERSION_ID=42\nVARIANT_ID=silverblue\nPRETTY_NAME=\"Fedora Linux 42 (Silverblue)\"\n",
    )
    .file("/run/ostree-booted", "")
    .file("/usr/src/akmods/nvidia-kmod-580.95.05-1.fc42.src.rpm", "")
    .opaque(&format!("/lib/modules/{kernel}/extra/nvidia/nvidia.ko.xz"))
    .bytes("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", &[6, 0, 0, 0, 1]);
    let findings = check("sys.silverblue-secureboot", &machine, &["nv.driver.secureboot"]);
    let remedy = &findings[0].remedy;
    assert!(remedy.commands.iter().any(|one| one.contains("rpm-ostree install akmods-keys")), "{remedy:?}");
}

#[test]
fn appliance_gets_no_step_of_a_package_manager() {
    let machine = Machine::debian("12")
        .nvidia(RTX_4090, "580.95.05")
        .kernel("6.12.33-production+truenas")
        .program("/usr/bin/docker")
        .program("/usr/bin/dockerd");
    let findings = check("sys.truenas-docker", &machine, &["ctr.runtime-missing"]);
    assert_eq!(findings[0].remedy.commands, ["midclt call docker.config"]);
}

#[test]
fn bazzite_is_rebased() {
    // ublue-os/bazzite#5252: the proprietary image drives Pascal, others do not.
    let machine = release(
        Machine::fedora("42").nvidia_card(RTX_4090, Some("nouveau")),
        "ID=bazzite\nID_LIKE=fedora\nVERSION_ID=42\nVARIANT_ID=bazzite\n",
    );
    let findings = check("sys.bazzite-nouveau", &machine, &["nv.driver.nouveau"]);
    assert!(findings[0].remedy.commands.iter().any(|one| one.contains("rebase")), "{:?}", findings[0].remedy);
}

#[test]
fn nixos_declares_the_driver() {
    let machine = release(
        Machine::fedora("42").nvidia_card(RTX_4090, Some("nouveau")),
        "ID=nixos\nVERSION_ID=\"25.05\"\n",
    );
    let findings = check("sys.nixos-nouveau", &machine, &["nv.driver.nouveau"]);
    let remedy = &findings[0].remedy;
    assert!(remedy.text.contains("configuration.nix"), "{}", remedy.text);
    assert_eq!(remedy.commands, ["sudo nixos-rebuild boot"]);
}

#[test]
fn truenas_installs_the_driver() {
    let card = Machine::debian("12").nvidia_card(RTX_4090, None).kernel("6.12.33-production+truenas");
    let machine = card.without("/usr/bin/gcc").without("/usr/bin/g++");
    let findings = check("sys.truenas-driver", &machine, &["nv.driver.missing"]);
    let remedy = &findings[0].remedy;
    assert_eq!(remedy.commands, ["midclt call docker.config"]);
    assert!(remedy.text.contains("appliance"), "{}", remedy.text);
    // The compilers that an appliance lacks are no fault.
    let compiler = findings.iter().find(|one| one.id == "cpu.compiler-missing");
    assert!(compiler.is_none_or(|one| one.severity == Severity::Info), "{findings:?}");
}

#[test]
fn open_modules_on_disk_do_not_drive_pascal() {
    // ublue-os/bazzite-dx#150: a GTX 1070 with the open modules.
    let machine = Machine::ubuntu("24.04").nvidia_card(GTX_1080, None);
    let kernel = machine.kernel_release();
    let machine = machine.opaque(&format!("/lib/modules/{kernel}/kernel/nvidia-575-open/nvidia.ko.zst"));
    let findings = check("nv.driver.open-unloaded", &machine, &["nv.driver.open-unsupported"]);
    assert!(findings[0].summary.contains("nvidia-575-open"), "{}", findings[0].summary);
    assert_eq!(findings[0].remedy.commands, ["sudo apt install nvidia-driver-580"]);
}

#[test]
fn proprietary_modules_on_disk_do_not_drive_blackwell() {
    // NVIDIA/open-gpu-kernel-modules#872.
    let machine = Machine::ubuntu("24.04").nvidia_card(RTX_5090, None);
    let kernel = machine.kernel_release();
    let machine = machine
        .opaque(&format!("/lib/modules/{kernel}/updates/dkms/nvidia.ko.zst"))
        .folder(&format!("/var/lib/dkms/nvidia/570.86.16/{kernel}"))
        .command(&["modinfo", "-F", "license", "nvidia"], "NVIDIA\n")
        .program("/usr/sbin/modinfo")
        .command(&["modinfo", "-F", "version", "nvidia"], "570.86.16\n");
    let findings = check("nv.driver.proprietary-unloaded", &machine, &["nv.driver.open-required"]);
    assert_eq!(findings[0].remedy.commands, ["sudo apt install nvidia-driver-580-open"]);
}

#[test]
fn reboot_is_not_advised_if_the_module_on_disk_is_old_too() {
    let machine = Machine::ubuntu("24.04").nvidia(RTX_4090, "550.144.03");
    let kernel = machine.kernel_release();
    let old = machine.clone().folder(&format!("/var/lib/dkms/nvidia/550.144.03/{kernel}"));
    let changed = |machine: Machine| {
        let lib = "/usr/lib/x86_64-linux-gnu";
        machine
            .without(&format!("{lib}/libcuda.so.1"))
            .without(&format!("{lib}/libcuda.so.550.144.03"))
            .without(&format!("{lib}/libnvidia-ml.so.1"))
            .without(&format!("{lib}/libnvidia-ml.so.550.144.03"))
            .nvidia_libraries_in(lib, "570.86.15")
            .without_probe("cuda")
            .probe_fails("cuda", "cuInit: 803")
    };
    let findings = check("nv.driver.module-behind", &changed(old), &["nv.driver.lib-mismatch"]);
    assert!(findings[0].summary.contains("a reboot does not help"), "{}", findings[0].summary);
    let new = machine.folder(&format!("/var/lib/dkms/nvidia/570.86.15/{kernel}"));
    let findings = check("nv.driver.reboot", &changed(new), &["nv.driver.lib-mismatch"]);
    assert_eq!(findings[0].remedy.commands, ["sudo systemctl reboot"]);
}

#[test]
fn library_outside_of_the_loaders_path_is_a_finding_of_its_own() {
    // chelsea0x3b/cudarc#296, NVIDIA/cuda-python#17: the driver is in a folder that the loader does not search.
    let machine = Machine::ubuntu("22.04")
        .nvidia_card(RTX_4090, Some("nvidia"))
        .nvidia_module("550.144.03", true)
        .nvidia_nodes();
    let machine = machine
        .nvidia_libraries_in("/usr/local/nvidia/lib64", "550.144.03")
        .cuda("12.4.1")
        .probe_fails("cuda", "libcuda.so.1 could not be opened");
    let findings = check("nv.driver.library-not-on-path", &machine, &["nv.driver.library-not-on-path"]);
    assert!(findings[0].remedy.text.contains("/usr/local/nvidia/lib64"), "{}", findings[0].remedy.text);
}

#[test]
fn installed_toolkit_that_fits_the_driver_is_recommended() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(RTX_4090, "535.183.01")
        .cuda_at("/usr/local/cuda-13.0", "13.0.1")
        .cuda_at("/usr/local/cuda-12.2", "12.2.2")
        .link("/usr/local/cuda", "/usr/local/cuda-13.0")
        .path_first("/usr/local/cuda/bin");
    let findings = check("nv.driver.too-old-beside", &machine, &["nv.driver.too-old"]);
    let remedy = &findings[0].remedy;
    assert!(
        remedy.text.contains("CUDA 12.2 in `/usr/local/cuda-12.2`") && remedy.text.contains("580"),
        "{}",
        remedy.text
    );
    let alone = Machine::ubuntu("22.04").nvidia(RTX_4090, "535.183.01").cuda("13.0.1");
    let findings = check("nv.driver.too-old-branch", &alone, &["nv.driver.too-old"]);
    let remedy = &findings[0].remedy;
    assert!(remedy.text.contains("branch 580") && remedy.text.contains("CUDA 12.2"), "{}", remedy.text);
    assert_eq!(remedy.commands, ["sudo apt update", "sudo apt install nvidia-driver-580"]);
}

#[test]
fn mac_with_an_sdk_that_is_not_sourced_needs_a_variable() {
    let sdk = "/Users/user/VulkanSDK/1.3.296.0/macOS";
    let manifest = format!("{sdk}/share/vulkan/icd.d/MoltenVK_icd.json");
    let machine = Machine::mac("15.2")
        .xcode("16.2", "15.2")
        .homebrew_tools()
        .env("VULKAN_SDK", sdk)
        .vulkan_headers(&format!("{sdk}/include"), 296)
        .program(&format!("{sdk}/bin/glslc"))
        .opaque(&format!("{sdk}/lib/libvulkan.1.dylib"))
        .opaque(&format!("{sdk}/lib/libvulkan.dylib"))
        .opaque(&format!("{sdk}/lib/libMoltenVK.dylib"))
        .file(&manifest, "{\"ICD\": {\"library_path\": \"../../../lib/libMoltenVK.dylib\"}}\n");
    let findings = check("vk.moltenvk-sdk", &machine, &["vk.icd-missing"]);
    assert_eq!(findings[0].remedy.commands, [format!("export VK_DRIVER_FILES={manifest}")]);
    check("vk.moltenvk-sdk-named", &machine.env("VK_DRIVER_FILES", &manifest), &[]);
}

#[test]
fn mac_with_a_loader_needs_moltenvk() {
    // Homebrew has the loader and the driver in two formulas.
    let machine = Machine::mac("15.1")
        .xcode("16.2", "15.2")
        .homebrew_tools()
        .opaque("/opt/homebrew/lib/libvulkan.1.dylib");
    let findings = check_asked(
        "vk.moltenvk-missing",
        &machine,
        Some(&[Backend::Vulkan]),
        &["vk.icd-missing", "vk.sdk-missing"],
    );
    assert_eq!(findings[0].remedy.commands, ["brew install molten-vk"]);
}

#[test]
fn visual_studio_is_found_by_its_installers_records() {
    let record = "{\"installationPath\": \"D:\\\\VS\\\\2022\", \"installationVersion\": \"17.13.35818.85\"}";
    let machine = Machine::windows("26100")
        .nvidia_windows(RTX_4090, "572.83")
        .file(r"C:\ProgramData\Microsoft\VisualStudio\Packages\_Instances\0a1b2c3d\state.json", record)
        .visual_studio_at(r"D:\VS\2022", "14.43.34808");
    let state = machine::inspect(&machine.host(), CATALOGUE.clone());
    let found = state.inventory.of("msvc").first().expect("Visual Studio in its own folder");
    assert_eq!(found.found_via, ["visual-studio"]);
    assert_eq!(state.matrix.verdict(Backend::Cpu).build, Readiness::Ready);
}

#[test]
fn rocm_core_sdk_is_found_without_links() {
    let machine = Machine::ubuntu("24.04").rocm_at("/opt/rocm/core-7.14", "7.14.0", &["gfx1100"]);
    let state = machine::inspect(&machine.host(), CATALOGUE.clone());
    let copy = state.inventory.chosen("rocm").expect("ROCm in /opt/rocm/core-7.14");
    assert_eq!(
        (copy.root.as_str(), copy.version().unwrap().release()),
        ("/opt/rocm/core-7.14", "7.14".to_owned())
    );
}

#[test]
fn vulkan_sdk_in_usr_local_is_found() {
    let root = "/usr/local/VulkanSDK/1.4.313.0/x86_64";
    let machine = Machine::ubuntu("24.04")
        .vulkan_headers(&format!("{root}/include"), 313)
        .program(&format!("{root}/bin/glslc"));
    let state = machine::inspect(&machine.host(), CATALOGUE.clone());
    assert_eq!(state.inventory.chosen("vulkan").map(|copy| copy.root.as_str()), Some(root));
    assert!(!state.inventory.of("glslc").is_empty());
}

#[test]
fn adreno_is_found_in_the_registry() {
    // The vendor's id is `QCOM` in ASCII (ANGLE, bug 390866623); the adapter is an ACPI device.
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000";
    let machine = Machine::windows("26100")
        .registry(key, "DriverDesc", "Qualcomm(R) Adreno(TM) X1-85 GPU")
        .registry(key, "MatchingDeviceId", r"ACPI\VEN_QCOM&DEV_0C36")
        .registry(key, "DriverVersion", "31.0.101.0");
    let facts = facts::gather(&machine.host());
    assert_eq!(facts.gpus.iter().map(|gpu| gpu.vendor).collect::<Vec<_>>(), [Vendor::Qualcomm]);
}
