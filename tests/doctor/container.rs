//! Containers and WSL that lack or lost their GPU, and healthy ones that look similar.

use gpubuild_core::Backend;
use gpubuild_detect::finding::{Finding, Severity};

use crate::machine::*;
use crate::{check, check_asked, diagnose, healthy};

/// NVIDIA's image with a toolkit, with its variables and folders.
fn cuda_image(machine: Machine, version: &str) -> Machine {
    let short = version.rsplit_once('.').unwrap().0.to_owned();
    machine
        .cuda(version)
        .path_first("/usr/local/nvidia/bin")
        .env("NVIDIA_VISIBLE_DEVICES", "all")
        .env("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
        .env("NVIDIA_REQUIRE_CUDA", &format!("cuda>={short}"))
        .env("CUDA_VERSION", version)
        .env("LD_LIBRARY_PATH", "/usr/local/nvidia/lib:/usr/local/nvidia/lib64")
}

/// The GPU and driver of the host, which a container sees even without access to them.
fn visible(machine: Machine, card: Card, driver: &str) -> Machine {
    let text = format!("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build\n");
    machine
        .nvidia_card(card, Some("nvidia"))
        .file("/sys/module/nvidia/version", &format!("{driver}\n"))
        .file("/proc/driver/nvidia/version", &text)
        .nvidia_information("0000:01:00.0", card)
}

/// What `--gpus all` adds to a container: compute libraries, device nodes, nvidia-smi.
fn with_gpus(machine: Machine, card: Card, driver: &str) -> Machine {
    let machine = visible(machine, card, driver).nvidia_nodes().program("/usr/bin/nvidia-smi");
    let lib = machine.lib.clone();
    ["libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"]
        .iter()
        .fold(machine, |machine, name| {
            machine
                .opaque(&format!("{lib}/{name}.{driver}"))
                .link(&format!("{lib}/{name}.1"), &format!("{name}.{driver}"))
        })
        .nvidia_answers(card, driver)
}

fn commands(findings: &[Finding]) -> String {
    findings[0].remedy.commands.join(" && ")
}

#[test]
fn docker_without_gpus_flag_is_diagnosed() {
    let machine = visible(cuda_image(Machine::ubuntu("22.04").docker(), "12.4.1"), RTX_4090, "550.144.03");
    let found = check("ctr.no-gpus-flag", &machine, &["ctr.no-gpus-flag"]);
    assert!(commands(&found).starts_with("docker run --gpus all"), "{found:?}");
    assert!(found[0].remedy.needs.contains(&"host".to_owned()), "{found:?}");
}

#[test]
fn pod_without_gpu_request_is_diagnosed() {
    let machine = cuda_image(Machine::rhel_like("rocky", "9").kubernetes(), "12.6.3");
    let found = check_asked("ctr.no-gpus-flag-pod", &machine, Some(&[Backend::Cuda]), &["ctr.no-gpus-flag"]);
    assert!(commands(&found).contains("nvidia.com/gpu=1"), "{found:?}");
    // The image may be for building only: the finding is listed first but is not an error.
    let unasked = diagnose(&machine, None);
    assert_eq!((unasked[0].id.as_str(), unasked[0].severity), ("ctr.no-gpus-flag", Severity::Info));
    // No error if the PCI bus is visible and lacks such a GPU.
    let without = machine.pci("0000:00:1f.0", "0x060100", "0x8086", "0xa305", None);
    assert!(diagnose(&without, None).iter().all(|one| one.severity == Severity::Info));
}

#[test]
fn pod_without_runtime_class_is_diagnosed() {
    let device = "GPU-8a6f2b1c-1234-5678-9abc-def012345678";
    let image = cuda_image(Machine::ubuntu("22.04").kubernetes(), "12.6.3");
    let machine = image.without_env("NVIDIA_VISIBLE_DEVICES").env("NVIDIA_VISIBLE_DEVICES", device);
    let found = check("ctr.no-gpus-flag-runtime-class", &machine, &["ctr.no-gpus-flag"]);
    assert!(found[0].summary.contains(device), "{found:?}");
    assert!(commands(&found).contains("runtimeClassName: nvidia"), "{found:?}");
    assert!(!commands(&found).contains("--limits"), "{found:?}");
}

#[test]
fn device_of_another_group_in_an_lxc_container_is_diagnosed() {
    let machine = Machine::debian("13")
        .env("container", "lxc")
        .amd(RX_7900)
        .rocm("7.1.1", &["gfx1100"])
        .device_of("/dev/kfd", 44, "permission-denied")
        .user(1000, &[1000, 109]);
    let found = check("ctr.amd-devices-lxc", &machine, &["ctr.amd-devices"]);
    assert!(found[0].remedy.text.contains("gid="), "{found:?}");
    assert!(commands(&found).contains("pct set") && !commands(&found).contains("docker"), "{found:?}");
}

#[test]
fn podman_without_device_flag_is_diagnosed() {
    let machine = visible(Machine::fedora("41").podman().gcc_beside(13).cuda("12.6.3"), L4, "565.57.01");
    let found = check("ctr.no-gpus-flag-podman", &machine, &["ctr.no-gpus-flag"]);
    assert!(commands(&found).contains("nvidia.com/gpu=all"), "{found:?}");
}

#[test]
fn singularity_without_nv_flag_is_diagnosed() {
    let machine = Machine::debian("12")
        .cuda("12.2.2")
        .env("SINGULARITY_CONTAINER", "/home/user/image.sif")
        .folder("/.singularity.d/libs")
        .nvidia_nodes();
    let machine = visible(machine, A100, "535.183.01").without_env("USER");
    let found = check("ctr.no-gpus-flag-singularity", &machine, &["ctr.no-gpus-flag"]);
    assert_eq!(commands(&found), "apptainer exec --nv IMAGE COMMAND  # on the host");
}

#[test]
fn container_without_compute_capability_is_diagnosed() {
    let machine =
        cuda_image(Machine::ubuntu("22.04").docker(), "12.4.1").env("NVIDIA_DRIVER_CAPABILITIES", "utility");
    let machine = with_gpus(machine, RTX_3090, "550.127.05").without_probe("cuda");
    let machine = machine
        .without("/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        .without("/usr/lib/x86_64-linux-gnu/libcuda.so.550.127.05");
    let found = check("ctr.no-gpus-flag-capability", &machine, &["ctr.no-gpus-flag"]);
    assert!(found[0].summary.contains("NVIDIA_DRIVER_CAPABILITIES"), "{}", found[0].summary);
}

#[test]
fn container_on_host_without_driver_is_diagnosed() {
    let machine =
        cuda_image(Machine::ubuntu("22.04").docker(), "12.4.1").nvidia_card(RTX_3060, Some("nouveau"));
    let found = check("two-host-nouveau", &machine, &["nv.driver.nouveau"]);
    assert_eq!(commands(&found), "gpubuild doctor  # on the host");
}

#[test]
fn docker_without_container_toolkit_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .nvidia(RTX_4090, "550.107.02")
        .cuda("12.4.1")
        .program("/usr/bin/docker")
        .program("/usr/bin/dockerd");
    let found = check("ctr.runtime-missing", &machine, &["ctr.runtime-missing"]);
    assert!(commands(&found).contains("nvidia-ctk runtime configure --runtime=docker"), "{found:?}");
    let installed = machine.program("/usr/bin/nvidia-ctk").program("/usr/bin/nvidia-container-runtime").file(
        "/etc/docker/daemon.json",
        "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}",
    );
    assert!(diagnose(&installed, None).iter().all(|one| one.id != "ctr.runtime-missing"));
}

#[test]
fn docker_with_deleted_runtime_is_diagnosed() {
    let machine = Machine::rhel_like("rocky", "9")
        .nvidia(A100, "550.90.07")
        .cuda("12.4.1")
        .program("/usr/bin/dockerd")
        .file("/etc/docker/daemon.json", "{\"default-runtime\": \"nvidia\", \"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}");
    let found = check("ctr.runtime-missing-dangling", &machine, &["ctr.runtime-missing"]);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn container_that_lost_its_gpu_is_diagnosed() {
    let machine = with_gpus(cuda_image(Machine::debian("12").docker(), "12.4.1"), A100, "550.90.07");
    let machine = ["nvidiactl", "nvidia0", "nvidia-uvm"]
        .iter()
        .fold(machine, |machine, node| machine.device_of(&format!("/dev/{node}"), 0, "permission-denied"))
        .probe_fails("cuda", "cuInit answered 100: no CUDA device is visible (driver version 12040)");
    let found = check("ctr.lost-after-reload", &machine, &["ctr.lost-after-reload"]);
    assert!(commands(&found).contains("create-dev-char-symlinks"), "{found:?}");
}

#[test]
fn container_user_outside_device_group_is_diagnosed() {
    let machine = with_gpus(cuda_image(Machine::debian("12").docker(), "12.4.1"), A100, "550.90.07")
        .without_probe("cuda");
    let machine = ["nvidiactl", "nvidia0", "nvidia-uvm"]
        .iter()
        .fold(machine, |machine, node| machine.device_of(&format!("/dev/{node}"), 997, "permission-denied"))
        .user(1000, &[1000]);
    let found = check("nv.device-permission-container", &machine, &["nv.device-permission"]);
    assert!(commands(&found).contains("--group-add 997"), "{found:?}");
}

#[test]
fn container_without_graphics_capability_is_diagnosed() {
    let machine = with_gpus(cuda_image(Machine::ubuntu("22.04").docker(), "12.4.1"), RTX_4090, "550.144.03");
    let machine = machine.vulkan_development().mesa("lvp");
    let found = check("ctr.caps-graphics", &machine, &["ctr.caps-graphics"]);
    assert!(commands(&found).contains("NVIDIA_DRIVER_CAPABILITIES=all"), "{found:?}");
    let asked = diagnose(&machine, Some(&[Backend::Vulkan]));
    assert_eq!((asked[0].id.as_str(), asked[0].severity), ("ctr.caps-graphics", Severity::Error));
}

/// A container that sees the AMD GPU but none of its device nodes.
fn amd_container(card: AmdCard) -> Machine {
    Machine::ubuntu("22.04")
        .docker()
        .amd_card_at(card, "0000:03:00.0", Some("amdgpu"))
        .file("/sys/module/amdgpu/version", "6.10.5\n")
}

#[test]
fn container_without_amd_devices_is_diagnosed() {
    let machine = amd_container(RX_7900).rocm("6.2.0", ROCM_6_2);
    let found = check("ctr.amd-devices", &machine, &["ctr.amd-devices"]);
    assert!(commands(&found).contains("--device=/dev/kfd --device=/dev/dri"), "{found:?}");
    let closed = machine.device_of("/dev/kfd", 993, "permission-denied").device_of(
        "/dev/dri/renderD128",
        993,
        "permission-denied",
    );
    let found = diagnose(&closed.user(1000, &[1000]), None);
    assert_eq!(found[0].id, "ctr.amd-devices", "{}", crate::lines(&found));
    assert!(commands(&found).contains("--group-add 993"), "{found:?}");
}

#[test]
fn container_without_intel_devices_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .docker()
        .pci("0000:03:00.0", "0x030000", "0x8086", "0xe20b", Some("xe"))
        .oneapi_sourced("2025.2")
        .level_zero_loader()
        .level_zero_driver();
    let found = check("ctr.intel-devices", &machine, &["ctr.intel-devices"]);
    assert!(commands(&found).contains("--device=/dev/dri"), "{found:?}");
}

/// WSL with an NVIDIA GPU.
fn wsl_nvidia(version: &str) -> Machine {
    Machine::ubuntu(version)
        .wsl()
        .opaque("/usr/lib/wsl/lib/libcuda.so.1.1")
        .link("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1.1")
        .opaque("/usr/lib/wsl/lib/libnvidia-ml.so.1")
        .program("/usr/lib/wsl/lib/nvidia-smi")
        .cuda("12.6.3")
}

#[test]
fn linux_driver_inside_wsl_is_diagnosed() {
    let machine = wsl_nvidia("22.04")
        .nvidia_libraries("535.183.01")
        .without("/etc/ld.so.conf.d/ld.wsl.conf")
        .probe_fails("cuda", "cuInit answered 100: no CUDA device is visible (driver version 12020)");
    let found = check("wsl.linux-driver-inside", &machine, &["wsl.linux-driver-inside"]);
    assert!(commands(&found).contains("apt purge 'nvidia-*' 'libnvidia-*'"), "{found:?}");
    let second = machine
        .file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n")
        .nvidia_answers(RTX_4070, "572.83");
    let found = diagnose(&second, None);
    assert_eq!((found[0].id.as_str(), found[0].severity), ("wsl.linux-driver-inside", Severity::Warning));
}

#[test]
fn wsl_1_is_diagnosed() {
    let machine = Machine::debian("12").wsl1();
    let found = check("wsl.no-dxg", &machine, &["wsl.no-dxg"]);
    assert!(commands(&found).contains("wsl --set-version Ubuntu 2"), "{found:?}");
}

#[test]
fn wsl_2_without_dxg_is_diagnosed() {
    let machine = Machine::ubuntu("24.04").wsl_without_gpu().cuda("12.6.3");
    let found = check("wsl.no-dxg-2", &machine, &["wsl.no-dxg"]);
    assert_eq!(found[0].severity, Severity::Error);
    assert!(commands(&found).starts_with("wsl --update"), "{found:?}");
}

#[test]
fn wsl_container_without_dxg_is_diagnosed() {
    let machine = cuda_image(Machine::ubuntu("22.04").wsl_without_gpu().docker(), "12.4.1");
    check("ctr.no-gpus-flag-wsl", &machine, &["ctr.no-gpus-flag"]);
}

#[test]
fn rocm_under_wsl_is_diagnosed() {
    let machine = Machine::ubuntu("24.04").wsl().rocm("7.2.1", ROCM_7_0);
    let found = check("wsl.amd", &machine, &["wsl.amd"]);
    assert!(commands(&found).contains("rocdxg-roct"), "{found:?}");
    let bridge = machine.opaque("/opt/rocm-7.2.1/lib/librocdxg.so");
    let found = diagnose(&bridge, None);
    assert_eq!(
        (found[0].id.as_str(), commands(&found).as_str()),
        ("wsl.amd", "export HSA_ENABLE_DXG_DETECTION=1")
    );
    let bridged = diagnose(&bridge.env("HSA_ENABLE_DXG_DETECTION", "1"), None);
    assert!(bridged.iter().all(|one| one.id != "wsl.amd"), "{}", crate::lines(&bridged));
}

#[test]
fn container_with_all_gpus_is_healthy() {
    let machine = with_gpus(cuda_image(Machine::ubuntu("22.04").docker(), "12.4.1"), H100, "550.127.08");
    healthy("healthy-docker-gpus-all", &machine);
}

#[test]
fn pod_with_one_of_several_gpus_is_healthy() {
    let machine = with_gpus(cuda_image(Machine::debian("12").kubernetes(), "12.6.3"), A100, "560.35.05");
    let machine = machine
        .env("NVIDIA_VISIBLE_DEVICES", "GPU-8a6f2b1c-1234-5678-9abc-def012345678")
        .nvidia_card_at("0000:41:00.0", A100, Some("nvidia"))
        .amd_card_at(RAPHAEL, "0000:0b:00.0", Some("amdgpu"));
    healthy("healthy-pod-one-gpu", &machine);
}

#[test]
fn build_container_without_gpu_is_healthy() {
    let machine =
        cuda_image(Machine::debian("12").docker(), "12.6.3").env("CI", "true").env("GITHUB_ACTIONS", "true");
    healthy("healthy-ci-cuda-no-gpu", &machine);
}

#[test]
fn wsl_with_nvidia_is_healthy() {
    healthy("healthy-wsl-nvidia", &wsl_nvidia("24.04"));
}

#[test]
fn hidden_gpu_and_missing_graphics_are_both_diagnosed() {
    let machine = with_gpus(cuda_image(Machine::ubuntu("24.04").docker(), "12.6.3"), L4, "560.35.03");
    let machine = machine.vulkan_development().env("CUDA_VISIBLE_DEVICES", "3");
    let machine =
        machine.probe_fails("cuda", "cuInit answered 100: no CUDA device is visible (driver version 12060)");
    check("two-hidden-graphics", &machine, &["nv.device-hidden", "ctr.caps-graphics"]);
}

#[test]
fn linux_driver_in_wsl_and_missing_compiler_are_both_diagnosed() {
    let machine = wsl_nvidia("24.04")
        .nvidia_libraries("550.107.02")
        .without("/etc/ld.so.conf.d/ld.wsl.conf")
        .without_compiler();
    check("two-wsl-compiler", &machine, &["cpu.compiler-missing", "wsl.linux-driver-inside"]);
}

#[test]
fn driver_mismatch_and_docker_runtime_are_both_diagnosed() {
    let machine = Machine::debian("12")
        .nvidia(A100, "535.183.01")
        .without_probe("cuda")
        .cuda("12.2.2")
        .nvidia_libraries("535.216.01")
        .program("/usr/bin/dockerd");
    check("two-mismatch-docker", &machine, &["nv.driver.lib-mismatch", "ctr.runtime-missing"]);
}
