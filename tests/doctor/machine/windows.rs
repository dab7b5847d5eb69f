//! Windows: Visual Studio, GPU drivers, the Vulkan SDK.

use gpubuild_host::{Arch, Os};

use super::Machine;
use super::nvidia::{Card, cuda_of};

const ADAPTERS: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}";
const CURRENT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";

impl Machine {
    /// Windows 10 or 11 by build number: `19045`, `22631`, `26100`.
    pub fn windows(build: &str) -> Self {
        Self::new(Os::Windows, Arch::X86_64)
            .env("Path", r"C:\Windows\system32;C:\Windows")
            .env("PATHEXT", ".COM;.EXE;.BAT;.CMD")
            .env("SystemRoot", r"C:\Windows")
            .env("ProgramFiles", r"C:\Program Files")
            .env("ProgramFiles(x86)", r"C:\Program Files (x86)")
            .env("USERPROFILE", r"C:\Users\user")
            .env("LOCALAPPDATA", r"C:\Users\user\AppData\Local")
            .env("NUMBER_OF_PROCESSORS", "16")
            .env("PROCESSOR_IDENTIFIER", "AMD64 Family 25 Model 33 Stepping 2, AuthenticAMD")
            .registry(CURRENT, "ProductName", "Windows 10 Pro")
            .registry(CURRENT, "CurrentBuildNumber", build)
            .opaque(r"C:\Windows\System32\vulkan-1.dll")
            .opaque(r"C:\Windows\System32\OpenCL.dll")
    }

    /// Adds Visual Studio 2022 with a toolset, such as `14.43.34808`.
    pub fn visual_studio(self, toolset: &str) -> Self {
        self.visual_studio_at(r"C:\Program Files\Microsoft Visual Studio\2022\Community", toolset)
    }

    /// Adds Visual Studio in a folder.
    pub fn visual_studio_at(self, root: &str, toolset: &str) -> Self {
        let extensions = format!(r"{root}\Common7\IDE\CommonExtensions\Microsoft\CMake");
        self.program(&format!(r"{root}\VC\Tools\MSVC\{toolset}\bin\Hostx64\x64\cl.exe"))
            .program(&format!(r"{extensions}\CMake\bin\cmake.exe"))
            .folder(&format!(r"{extensions}\CMake\share\cmake-3.30"))
            .program(&format!(r"{extensions}\Ninja\ninja.exe"))
            .folder(&format!(r"{root}\MSBuild\Microsoft\VC\v170\BuildCustomizations"))
    }

    /// Adds the CUDA integration of Visual Studio 2022, such as `12.6`.
    pub fn visual_studio_cuda(self, version: &str) -> Self {
        let folder = r"C:\Program Files\Microsoft Visual Studio\2022\Community\MSBuild\Microsoft\VC\v170\BuildCustomizations";
        self.file(&format!(r"{folder}\CUDA {version}.props"), "<Project/>\n")
            .file(&format!(r"{folder}\CUDA {version}.targets"), "<Project/>\n")
    }

    /// Adds an NVIDIA GPU and its driver, with the version as Windows shows it (`572.83`).
    pub fn nvidia_windows(self, card: Card, version: &str) -> Self {
        let store = r"C:\Windows\System32\DriverStore\FileRepository\nv_dispi.inf_amd64_0123456789abcdef";
        let key = format!(r"{ADAPTERS}\0000");
        let digits: String = version.chars().filter(char::is_ascii_digit).collect();
        let (front, back) = digits.split_at(1);
        let windows = format!("32.0.1{front}.{back}");
        let answer = format!(
            "{{\"driver_version\": {}, \"devices\": [{{\"name\": \"{}\", \"cc\": \"{}\", \"memory_bytes\": {}, \"pci\": \"0000:01:00.0\"}}]}}",
            cuda_of(version),
            card.name,
            card.cc,
            card.memory
        );
        self.registry(&key, "DriverDesc", card.name)
            .registry(&key, "ProviderName", "NVIDIA")
            .registry(&key, "DriverVersion", &windows)
            .registry(&key, "MatchingDeviceId", &format!(r"pci\ven_10de&dev_{}", &card.device[2..]))
            .registry(&key, "VulkanDriverName", &format!(r"{store}\nv-vk64.json"))
            .registry(&key, "OpenCLDriverName", &format!(r"{store}\nvopencl64.dll"))
            .file(&format!(r"{store}\nv-vk64.json"), "{\"ICD\": {\"library_path\": \".\\\\nvoglv64.dll\", \"api_version\": \"1.4.303\"}, \"file_format_version\": \"1.0.1\"}\n")
            .opaque(&format!(r"{store}\nvoglv64.dll"))
            .opaque(&format!(r"{store}\nvopencl64.dll"))
            .opaque(r"C:\Windows\System32\nvcuda.dll")
            .opaque(r"C:\Windows\System32\nvml.dll")
            .probe("cuda", &answer)
    }

    /// Adds an AMD GPU and its driver.
    pub fn amd_windows(self, name: &str, device: &str) -> Self {
        let key = format!(r"{ADAPTERS}\0000");
        let store =
            r"C:\Windows\System32\DriverStore\FileRepository\u0401234.inf_amd64_0123456789abcdef\B401234";
        self.registry(&key, "DriverDesc", name)
            .registry(&key, "ProviderName", "Advanced Micro Devices, Inc.")
            .registry(&key, "DriverVersion", "32.0.12033.1030")
            .registry(&key, "MatchingDeviceId", &format!(r"PCI\VEN_1002&DEV_{device}&REV_C8"))
            .registry(&key, "VulkanDriverName", &format!(r"{store}\amd-vulkan64.json"))
            .file(&format!(r"{store}\amd-vulkan64.json"), "{\"ICD\": {\"library_path\": \".\\\\amdvlk64.dll\", \"api_version\": \"1.3.292\"}, \"file_format_version\": \"1.0.0\"}\n")
            .opaque(&format!(r"{store}\amdvlk64.dll"))
            .opaque(r"C:\Windows\System32\amdhip64_6.dll")
    }

    /// Adds the Vulkan SDK and its variable.
    pub fn vulkan_sdk_windows(self, version: &str) -> Self {
        let root = format!(r"C:\VulkanSDK\{version}");
        let patch = version.split('.').nth(2).unwrap_or("0");
        self.env("VULKAN_SDK", &root)
            .path_first(&format!(r"{root}\Bin"))
            .file(&format!(r"{root}\Include\vulkan\vulkan.h"), "#include \"vulkan_core.h\"\n")
            .file(
                &format!(r"{root}\Include\vulkan\vulkan_core.h"),
                &format!("#define VK_HEADER_VERSION {patch}\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 4, VK_HEADER_VERSION)\n"),
            )
            .opaque(&format!(r"{root}\Lib\vulkan-1.lib"))
            .program(&format!(r"{root}\Bin\glslc.exe"))
    }
}
