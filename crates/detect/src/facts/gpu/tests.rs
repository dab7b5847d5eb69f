use gpubuild_host::recorded::RecordedHostBuilder;
use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};

use crate::facts::{Facts, Gpu, Vendor, gather};

fn linux() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Linux, Arch::X86_64)
}

/// Adds a PCI device to sysfs. Like in real recordings, the driver's folder is missing.
fn pci(
    host: RecordedHostBuilder,
    address: &str,
    class: &str,
    ids: (&str, &str),
    driver: Option<&str>,
) -> RecordedHostBuilder {
    let folder = format!("/sys/devices/pci0000:00/{address}");
    let host = host
        .link(&format!("/sys/bus/pci/devices/{address}"), &format!("../../../devices/pci0000:00/{address}"))
        .file(&format!("{folder}/class"), &format!("{class}\n"))
        .file(&format!("{folder}/vendor"), &format!("0x{}\n", ids.0))
        .file(&format!("{folder}/device"), &format!("0x{}\n", ids.1));
    match driver {
        Some(driver) => host.link(&format!("{folder}/driver"), &format!("../../../bus/pci/drivers/{driver}")),
        None => host,
    }
}

/// Formats one line per GPU: vendor, name, address, driver, architecture, sources.
fn lines(facts: &Facts) -> Vec<String> {
    let line = |gpu: &Gpu| {
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        format!(
            "{:?} | {} | {} | {} | {} | {}",
            gpu.vendor,
            gpu.name,
            or_dash(&gpu.pci),
            or_dash(&gpu.kernel_driver),
            or_dash(&gpu.arch),
            gpu.found_via.join(",")
        )
    };
    facts.gpus.iter().map(line).collect()
}

fn check(host: RecordedHostBuilder, expected: &[&str]) -> Facts {
    let host = host.build();
    let facts = gather(&host);
    assert_eq!(lines(&facts), expected);
    assert_eq!(host.counts().processes, 0);
    facts
}

#[test]
fn a_server_with_the_open_driver_is_detected() {
    let host = pci(linux(), "0000:c1:00.0", "0x030200", ("10de", "2335"), Some("nvidia"))
        .file("/sys/module/nvidia/version", "580.65.06\n")
        .file(
            "/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
        )
        .file(
            "/proc/driver/nvidia/gpus/0000:c1:00.0/information",
            "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-1\nBus Location: \t 0000:c1:00.0\n",
        );
    let facts = check(host, &["Nvidia | NVIDIA H200 | 0000:c1:00.0 | nvidia | sm_90 | sysfs,procfs"]);
    assert_eq!(facts.gpus[0].uuid.as_deref(), Some("GPU-1"));
    let driver = &facts.drivers[0];
    assert_eq!(driver.version.as_ref().unwrap().value.as_str(), "580.65.06");
    assert_eq!(driver.flavour.as_deref(), Some("open"));
}

#[test]
fn the_gpus_of_a_hybrid_laptop_are_ordered_by_address() {
    let host = pci(linux(), "0000:01:00.0", "0x030000", ("10de", "28a0"), Some("nouveau"));
    let host = pci(host, "0000:00:02.0", "0x030000", ("8086", "a780"), Some("i915"));
    let host = pci(host, "0000:00:1f.3", "0x040300", ("8086", "7ad0"), Some("snd_hda_intel"));
    let host = pci(host, "0000:00:0b.0", "0x120000", ("8086", "7d1d"), Some("intel_vpu"));
    let facts = check(
        host,
        &[
            "Intel | Intel UHD Graphics 770 | 0000:00:02.0 | i915 | - | sysfs",
            "Nvidia | NVIDIA GPU 10de:28a0 | 0000:01:00.0 | nouveau | sm_89 | sysfs",
        ],
    );
    assert_eq!(facts.gpus[0].integrated, Some(true));
    let modules: Vec<_> = facts.drivers.iter().map(|driver| driver.module.as_str()).collect();
    assert_eq!(modules, ["i915", "nouveau"]);
}

#[test]
fn the_amd_topology_provides_architecture_and_memory() {
    let node = |host: RecordedHostBuilder, number: u32, properties: &str| {
        host.file(&format!("/sys/class/kfd/kfd/topology/nodes/{number}/properties"), properties)
    };
    let host = pci(linux(), "0000:03:00.0", "0x038000", ("1002", "74a1"), Some("amdgpu"));
    let host = node(host, 0, "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n");
    let host = node(
        host,
        1,
        "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\nlocation_id 768\ndomain 0\ndevice_id 29857\n",
    )
    .file("/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 206141652992\n")
    .file("/sys/module/amdgpu/version", "6.8.5\n");
    let facts = check(host, &["Amd | AMD Instinct MI300X | 0000:03:00.0 | amdgpu | gfx942 | sysfs,kfd"]);
    assert_eq!(facts.gpus[0].memory_bytes, Some(206_141_652_992));
    assert_eq!(facts.drivers[0].version.as_ref().unwrap().value.as_str(), "6.8.5");
}

