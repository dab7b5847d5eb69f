//! Vulkan: the SDK's variable, the versions of headers and loader, and variables that select drivers.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{HostPath, Os, ReadFiles, glob};

use super::{SignContext, program};

/// Observations about Vulkan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vulkan {
    /// The SDK that `VULKAN_SDK` names.
    pub sdk: Option<Sdk>,
    /// Folders with headers, in the order of a compiler's search.
    pub headers: Vec<Headers>,
    /// `vulkan_core.h`, if the folder of the chosen headers does not have it.
    pub core_header_missing: Option<HostPath>,
    /// Whether linkers find the loader: `libvulkan.so` in a usual folder or below a Vulkan SDK. True on other systems than Linux.
    pub is_linkable: bool,
    /// The folder of the loader.
    pub loader_folder: Option<HostPath>,
    /// The loader, with the version in its file name.
    pub loader: Option<(HostPath, Version)>,
    /// The variable that selects drivers, if one is set.
    pub chosen: Option<Chosen>,
    /// Path of `vulkaninfo`.
    pub vulkaninfo: Option<HostPath>,
    /// The manifest of MoltenVK in a folder that the loader does not search.
    pub moltenvk: Option<HostPath>,
}

/// The value of `VULKAN_SDK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdk {
    /// Value of the variable.
    pub value: String,
    /// Whether the folder exists.
    pub exists: bool,
    /// Whether it contains `include/vulkan`, where CMake searches.
    pub has_headers: bool,
    /// A folder that contains the SDK, if this one does not.
    pub suggested: Option<HostPath>,
}

/// A folder with Vulkan headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// The folder that contains `vulkan/`.
    pub folder: HostPath,
    /// Version of the C headers: `1.3.275`.
    pub core: Option<Version>,
    /// The `VK_HEADER_VERSION` that the C++ headers require.
    pub cpp: Option<u64>,
}

/// A variable that restricts the loader to the drivers that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Name of the variable: `VK_DRIVER_FILES` or `VK_ICD_FILENAMES`.
    pub name: String,
    /// Value of the variable.
    pub value: String,
    /// Entries that do not exist.
    pub absent: Vec<String>,
}

pub(super) fn gather(context: &SignContext<'_>) -> Vulkan {
    let host = context.host;
    Vulkan {
        sdk: sdk(host),
        headers: headers(context),
        core_header_missing: core_header_missing(context),
        is_linkable: is_linkable(context),
        loader_folder: loader_folder(context),
        loader: loader(context),
        chosen: chosen(host),
        vulkaninfo: program(host, "vulkaninfo"),
        moltenvk: moltenvk(host),
    }
}

fn moltenvk(host: &dyn ReadFiles) -> Option<HostPath> {
    if host.platform().os != Os::Macos {
        return None;
    }
    let home = host.env().get("HOME").unwrap_or("/var/root");
    let sdk = host
        .env()
        .get("VULKAN_SDK")
        .map(|root| format!("{}/{{etc,share}}/vulkan/icd.d/MoltenVK_icd.json", root.trim_end_matches('/')));
    let patterns = [
        "/opt/homebrew/opt/molten-vk/{etc,share}/vulkan/icd.d/MoltenVK_icd.json".to_owned(),
        "/opt/homebrew/Cellar/molten-vk/*/{etc,share}/vulkan/icd.d/MoltenVK_icd.json".to_owned(),
        "/usr/local/opt/molten-vk/{etc,share}/vulkan/icd.d/MoltenVK_icd.json".to_owned(),
        format!("{home}/VulkanSDK/*/macOS/{{etc,share}}/vulkan/icd.d/MoltenVK_icd.json"),
        "/usr/local/VulkanSDK/*/macOS/{etc,share}/vulkan/icd.d/MoltenVK_icd.json".to_owned(),
    ];
    let folders = sdk
        .iter()
        .chain(&patterns)
        .flat_map(|pattern| ["etc", "share"].map(|one| pattern.replace("{etc,share}", one)));
    folders.flat_map(|pattern| glob(host, &pattern)).find(|path| host.is_file(path))
}

