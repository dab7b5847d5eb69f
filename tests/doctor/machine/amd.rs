//! AMD: GPUs, the kernel driver, ROCm.

use super::Machine;
use super::linux::RENDER;

/// A GPU.
#[derive(Debug, Clone, Copy)]
pub struct AmdCard {
    pub name: &'static str,
    pub device: u16,
    pub class: &'static str,
    /// The architecture as the kernel reports it: 110000 is gfx1100.
    pub gfx: u32,
    pub memory: u64,
}

const fn amd(name: &'static str, device: u16, class: &'static str, gfx: u32, gib: u64) -> AmdCard {
    AmdCard { name, device, class, gfx, memory: gib << 30 }
}

pub const RX_580: AmdCard = amd("AMD Radeon RX 580 Series", 0x67df, "0x030000", 80003, 8);
pub const VEGA_64: AmdCard = amd("AMD Radeon RX Vega", 0x687f, "0x030000", 90000, 8);
pub const RX_5700: AmdCard = amd("AMD Radeon RX 5700 XT", 0x731f, "0x030000", 100_100, 8);
pub const RX_6700: AmdCard = amd("AMD Radeon RX 6700 XT", 0x73df, "0x030000", 100_301, 12);
pub const RX_6800: AmdCard = amd("AMD Radeon RX 6800 XT", 0x73bf, "0x030000", 100_300, 16);
pub const RX_7900: AmdCard = amd("AMD Radeon RX 7900 XTX", 0x744c, "0x030000", 110_000, 24);
pub const RX_7600: AmdCard = amd("AMD Radeon RX 7600", 0x7480, "0x030000", 110_002, 8);
pub const RX_9070: AmdCard = amd("AMD Radeon RX 9070 XT", 0x7550, "0x030000", 120_001, 16);
pub const MI210: AmdCard = amd("AMD Instinct MI210", 0x740f, "0x038000", 90010, 64);
pub const MI300X: AmdCard = amd("AMD Instinct MI300X", 0x74a1, "0x120000", 90402, 192);
pub const RAPHAEL: AmdCard = amd("AMD Radeon Graphics", 0x164e, "0x030000", 100_306, 1);
pub const PHOENIX: AmdCard = amd("AMD Radeon 780M", 0x15bf, "0x030000", 110_003, 2);

impl AmdCard {
    /// The name of the architecture, such as `gfx1100`.
    pub fn gfx(self) -> String {
        format!("gfx{}{:x}{:x}", self.gfx / 10000, self.gfx / 100 % 100, self.gfx % 100)
    }
}

impl Machine {
    /// Adds a GPU with amdgpu, its KFD node and its device nodes.
    pub fn amd(self, card: AmdCard) -> Self {
        self.amd_at(card, "0000:03:00.0", 1)
    }

    /// Adds a GPU at a PCI address with a KFD topology node; further GPUs use 2, 3, …
    pub fn amd_at(self, card: AmdCard, address: &str, node: u32) -> Self {
        let bus = u32::from_str_radix(&address[5..7], 16).expect("a bus number");
        let base = format!("/sys/class/kfd/kfd/topology/nodes/{node}");
        let render = format!("/dev/dri/renderD{}", 127 + node);
        self.amd_card_at(card, address, Some("amdgpu"))
            .file(&format!("/sys/bus/pci/devices/{address}/mem_info_vram_total"), &format!("{}\n", card.memory))
            .file("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\n")
            .file(
                &format!("{base}/properties"),
                &format!(
                    "cpu_cores_count 0\nsimd_count 96\nmem_banks_count 1\nvendor_id 4098\ndevice_id {}\nlocation_id {}\ndomain 0\ngfx_target_version {}\ndrm_render_minor {}\n",
                    card.device, bus << 8, card.gfx, 127 + node
                ),
            )
            .file(&format!("{base}/mem_banks/0/properties"), &format!("heap_type 1\nsize_in_bytes {}\nflags 0\n", card.memory))
            .device_of("/dev/kfd", RENDER, "")
            .device_of(&render, RENDER, "")
    }

    /// Adds a GPU on the PCI bus only.
    pub fn amd_card_at(self, card: AmdCard, address: &str, driver: Option<&str>) -> Self {
        self.pci(address, card.class, "0x1002", &format!("{:#06x}", card.device), driver)
    }

    /// Adds AMD's packages in `/opt/rocm-X.Y.Z` with the default link; `archs` are the targets of its rocBLAS.
    pub fn rocm(self, version: &str, archs: &[&str]) -> Self {
        let root = format!("/opt/rocm-{version}");
        self.rocm_at(&root, version, archs)
            .link("/opt/rocm", &root)
            .file("/etc/ld.so.conf.d/10-rocm-opencl.conf", "/opt/rocm/lib\n")
            .path_first("/opt/rocm/bin")
    }

    /// Adds ROCm in a folder.
    pub fn rocm_at(self, root: &str, version: &str, archs: &[&str]) -> Self {
        let major = version.split('.').next().unwrap_or("6");
        let mut machine = self
            .program(&format!("{root}/bin/hipcc"))
            .program(&format!("{root}/bin/hipconfig"))
            .program(&format!("{root}/bin/rocminfo"))
            .program(&format!("{root}/lib/llvm/bin/clang++"))
            .link(&format!("{root}/llvm"), "lib/llvm")
            .file(&format!("{root}/include/hip/hip_runtime.h"), "#pragma once\n")
            .file(&format!("{root}/.info/version"), &format!("{version}-66\n"))
            .opaque(&format!("{root}/lib/libamdhip64.so.{major}"))
            .link(&format!("{root}/lib/libamdhip64.so"), &format!("libamdhip64.so.{major}"))
            .opaque(&format!("{root}/lib/libhsa-runtime64.so.1"))
            .opaque(&format!("{root}/lib/libhipblas.so"))
            .opaque(&format!("{root}/lib/librocblas.so"))
            .opaque(&format!("{root}/amdgcn/bitcode/ockl.bc"))
            .opaque(&format!("{root}/lib/cmake/hip/hip-config.cmake"))
            .opaque(&format!("{root}/lib/cmake/hip-lang/hip-lang-config.cmake"))
            .opaque(&format!("{root}/lib/cmake/rocblas/rocblas-config.cmake"));
        for arch in archs {
            machine = machine.opaque(&format!("{root}/lib/rocblas/library/TensileLibrary_lazy_{arch}.dat"));
        }
        machine
    }

    /// Adds the result of the HIP probe.
    pub fn amd_answers(self, card: AmdCard, runtime: u32) -> Self {
        let answer = format!(
            "{{\"runtime_version\": {runtime}, \"devices\": [{{\"name\": \"{}\", \"arch\": \"{}\", \"memory_bytes\": {}, \"pci\": \"0000:03:00.0\"}}]}}",
            card.name,
            card.gfx(),
            card.memory
        );
        self.probe("rocm", &answer)
    }
}

/// Targets of AMD's rocBLAS packages of ROCm 6.2.
pub const ROCM_6_2: &[&str] =
    &["gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101"];
/// Targets of AMD's rocBLAS packages of ROCm 7.0.
pub const ROCM_7_0: &[&str] = &[
    "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201",
];
