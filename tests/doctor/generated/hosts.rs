//! The healthy hosts in which faults are planted: workstations, servers, containers and laptops with everything installed, and the
//! healthy recordings of `tests/hosts`.

use std::path::Path;

use crate::machine::*;

/// Healthy recordings of `tests/hosts` beside `doctor/healthy-*`.
const RECORDED: [&str; 6] = [
    "conda-cuda",
    "debian-12-own-cuda",
    "ubuntu-22.04-h200",
    "ubuntu-22.04-mi300x",
    "windows-11-rtx4070",
    "wsl2-nvidia",
];

/// A computer with NVIDIA's card and the development packages of CUDA, Vulkan and OpenCL.
fn nvidia(base: Machine, card: Card, driver: &str, toolkit: &str) -> Machine {
    base.nvidia(card, driver).cuda(toolkit).vulkan_development().opencl_development()
}

/// A computer with AMD's card and the development packages of ROCm and Vulkan.
fn amd(base: Machine, card: AmdCard, version: &str, archs: &[&str]) -> Machine {
    base.amd(card)
        .rocm(version, archs)
        .vulkan_development()
        .mesa("radeon")
        .opencl_development()
        .file("/etc/OpenCL/vendors/amdocl64.icd", "/opt/rocm/lib/libamdocl64.so\n")
        .opaque(&format!("/opt/rocm-{version}/lib/libamdocl64.so"))
        .program("/usr/bin/lsmod")
}

/// A computer with Intel's card and the development packages of oneAPI, Vulkan and OpenCL.
fn intel(base: Machine, card: &str, driver: &str) -> Machine {
    base.intel(card, "0000:03:00.0", driver)
        .level_zero_loader()
        .level_zero_driver()
        .oneapi("2025.2")
        .oneapi_sourced("2025.2")
        .vulkan_development()
        .mesa("intel")
        .opencl_development()
}

/// A computer on which only Vulkan is used.
fn vulkan(base: Machine, card: AmdCard) -> Machine {
    base.amd(card).vulkan_development().mesa("radeon")
}

fn windows(toolkit: &str) -> Machine {
    let short = toolkit.rsplit_once('.').unwrap().0;
    Machine::windows("26100")
        .nvidia_windows(RTX_4070, "580.97")
        .visual_studio("14.43.34808")
        .cuda_windows(toolkit)
        .visual_studio_cuda(short)
        .vulkan_sdk_windows("1.4.309.0")
}

fn wsl(base: Machine, toolkit: &str) -> Machine {
    base.wsl()
        .opaque("/usr/lib/wsl/lib/libcuda.so.1.1")
        .link("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1.1")
        .program("/usr/lib/wsl/lib/nvidia-smi")
        .path_first("/usr/lib/wsl/lib")
        .nvidia_answers(RTX_4070, "580.97")
        .cuda(toolkit)
}

