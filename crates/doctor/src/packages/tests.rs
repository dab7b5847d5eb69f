use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit;
use gpubuild_host::recorded::RecordedHostBuilder;
use gpubuild_host::{HostInfo, RecordedHost};

use super::*;

fn choices(host: RecordedHostBuilder) -> Vec<PackageChoice> {
    let host = host.build();
    let catalogue = Catalogue::embedded();
    let facts = gpubuild_detect::facts::gather(&host);
    let inventory = toolkit::probe(&host, &catalogue);
    let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &Probes::new());
    assert_eq!(host.counts().processes, 0);
    choose(&facts, &inventory, &catalogue, &matrix, &toolkit::probe_drivers(&host, &Backend::ALL))
}

fn linux() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Linux, Arch::X86_64)
        .file("/etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n")
}

fn pci(host: RecordedHostBuilder, vendor: &str, device: &str, driver: &str) -> RecordedHostBuilder {
    let folder = "/sys/bus/pci/devices/0000:03:00.0";
    host.file(&format!("{folder}/class"), "0x030000\n")
        .file(&format!("{folder}/vendor"), &format!("{vendor}\n"))
        .file(&format!("{folder}/device"), &format!("{device}\n"))
        .link(&format!("{folder}/driver"), &format!("../../../bus/pci/drivers/{driver}"))
        .directory(&format!("/sys/bus/pci/drivers/{driver}"))
}

fn nvidia(device: &str, version: &str) -> PackageChoice {
    let host =
        pci(linux(), "0x10de", device, "nvidia").file("/sys/module/nvidia/version", &format!("{version}\n"));
    choices(host).remove(0)
}

fn amd(gfx: u32, device: u16) -> PackageChoice {
    let node = format!(
        "cpu_cores_count 0\nvendor_id 4098\ndevice_id {device}\nlocation_id 768\ndomain 0\ngfx_target_version {gfx}\n"
    );
    let host = pci(linux(), "0x1002", &format!("{device:#06x}"), "amdgpu")
        .file("/sys/class/kfd/kfd/topology/nodes/1/properties", &node);
    choices(host).remove(0)
}