#[test]
fn the_reported_architecture_overrides_the_name() {
    // An RX 6700 whose topology reports gfx1030, for example because the kernel overrides it.
    let host = pci(linux(), "0000:03:00.0", "0x030000", ("1002", "73df"), Some("amdgpu"))
        .file("/sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_total", "12868124672\n")
        .file(
            "/sys/class/kfd/kfd/topology/nodes/1/properties",
            "gfx_target_version 100300\nlocation_id 768\ndevice_id 29663\n",
        );
    let facts =
        check(host, &["Amd | AMD Radeon RX 6700 series | 0000:03:00.0 | amdgpu | gfx1030 | sysfs,kfd"]);
    assert_eq!(facts.gpus[0].memory_bytes, Some(12_868_124_672));
}

#[test]
fn unbound_and_passed_through_gpus_are_listed() {
    let host = pci(linux(), "0000:01:00.0", "0x030000", ("10de", "2684"), Some("vfio-pci"));
    let host = pci(host, "0000:02:00.0", "0x030000", ("1002", "744c"), None);
    let host = pci(host, "0000:05:00.0", "0x030000", ("1a03", "2000"), Some("ast"));
    let facts = check(
        host,
        &[
            "Nvidia | NVIDIA GeForce RTX 4090 | 0000:01:00.0 | vfio-pci | sm_89 | sysfs",
            "Amd | AMD Radeon RX 7900 series | 0000:02:00.0 | - | gfx1100 | sysfs",
            "Other | GPU 1a03:2000 | 0000:05:00.0 | ast | - | sysfs",
        ],
    );
    assert_eq!(facts.drivers.len(), 1);
}

#[test]
fn wsl_has_a_gpu_if_windows_provides_the_driver_library() {
    let wsl = || {
        pci(linux(), "5582:00:00.0", "0x030200", ("1414", "008e"), Some("dxgkrnl"))
            .device("/dev/dxg")
            .file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    };
    let display = "Virtual | virtual GPU 1414:008e | 5582:00:00.0 | dxgkrnl | - | sysfs";
    let facts = check(wsl(), &[display]);
    assert_eq!(facts.wsl.unwrap().value, 2);
    check(
        wsl().opaque("/usr/lib/wsl/lib/libcuda.so.1"),
        &[display, "Nvidia | NVIDIA GPU (of the Windows host) | - | dxgkrnl | - | wsl"],
    );
}

#[test]
fn device_nodes_are_used_in_a_container_without_sysfs() {
    let host = linux()
        .device("/dev/nvidia0")
        .device("/dev/nvidia1")
        .device("/dev/nvidiactl")
        .file("/.dockerenv", "");
    let facts = check(
        host,
        &[
            "Nvidia | NVIDIA GPU (/dev/nvidia0) | - | - | - | dev",
            "Nvidia | NVIDIA GPU (/dev/nvidia1) | - | - | - | dev",
        ],
    );
    assert_eq!(facts.container.unwrap().value, "docker");
}

#[test]
fn a_jetson_is_detected_by_its_device_tree() {
    let host = RecordedHost::builder(Os::Linux, Arch::Aarch64)
        .file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
        .file("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n")
        .directory("/sys/module/nvgpu");
    let facts =
        check(host, &["Nvidia | NVIDIA Jetson AGX Orin Developer Kit | - | nvgpu | sm_87 | device-tree"]);
    assert_eq!(facts.gpus[0].integrated, Some(true));
}