fn sdk(host: &dyn ReadFiles) -> Option<Sdk> {
    let value = host.env().get("VULKAN_SDK")?.to_owned();
    let root = host.path(value.trim_end_matches(['/', '\\']));
    let exists = root.is_absolute() && host.is_dir(&root);
    let has_headers = exists && has_headers(host, &root);
    let suggested = if has_headers { None } else { suggested(host, &root) };
    Some(Sdk { value, exists, has_headers, suggested })
}

fn has_headers(host: &dyn ReadFiles, root: &HostPath) -> bool {
    ["include/vulkan/vulkan.h", "include/vulkan/vulkan_core.h", "Include/vulkan/vulkan.h"]
        .iter()
        .any(|file| host.is_file(&root.join(file)))
}

/// The newest SDK below or above the named folder, or in the folders where LunarG's SDK is usually unpacked.
fn suggested(host: &dyn ReadFiles, root: &HostPath) -> Option<HostPath> {
    let below = ["x86_64", "aarch64", "macOS", "*/x86_64", "*/aarch64", "*/macOS", "*", ".."];
    let near = below.iter().flat_map(|sub| glob(host, root.join(sub).normalized().as_str()));
    let found = near.filter(|path| has_headers(host, path)).last();
    found.or_else(|| {
        let home = host.env().get("HOME").or_else(|| host.env().get("USERPROFILE")).unwrap_or("/root");
        let usual = [
            format!("{home}/VulkanSDK/*/x86_64"),
            format!("{home}/VulkanSDK/*/aarch64"),
            format!("{home}/VulkanSDK/*/macOS"),
            "/opt/vulkan-sdk/*/x86_64".to_owned(),
            "/usr/local/VulkanSDK/*/x86_64".to_owned(),
            "/usr/local/VulkanSDK/*/aarch64".to_owned(),
            "/usr/local/VulkanSDK/*/macOS".to_owned(),
            "C:/VulkanSDK/*".to_owned(),
        ];
        let is_for_host =
            |pattern: &&String| (host.platform().os == Os::Windows) == pattern.starts_with("C:");
        usual
            .iter()
            .filter(is_for_host)
            .flat_map(|pattern| glob(host, pattern))
            .filter(|path| has_headers(host, path))
            .last()
    })
}

/// Releases before 1.1.83 have one header for everything.
fn core_header_missing(context: &SignContext<'_>) -> Option<HostPath> {
    let folder = context.inventory.chosen("vulkan")?.part("headers")?;
    let main = context.host.read_start(&folder.join("vulkan/vulkan.h"), 1 << 16).ok()?;
    let core = folder.join("vulkan/vulkan_core.h");
    let includes = String::from_utf8_lossy(&main).contains("vulkan_core.h");
    (includes && !context.host.is_file(&core)).then_some(core)
}