/// The last path segment of the index, the package if it is on PyPI, or `none`.
fn short(advice: &Advice) -> &str {
    let index = advice
        .index
        .as_deref()
        .map(|index| index.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
    index.or(advice.package.as_deref()).unwrap_or("none")
}

#[test]
fn table_rows_are_complete() {
    let table = table();
    for row in table.torch.iter().chain(&table.cupy).chain(&table.onnxruntime) {
        assert!(!row.source.is_empty() && !row.on.is_empty() && !row.versions.is_empty(), "{}", row.id);
        for arch in &row.archs {
            let is_valid = match row.vendor {
                Vendor::Nvidia => arch.bytes().all(|byte| byte.is_ascii_digit()),
                _ => arch.starts_with("gfx"),
            };
            assert!(is_valid, "{}: {arch}", row.id);
        }
        if row.vendor == Vendor::Nvidia {
            assert!(row.on.iter().all(|os| row.driver.contains_key(os)), "{} has no driver", row.id);
        }
        assert!(row.index.iter().all(|index| index.starts_with("https://")), "{}", row.id);
    }
}

#[test]
fn nvidia_gpus_get_builds_for_their_generation_and_driver() {
    for (device, driver, torch, cupy) in [
        // H200, RTX 4090, RTX 5090 with a new driver.
        ("0x2335", "590.48.01", "cu132", "cupy-cuda13x[ctk]"),
        ("0x2684", "580.65.06", "cu132", "cupy-cuda13x[ctk]"),
        ("0x2b85", "580.65.06", "cu132", "cupy-cuda13x[ctk]"),
        // The same with drivers that do not support CUDA 13.
        ("0x2684", "550.144.03", "cu128", "cupy-cuda12x[ctk]"),
        ("0x2b85", "570.86.16", "cu128", "cupy-cuda12x[ctk]"),
        // GTX 1080 and Tesla V100: the last builds with code for them.
        ("0x1b80", "580.65.06", "cu126", "cupy-cuda12x[ctk]"),
        ("0x1db1", "580.65.06", "cu126", "cupy-cuda12x[ctk]"),
        // An old driver.
        ("0x2684", "470.256.02", "cu118", "cupy-cuda11x"),
    ] {
        let choice = nvidia(device, driver);
        assert_eq!(
            (short(&choice.torch), short(&choice.cupy)),
            (torch, cupy),
            "{device} {driver}: {choice:?}"
        );
    }
    let blackwell = nvidia("0x2b85", "470.256.02");
    assert_eq!(short(&blackwell.torch), "none");
    assert!(blackwell.torch.why.contains("470.256.02"), "{}", blackwell.torch.why);
}

#[test]
fn amd_gpus_get_builds_for_their_architecture() {
    for (gfx, device, torch, cupy) in [
        (110_000, 0x744c, "rocm7.2", "cupy-rocm-7-0"),
        (120_001, 0x7550, "rocm7.2", "cupy-rocm-7-0"),
        (90402, 0x74a1, "rocm7.2", "cupy-rocm-7-0"),
        (90000, 0x687f, "rocm7.2", "cupy-rocm-5-0"),
        (110_003, 0x15bf, "whl-multi-arch", "none"),
        (100_301, 0x73df, "whl-multi-arch", "cupy-rocm-7-0"),
        // Polaris: only Vulkan supports it.
        (80003, 0x67df, "none", "none"),
    ] {
        let choice = amd(gfx, device);
        assert_eq!((short(&choice.torch), short(&choice.cupy)), (torch, cupy), "{choice:?}");
    }
    let polaris = amd(80003, 0x67df);
    assert!(polaris.torch.beside.unwrap().contains("only through Vulkan"));
    let own = amd(100_301, 0x73df).torch;
    assert_eq!(
        own.command.unwrap(),
        "pip install \"torch[device-gfx1031]\" --index-url https://repo.amd.com/rocm/whl-multi-arch/"
    );
    let related = amd(100_301, 0x73df).cupy;
    assert_eq!(
        (related.variables["HSA_OVERRIDE_GFX_VERSION"].as_str(), short(&related)),
        ("10.3.0", "cupy-rocm-7-0")
    );
    let related = amd(100_103, 0x13fe).torch;
    assert_eq!(related.variables["HSA_OVERRIDE_GFX_VERSION"], "10.1.0");
    assert_eq!(related.package.as_deref(), Some("torch[device-gfx1010]"));
    assert!(amd(110_000, 0x744c).cupy.needs[0].contains("ROCm 7.0"));
}

#[test]
fn apple_and_intel_gpus_and_machines_without_gpu() {
    let mac = choices(RecordedHost::builder(Os::Macos, Arch::Aarch64)).remove(0);
    assert_eq!((short(&mac.torch), short(&mac.cupy)), ("torch", "none"));
    assert!(mac.cupy.beside.unwrap().contains("mlx"));
    let arc = choices(pci(linux(), "0x8086", "0xe20b", "xe")).remove(0);
    assert_eq!((short(&arc.torch), short(&arc.cupy)), ("xpu", "none"));
    let old = choices(pci(linux(), "0x8086", "0x3e92", "i915")).remove(0);
    assert_eq!(short(&old.torch), "none");
    let without_gpu = choices(linux()).remove(0);
    assert_eq!((without_gpu.gpu.as_str(), short(&without_gpu.torch)), ("processor", "cpu"));
    assert_eq!(
        without_gpu.torch.command.unwrap(),
        "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    );
}

#[test]
fn driver_that_reports_only_its_cuda_version_selects_a_build() {
    let wsl = || {
        linux()
            .file("/proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")
            .device("/dev/dxg")
            .opaque("/usr/lib/wsl/lib/libcuda.so.1")
    };
    let answer = |version: u32| {
        format!(
            "{{\"driver_version\": {version}, \"devices\": [{{\"name\": \"NVIDIA GeForce RTX 4070\", \"cc\": \"8.9\"}}]}}"
        )
    };
    for (cuda, torch) in [(12060, "cu128"), (13000, "cu132"), (11080, "cu118")] {
        let host = wsl().probe("cuda", &answer(cuda)).build();
        let catalogue = Catalogue::embedded();
        let facts = gpubuild_detect::facts::gather(&host);
        let inventory = toolkit::probe(&host, &catalogue);
        let probes = toolkit::probe_drivers(&host, &Backend::ALL);
        let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
        let choice = choose(&facts, &inventory, &catalogue, &matrix, &probes).remove(0);
        assert_eq!(short(&choice.torch), torch, "{choice:?}");
    }
}

#[test]
fn jetson_boards_have_their_own_index() {
    let board = RecordedHost::builder(Os::Linux, Arch::Aarch64)
        .file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
        .directory("/sys/module/nvgpu");
    let choice = choices(board).remove(0);
    assert_eq!(short(&choice.torch), "none");
    assert!(choice.torch.beside.unwrap().contains("jetson-ai-lab"));
}

#[test]
fn requirements_are_quoted_for_the_shell() {
    assert_eq!(command("torch<2.15", None), "pip install \"torch<2.15\"");
    assert_eq!(command("cupy-cuda12x[ctk]", None), "pip install \"cupy-cuda12x[ctk]\"");
}