#[test]
fn windows_gpus_come_from_the_registry() {
    let class = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}";
    let pci = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI";
    let adapter = |host: RecordedHostBuilder, number: &str, values: &[(&str, &str)]| {
        values
            .iter()
            .fold(host, |host, (name, value)| host.registry(&format!(r"{class}\{number}"), name, value))
    };
    let device = format!(r"{pci}\VEN_10DE&DEV_2684&SUBSYS_1\4&2&0&0008");
    let bare = format!(r"{pci}\VEN_8086&DEV_56A0&SUBSYS_1\4&2&0&0009");
    let host = RecordedHost::builder(Os::Windows, Arch::X86_64);
    let host = adapter(
        host,
        "0000",
        &[
            ("DriverDesc", "NVIDIA GeForce RTX 4090"),
            ("DriverVersion", "32.0.15.7283"),
            ("MatchingDeviceId", r"pci\ven_10de&dev_2684"),
        ],
    );
    let removed = [("DriverDesc", "AMD Radeon RX 580"), ("MatchingDeviceId", r"PCI\VEN_1002&DEV_67DF")];
    let host = adapter(host, "0001", &removed);
    let host =
        adapter(host, "0002", &[("DriverDesc", "Remote Display"), ("MatchingDeviceId", r"ROOT\Remote")])
            .registry_number(&format!(r"{class}\0000"), "HardwareInformation.qwMemorySize", 25_757_220_864)
            .registry(&device, "ClassGUID", "{4d36e968-e325-11ce-bfc1-08002be10318}")
            .registry(&device, "Driver", r"{4d36e968-e325-11ce-bfc1-08002be10318}\0000")
            .registry(
                &device,
                "LocationInformation",
                "@pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)",
            )
            .registry(&bare, "CompatibleIDs", "PCI\\VEN_8086&CC_0300\nPCI\\CC_030000")
            .registry(&bare, "DeviceDesc", "@oem1.inf;Video Controller")
            .registry(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion", "CurrentBuildNumber", "22631");
    let facts = check(
        host,
        &[
            "Nvidia | NVIDIA GeForce RTX 4090 | 0000:01:00.0 | nvidia | sm_89 | registry",
            "Intel | Video Controller | - | - | - | registry",
        ],
    );
    assert_eq!(facts.gpus[0].memory_bytes, Some(25_757_220_864));
    assert_eq!(facts.drivers[0].version.as_ref().unwrap().value.as_str(), "572.83");
    assert_eq!(facts.distro.unwrap().value.label(), "windows-11");
    assert_eq!(facts.libc.unwrap().value.label(), "msvcrt");
}

#[test]
fn windows_adapters_are_listed_without_pci_devices() {
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000";
    let host = RecordedHost::builder(Os::Windows, Arch::X86_64)
        .registry(key, "DriverDesc", "AMD Radeon RX 7900 XTX")
        .registry(key, "DriverVersion", "32.0.11029.1008")
        .registry(key, "MatchingDeviceId", r"PCI\VEN_1002&DEV_744C");
    check(host, &["Amd | AMD Radeon RX 7900 XTX | - | amdgpu | gfx1100 | registry"]);
}

#[test]
fn only_macs_with_apple_processors_have_a_known_gpu() {
    let apple = RecordedHost::builder(Os::Macos, Arch::Aarch64);
    check(apple, &["Apple | Apple GPU | - | - | - | platform"]);
    check(RecordedHost::builder(Os::Macos, Arch::X86_64), &[]);
}

#[test]
fn overrides_replace_hardware() {
    let facts = check(
        linux().env("GPUBUILD_SET", "cuda.driver=550.54,cuda.cc=9.0,rocm.gfx=942"),
        &[
            "Nvidia | NVIDIA GPU sm_90 | - | nvidia | sm_90 | override",
            "Amd | AMD GPU gfx942 | - | amdgpu | gfx942 | override",
        ],
    );
    assert_eq!(facts.drivers[0].version.as_ref().unwrap().found_via, "override");
    let host = pci(linux(), "0000:01:00.0", "0x030000", ("10de", "2684"), Some("nvidia"))
        .file("/sys/module/nvidia/version", "580.65.06")
        .env("UV_CUDA_DRIVER_VERSION", "550.54")
        .env("CUDAARCHS", "75");
    let facts = check(host, &["Nvidia | NVIDIA GeForce RTX 4090 | 0000:01:00.0 | nvidia | sm_89 | sysfs"]);
    assert_eq!(facts.drivers[0].version.as_ref().unwrap().value.as_str(), "550.54");
    assert_eq!(facts.overrides.len(), 2);
}

#[test]
fn gpus_are_detected_from_the_drm_class_alone() {
    let host = linux()
        .file("/sys/class/drm/card1/device/vendor", "0x1002\n")
        .file("/sys/class/drm/card1/device/device", "0x744c\n")
        .file("/sys/class/drm/card1/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:0A:00.0\n")
        .directory("/sys/class/drm/card1-DP-1")
        .file("/sys/class/drm/card1/device/mem_info_vram_total", "25753026560\n");
    let facts = check(host, &["Amd | AMD Radeon RX 7900 series | 0000:0a:00.0 | amdgpu | gfx1100 | drm"]);
    assert_eq!(facts.gpus[0].memory_bytes, Some(25_753_026_560));
    assert_eq!(facts.gpus[0].vendor, Vendor::Amd);
}

#[test]
fn an_empty_host_has_no_facts_and_no_errors() {
    let facts = check(linux(), &[]);
    assert!(facts.distro.is_none() && facts.kernel.is_none() && facts.libc.is_none());
    assert!(facts.drivers.is_empty() && facts.container.is_none() && facts.wsl.is_none());
}