/// NVIDIA's development image, started with `--gpus all`.
fn container(base: Machine, card: Card, driver: &str, toolkit: &str) -> Machine {
    let lib = base.lib.clone();
    let machine = base
        .docker()
        .cuda(toolkit)
        .env("NVIDIA_VISIBLE_DEVICES", "all")
        .env("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
        .env("CUDA_VERSION", toolkit)
        .nvidia_card(card, Some("nvidia"))
        .file("/sys/module/nvidia/version", &format!("{driver}\n"))
        .nvidia_information("0000:01:00.0", card)
        .nvidia_nodes()
        .program("/usr/bin/nvidia-smi");
    ["libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"]
        .iter()
        .fold(machine, |machine, name| {
            machine
                .opaque(&format!("{lib}/{name}.{driver}"))
                .link(&format!("{lib}/{name}.1"), &format!("{name}.{driver}"))
        })
        .nvidia_answers(card, driver)
}

/// The hosts that are built here.
fn built() -> Vec<(&'static str, Machine)> {
    let ubuntu = Machine::ubuntu;
    let debian = Machine::debian;
    let fedora = Machine::fedora;
    let rhel = Machine::rhel_like;
    vec![
        ("ubuntu-20.04-v100", nvidia(ubuntu("20.04"), V100, "535.183.01", "11.8.0")),
        ("ubuntu-22.04-rtx3090", nvidia(ubuntu("22.04"), RTX_3090, "535.183.01", "12.2.2")),
        ("ubuntu-22.04-rtx4090", nvidia(ubuntu("22.04"), RTX_4090, "550.144.03", "12.4.1")),
        ("ubuntu-22.04-a100", nvidia(ubuntu("22.04"), A100, "570.133.20", "12.8.1")),
        ("ubuntu-22.04-h100", nvidia(ubuntu("22.04"), H100, "580.95.05", "13.0.2")),
        ("ubuntu-24.04-rtx3060", nvidia(ubuntu("24.04"), RTX_3060, "560.35.03", "12.6.3")),
        ("ubuntu-24.04-rtx5090", nvidia(ubuntu("24.04"), RTX_5090, "575.57.08", "12.9.1")),
        ("ubuntu-24.04-l4", nvidia(ubuntu("24.04"), L4, "580.95.05", "13.0.2")),
        ("debian-12-rtx3060", nvidia(debian("12"), RTX_3060, "535.216.01", "12.2.2")),
        ("debian-12-t4", nvidia(debian("12"), T4, "550.127.08", "12.4.1")),
        ("debian-13-rtx5070", nvidia(debian("13"), RTX_5070, "580.95.05", "13.0.2")),
        ("fedora-41-rtx4070", nvidia(fedora("41"), RTX_4070, "570.133.07", "12.8.1")),
        ("fedora-42-rtx5090", nvidia(fedora("42"), RTX_5090, "580.95.05", "13.0.2")),
        ("rocky-9-a100", nvidia(rhel("rocky", "9"), A100, "550.127.08", "12.4.1")),
        ("almalinux-9-h100", nvidia(rhel("almalinux", "9"), H100, "570.133.20", "12.8.1")),
        ("rhel-8-t4", nvidia(rhel("rhel", "8"), T4, "535.183.06", "12.2.2")),
        ("arch-rtx4090", nvidia(Machine::arch_linux(), RTX_4090, "580.95.05", "13.0.2")),
        ("tumbleweed-rtx4070", nvidia(Machine::opensuse("tumbleweed"), RTX_4070, "570.133.07", "12.8.1")),
        ("builder-cuda-12.4", ubuntu("22.04").docker().cuda("12.4.1").env("CI", "true")),
        ("builder-cuda-12.6", rhel("rocky", "9").docker().cuda("12.6.3").env("CI", "true")),
        ("docker-rtx4090", container(ubuntu("22.04"), RTX_4090, "550.144.03", "12.4.1")),
        ("docker-a100", container(debian("12"), A100, "570.133.20", "12.8.1")),
        ("ubuntu-22.04-rx7900", amd(ubuntu("22.04"), RX_7900, "6.2.4", ROCM_6_2)),
        ("ubuntu-22.04-mi210", amd(ubuntu("22.04"), MI210, "6.2.0", ROCM_6_2)),
        ("ubuntu-24.04-rx9070", amd(ubuntu("24.04"), RX_9070, "7.0.2", ROCM_7_0)),
        ("ubuntu-24.04-rx7600", amd(ubuntu("24.04"), RX_7600, "7.0.2", ROCM_7_0)),
        ("debian-12-rx6800", amd(debian("12"), RX_6800, "6.2.4", ROCM_6_2)),
        ("fedora-41-rx7900", amd(fedora("41"), RX_7900, "6.2.4", ROCM_6_2)),
        ("rocky-9-mi300x", amd(rhel("rocky", "9"), MI300X, "7.0.2", ROCM_7_0)),
        ("leap-15.6-rx6800", amd(Machine::opensuse("15.6"), RX_6800, "6.2.4", ROCM_6_2)),
        (
            "docker-rx7900",
            ubuntu("24.04").docker().amd(RX_7900).rocm("6.2.4", ROCM_6_2).program("/usr/bin/lsmod"),
        ),
        ("ubuntu-24.04-a770", intel(ubuntu("24.04"), ARC_A770, "xe")),
        ("ubuntu-22.04-a770", intel(ubuntu("22.04"), ARC_A770, "i915")),
        ("fedora-42-b580", intel(fedora("42"), ARC_B580, "xe")),
        ("rocky-9-a770", intel(rhel("rocky", "9"), ARC_A770, "i915")),
        ("ubuntu-24.04-rx7600-vulkan", vulkan(ubuntu("24.04"), RX_7600)),
        ("debian-13-rx6800-vulkan", vulkan(debian("13"), RX_6800)),
        ("fedora-43-rx7900-vulkan", vulkan(fedora("43"), RX_7900)),
        ("arch-rx9070-vulkan", vulkan(Machine::arch_linux(), RX_9070)),
        ("tumbleweed-rx7600-vulkan", vulkan(Machine::opensuse("tumbleweed"), RX_7600)),
        ("windows-11-cuda-12.6", windows("12.6.3")),
        ("windows-11-cuda-13.0", windows("13.0.2")),
        ("wsl-cuda-12.6", wsl(ubuntu("24.04"), "12.6.3")),
        ("wsl-cuda-12.4", wsl(ubuntu("22.04"), "12.4.1")),
        ("macos-15-xcode", Machine::mac("15.1").xcode("16.1", "15.1").homebrew_tools()),
        ("macos-14-xcode", Machine::mac("14.6").xcode("15.4", "14.5").homebrew_tools()),
        ("debian-12-no-gpu", debian("12")),
        ("fedora-42-no-gpu", fedora("42")),
        ("alpine-no-gpu", Machine::alpine()),
    ]
}

/// All hosts with their names, in a fixed order.
pub fn all() -> Vec<(String, Machine)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    let mut hosts: Vec<(String, Machine)> =
        built().into_iter().map(|(name, machine)| (name.to_owned(), machine)).collect();
    let mut files: Vec<_> = RECORDED.iter().map(|name| folder.join(format!("{name}.toml"))).collect();
    let mut healthy: Vec<_> = std::fs::read_dir(folder.join("doctor"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("healthy-")))
        .collect();
    healthy.sort();
    files.extend(healthy);
    for file in files {
        let name = format!("recorded-{}", file.file_stem().unwrap().to_string_lossy());
        let text = std::fs::read_to_string(&file).unwrap();
        hosts.push((name.clone(), Machine::recorded(&name, &text)));
    }
    hosts
}