fn is_linkable(context: &SignContext<'_>) -> bool {
    let host = context.host;
    let copies = context.inventory.of("vulkan");
    let triplet = format!("/usr/lib/{}-linux-gnu", host.platform().arch.id());
    let folders =
        [triplet.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64", "/lib64", "/lib"];
    let usual = folders.iter().map(|folder| host.path(folder));
    let mut folders = usual.chain(loader_folder(context));
    host.platform().os != Os::Linux
        || copies.iter().any(|copy| copy.part("import-library").is_some())
        || folders.any(|folder| host.exists(&folder.join("libvulkan.so")))
}

fn loader_folder(context: &SignContext<'_>) -> Option<HostPath> {
    let runtime = context.inventory.runtimes.get(&Backend::Vulkan)?;
    runtime.loader.as_ref()?.value.parent()
}

/// Both headers, which are up to megabytes long, name their version in the first 4 KiB.
const HEAD: usize = 16 << 10;

fn headers(context: &SignContext<'_>) -> Vec<Headers> {
    let host = context.host;
    let chosen = context.inventory.chosen("vulkan").and_then(|copy| copy.part("headers").cloned());
    let usual = ["/usr/local/include", "/usr/include"].map(|folder| host.path(folder));
    let usual = usual.into_iter().filter(|_| host.platform().os == Os::Linux);
    let mut found: Vec<Headers> = Vec::new();
    for folder in chosen.into_iter().chain(usual) {
        let core = host.read_start(&folder.join("vulkan/vulkan_core.h"), HEAD).ok();
        let core = core.and_then(|bytes| core_version(&String::from_utf8_lossy(&bytes)));
        let cpp = host.read_start(&folder.join("vulkan/vulkan.hpp"), HEAD).ok();
        let cpp = cpp.and_then(|bytes| cpp_version(&String::from_utf8_lossy(&bytes)));
        let known = found.iter().any(|one| one.folder.key() == folder.key());
        if !known && (core.is_some() || cpp.is_some()) {
            found.push(Headers { folder, core, cpp });
        }
    }
    found
}

/// The version in `vulkan_core.h`: `1.3.275`.
fn core_version(text: &str) -> Option<Version> {
    let patch = number_after(text, "#define VK_HEADER_VERSION ")?;
    let complete = text.lines().find(|line| line.contains("define VK_HEADER_VERSION_COMPLETE"));
    // VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION); up to 1.2 VK_MAKE_VERSION(1, 2, VK_HEADER_VERSION).
    let arguments =
        complete.and_then(|line| line.split_once('(')?.1.split_once(')').map(|(inside, _)| inside));
    let numbers: Vec<u64> =
        arguments.unwrap_or_default().split(',').filter_map(|word| word.trim().parse().ok()).collect();
    let ([_, major, minor] | [major, minor]) = numbers[..] else { return None };
    format!("{major}.{minor}.{patch}").parse().ok()
}

/// The version in `static_assert( VK_HEADER_VERSION == 275, …`.
fn cpp_version(text: &str) -> Option<u64> {
    let line =
        text.lines().find(|line| line.contains("static_assert") && line.contains("VK_HEADER_VERSION"))?;
    number_after(line, "==")
}

fn number_after(text: &str, before: &str) -> Option<u64> {
    let rest = text.split_once(before)?.1.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The loader with the version in its real file name: `libvulkan.so.1` is a link to `libvulkan.so.1.3.275`.
fn loader(context: &SignContext<'_>) -> Option<(HostPath, Version)> {
    let runtime = context.inventory.runtimes.get(&gpubuild_core::backend::Backend::Vulkan)?;
    let real = context.host.canonical(&runtime.loader.as_ref()?.value).ok()?;
    let name = real.file_name()?;
    let version = name
        .strip_prefix("libvulkan.so.")
        .or_else(|| name.strip_prefix("libvulkan.")?.strip_suffix(".dylib"))?;
    let version: Version = version.parse().ok()?;
    (version.as_str().matches('.').count() == 2).then_some((real, version))
}

fn chosen(host: &dyn ReadFiles) -> Option<Chosen> {
    let (name, value) = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .into_iter()
        .find_map(|name| Some((name, host.env().get(name)?.to_owned())))?;
    let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
    let absent = value
        .split(separator)
        .filter(|entry| !entry.is_empty() && !host.exists(&host.path(entry)))
        .map(str::to_owned)
        .collect();
    Some(Chosen { name: name.to_owned(), value, absent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_versions_are_parsed() {
        let new = "// Version of this file\n#define VK_HEADER_VERSION 275\n\n// Complete version of this file\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)\n";
        assert_eq!(core_version(new).unwrap().as_str(), "1.3.275");
        let old = "#define VK_HEADER_VERSION 131\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_VERSION(1, 2, VK_HEADER_VERSION)\n";
        assert_eq!(core_version(old).unwrap().as_str(), "1.2.131");
        assert_eq!(core_version("#define VK_HEADER_VERSION 70\n"), None);
        assert_eq!(core_version(""), None);
        assert_eq!(
            cpp_version("static_assert( VK_HEADER_VERSION == 268, \"Wrong VK_HEADER_VERSION!\" );\n"),
            Some(268)
        );
        assert_eq!(
            cpp_version("static_assert(VK_HEADER_VERSION ==  131 , \"Wrong VK_HEADER_VERSION!\");"),
            Some(131)
        );
        assert_eq!(cpp_version("#pragma once\n"), None);
    }
}
