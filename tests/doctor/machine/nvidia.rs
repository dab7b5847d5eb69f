//! NVIDIA: GPUs and drivers.

use super::Machine;

/// A GPU.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    pub name: &'static str,
    pub device: &'static str,
    pub class: &'static str,
    pub cc: &'static str,
    pub memory: u64,
}

const fn card(
    name: &'static str,
    device: &'static str,
    class: &'static str,
    cc: &'static str,
    gib: u64,
) -> Card {
    Card { name, device, class, cc, memory: gib << 30 }
}

pub const GTX_970: Card = card("NVIDIA GeForce GTX 970", "0x13c2", "0x030000", "5.2", 4);
pub const GTX_1080: Card = card("NVIDIA GeForce GTX 1080", "0x1b80", "0x030000", "6.1", 8);
pub const V100: Card = card("Tesla V100-SXM2-16GB", "0x1db1", "0x030200", "7.0", 16);
pub const T4: Card = card("Tesla T4", "0x1eb8", "0x030200", "7.5", 15);
pub const A100: Card = card("NVIDIA A100-SXM4-80GB", "0x20b2", "0x030200", "8.0", 80);
pub const RTX_3060: Card = card("NVIDIA GeForce RTX 3060", "0x2504", "0x030000", "8.6", 12);
pub const RTX_3090: Card = card("NVIDIA GeForce RTX 3090", "0x2204", "0x030000", "8.6", 24);
pub const RTX_4070: Card = card("NVIDIA GeForce RTX 4070", "0x2786", "0x030000", "8.9", 12);
pub const RTX_4090: Card = card("NVIDIA GeForce RTX 4090", "0x2684", "0x030000", "8.9", 24);
pub const L4: Card = card("NVIDIA L4", "0x27b8", "0x030200", "8.9", 23);
pub const H100: Card = card("NVIDIA H100 80GB HBM3", "0x2330", "0x030200", "9.0", 80);
pub const H200: Card = card("NVIDIA H200", "0x2335", "0x030200", "9.0", 141);
pub const RTX_5070: Card = card("NVIDIA GeForce RTX 5070", "0x2f04", "0x030000", "12.0", 12);
pub const RTX_5090: Card = card("NVIDIA GeForce RTX 5090", "0x2b85", "0x030000", "12.0", 32);
pub const B200: Card = card("NVIDIA B200", "0x2901", "0x030200", "10.0", 180);

/// The CUDA version of a driver branch, in the format of `cuDriverGetVersion`.
pub fn cuda_of(driver: &str) -> u32 {
    let branch: u32 = driver.split('.').next().and_then(|part| part.parse().ok()).expect("a driver version");
    match branch {
        ..=459 => 11000,
        460..=469 => 11020,
        470..=494 => 11040,
        495..=509 => 11050,
        510..=514 => 11060,
        515..=519 => 11070,
        520..=524 => 11080,
        525..=529 => 12000,
        530..=534 => 12010,
        535..=544 => 12020,
        545..=549 => 12030,
        550..=554 => 12040,
        555..=559 => 12050,
        560..=569 => 12060,
        570..=574 => 12080,
        575..=579 => 12090,
        580..=589 => 13000,
        590..=594 => 13010,
        595..=609 => 13020,
        _ => 13030,
    }
}

impl Machine {
    /// Adds a GPU on the PCI bus with the driver `nvidia`, `nouveau`, `vfio-pci` or none.
    pub fn nvidia_card(self, card: Card, driver: Option<&str>) -> Self {
        self.nvidia_card_at("0000:01:00.0", card, driver)
    }

    pub fn nvidia_card_at(self, address: &str, card: Card, driver: Option<&str>) -> Self {
        self.pci(address, card.class, "0x10de", card.device, driver)
    }

    /// Adds a GPU with a complete driver: module, libraries, device nodes, probe result. From 560 on with open kernel
    /// modules, if the GPU supports them, as NVIDIA's installer selects.
    pub fn nvidia(self, card: Card, version: &str) -> Self {
        let open = cuda_of(version) >= 12060 && card.cc != "5.2" && card.cc != "6.1" && card.cc != "7.0";
        self.nvidia_card(card, Some("nvidia"))
            .nvidia_module(version, open)
            .nvidia_information("0000:01:00.0", card)
            .nvidia_libraries(version)
            .nvidia_nodes()
            .nvidia_answers(card, version)
    }

    /// Adds the procfs file of the GPU.
    pub fn nvidia_information(self, address: &str, card: Card) -> Self {
        let text = format!(
            "Model: \t\t {}\nIRQ:   \t\t 120\nGPU UUID: \t GPU-8a6f2b1c-1234-5678-9abc-def012345678\nBus Location: \t {address}\nDevice Minor: \t 0\n",
            card.name
        );
        self.file(&format!("/proc/driver/nvidia/gpus/{address}/information"), &text)
    }

    /// Adds the kernel module, loaded and on disk for the running kernel.
    pub fn nvidia_module(self, version: &str, open: bool) -> Self {
        let flavour = if open { "UNIX Open Kernel Module for x86_64" } else { "UNIX x86_64 Kernel Module" };
        let text = format!(
            "NVRM version: NVIDIA {flavour}  {version}  Release Build  (dvs-builder@U22)\nGCC version:  gcc version 12.3.0\n"
        );
        let release = self.kernel_release();
        self.file("/sys/module/nvidia/version", &format!("{version}\n"))
            .file("/proc/driver/nvidia/version", &text)
            .file(
                "/proc/modules",
                "nvidia_uvm 1 0 - Live 0x0\nnvidia_modeset 1 1 - Live 0x0\nnvidia 1 2 - Live 0x0\n",
            )
            .folder("/sys/module/nvidia_uvm/holders")
            .opaque(&format!("/lib/modules/{release}/updates/dkms/nvidia.ko"))
    }

    /// Adds the user-mode driver.
    pub fn nvidia_libraries(self, version: &str) -> Self {
        let lib = self.lib.clone();
        self.nvidia_libraries_in(&lib, version)
            .program("/usr/bin/nvidia-smi")
            .program("/usr/bin/nvidia-modprobe")
            .file("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n")
            .file(
                "/usr/share/vulkan/icd.d/nvidia_icd.json",
                "{\"file_format_version\": \"1.0.1\", \"ICD\": {\"library_path\": \"libGLX_nvidia.so.0\", \"api_version\": \"1.3.277\"}}\n",
            )
    }

    /// Adds the driver libraries in a folder.
    pub fn nvidia_libraries_in(self, folder: &str, version: &str) -> Self {
        let mut machine = self;
        for (name, major) in [
            ("libcuda.so", "1"),
            ("libnvidia-ml.so", "1"),
            ("libnvidia-ptxjitcompiler.so", "1"),
            ("libnvidia-opencl.so", "1"),
            ("libGLX_nvidia.so", "0"),
        ] {
            machine = machine
                .opaque(&format!("{folder}/{name}.{version}"))
                .link(&format!("{folder}/{name}.{major}"), &format!("{name}.{version}"));
        }
        machine
    }

    /// Adds the device nodes, accessible to everyone as the driver creates them.
    pub fn nvidia_nodes(self) -> Self {
        ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"]
            .into_iter()
            .fold(self, |machine, node| machine.device_of(node, 0, ""))
    }

    /// Adds the result of the CUDA probe.
    pub fn nvidia_answers(self, card: Card, version: &str) -> Self {
        let answer = format!(
            "{{\"driver_version\": {}, \"devices\": [{{\"name\": \"{}\", \"cc\": \"{}\", \"memory_bytes\": {}, \"pci\": \"0000:01:00.0\", \"uuid\": \"GPU-8a6f2b1c-1234-5678-9abc-def012345678\"}}]}}",
            cuda_of(version),
            card.name,
            card.cc,
            card.memory
        );
        self.probe("cuda", &answer)
    }
}
