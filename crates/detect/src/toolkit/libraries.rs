//! Properties of known shared libraries, from `toolkits/tables/libraries.toml`, and the releases that introduced functions of NVIDIA's
//! driver.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_host::search::star_matches;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use crate::diagnostic::DiagnosticId;

static TABLE: OnceLock<LibraryTable> = OnceLock::new();
static FUNCTIONS: OnceLock<BTreeMap<String, Version>> = OnceLock::new();

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryTable {
    #[serde(rename = "schema")]
    _schema: u32,
    library: Vec<ToolkitLibrary>,
    system: BTreeMap<Os, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Functions {
    #[serde(rename = "schema")]
    _schema: u32,
    since: BTreeMap<String, Vec<String>>,
}

/// A group of libraries with the same properties.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitLibrary {
    /// Their file names. `*` matches any text, `{version}` matches digits and dots.
    pub names: Vec<String>,
    /// A description for messages.
    pub what: String,
    /// The backend that they belong to.
    pub backend: Option<Backend>,
    /// Their role.
    pub role: LibraryRole,
    /// The toolkit whose release is the number in their name: `cuda`, `rocm`.
    pub major: Option<String>,
    /// The toolkit that contains them.
    pub toolkit: Option<String>,
    /// A group of libraries that must have the same release.
    pub together: Option<String>,
    /// The prefix of the functions of a driver library.
    pub functions: Option<String>,
    /// Libraries that they load at run time.
    #[serde(default)]
    pub opens: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if one is missing.
    pub missing: Option<DiagnosticId>,
    /// Packages that contain them, by package manager.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Whether drivers and the system depend on the machine's own copy, so that a second copy must not be shipped.
    #[serde(default)]
    pub core: bool,
    /// Folders with data files that they read, relative to the library.
    #[serde(default)]
    pub data: Vec<String>,
    /// How to install them, in one sentence.
    pub fix: Option<String>,
}

/// The role of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryRole {
    /// Part of a driver; never shipped with a program.
    Driver,
    /// A loader, which finds drivers.
    Loader,
    /// Part of a toolkit; may be shipped with a program.
    Runtime,
    /// Unrelated to GPUs.
    System,
}

/// The embedded table. A test parses it.
fn table() -> &'static LibraryTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::LIBRARIES).expect("toolkits/tables/libraries.toml is tested")
    })
}

/// Finds the properties of a library by its file name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ToolkitLibrary> {
    let name = plain(name);
    table().library.iter().find(|library| library.names.iter().any(|pattern| matches(pattern, &name)))
}

/// Parses the toolkit release in a library's file name, if its number is one: 12 for `libcudart.so.12`, 11.0 for `cudart64_110.dll`.
#[must_use]
pub fn release(name: &str) -> Option<Version> {
    let plain = plain(name);
    let library = find(&plain)?;
    library.major.as_ref()?;
    let digits = library.names.iter().find_map(|pattern| version_in(pattern, &plain))?;
    // File names of Windows libraries up to CUDA 11 contain the release without a dot.
    match digits.parse::<u32>() {
        Ok(number @ 20..=999) => format!("{}.{}", number / 10, number % 10).parse().ok(),
        _ => digits.parse().ok(),
    }
}

/// Whether a library belongs to a GPU driver whose functions are known.
#[must_use]
pub fn is_driver(name: &str) -> bool {
    find(name).is_some_and(|library| library.functions.is_some())
}

/// Whether a function belongs to a GPU driver library, by its name.
#[must_use]
pub fn is_driver_function(name: &str) -> bool {
    table().library.iter().filter_map(|library| library.functions.as_deref()).any(|start| {
        name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

/// The CUDA release that introduced a function of the driver library; `None` if every driver has it.
///
/// # Panics
/// The embedded table is invalid; a test rules this out.
#[must_use]
pub fn function_since(name: &str) -> Option<&'static Version> {
    let functions = FUNCTIONS.get_or_init(|| {
        let file: Functions = gpubuild_toml::from_static(tables::CUDA_FUNCTIONS)
            .expect("toolkits/tables/cuda-functions.toml is tested");
        let mut functions = BTreeMap::new();
        for (version, names) in file.since {
            let version: Version = version.parse().expect("toolkits/tables/cuda-functions.toml is tested");
            functions.extend(names.into_iter().map(|name| (name, version.clone())));
        }
        functions
    });
    // Variants with these suffixes use the per-thread default stream.
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    functions.get(name)
}

/// Whether the system provides a library that does not exist as a file.
#[must_use]
pub fn is_of_system(os: Os, name: &str) -> bool {
    let name = match os {
        Os::Windows => name.to_lowercase(),
        Os::Linux | Os::Macos => name.to_owned(),
    };
    table().system.get(&os).is_some_and(|names| names.iter().any(|pattern| star_matches(pattern, &name)))
}

/// Converts a file name to the form used in the table: DLL names are in lowercase.
fn plain(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    if name.to_ascii_lowercase().ends_with(".dll") { name.to_ascii_lowercase() } else { name.to_owned() }
}

fn matches(pattern: &str, name: &str) -> bool {
    if pattern.contains("{version}") {
        return version_in(pattern, name).is_some();
    }
    star_matches(&plain(pattern), name)
}

/// The part of `name` that matches `{version}`.
fn version_in<'n>(pattern: &str, name: &'n str) -> Option<&'n str> {
    let pattern = plain(pattern);
    let (start, end) = pattern.split_once("{version}")?;
    let rest = name.strip_suffix(end)?;
    let from = match start.split_once('*') {
        None => rest.strip_prefix(start)?,
        Some((first, last)) => {
            let inner = rest.strip_prefix(first)?;
            &inner[inner.find(last)? + last.len()..]
        }
    };
    let is_version = from.starts_with(|c: char| c.is_ascii_digit())
        && from.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_name() {
        for (name, what, release_in_name) in [
            ("libcudart.so.12", Some("the CUDA runtime"), Some("12")),
            ("libcudart.so.11.0", Some("the CUDA runtime"), Some("11.0")),
            ("/opt/x/libcudart.so.12.4.127", Some("the CUDA runtime"), Some("12.4.127")),
            ("CUDART64_110.DLL", Some("the CUDA runtime"), Some("11.0")),
            ("cudart64_12.dll", Some("the CUDA runtime"), Some("12")),
            ("libcublasLt.so.13", Some("a library of the CUDA Toolkit"), Some("13")),
            ("cublasLt64_12.dll", Some("a library of the CUDA Toolkit"), Some("12")),
            ("nvrtc64_120_0.dll", Some("a library of the CUDA Toolkit"), Some("12.0")),
            ("libnppc.so.12", Some("a library of the CUDA Toolkit"), Some("12")),
            ("libcufft.so.11", Some("a library of the CUDA Toolkit"), None),
            ("libcudnn_ops.so.9", Some("a part of cuDNN"), None),
            ("libcuda.so.1", Some("NVIDIA's driver library"), None),
            ("nvcuda.dll", Some("NVIDIA's driver library"), None),
            ("libnvidia-ml.so.1", Some("a library of NVIDIA's driver"), None),
            ("libamdhip64.so.6", Some("the HIP runtime"), Some("6")),
            ("amdhip64_7.dll", Some("the HIP runtime"), Some("7")),
            ("librocblas.so.4", Some("a library of ROCm"), None),
            ("VULKAN-1.dll", Some("the Vulkan loader"), None),
            ("MSVCP140_1.dll", Some("Microsoft's C++ runtime"), None),
            ("libcudart.so.x", None, None),
            ("libfoo.so", None, None),
            ("", None, None),
        ] {
            assert_eq!(find(name).map(|library| library.what.as_str()), what, "{name}");
            let release = release(name).map(|release| release.as_str().to_owned());
            assert_eq!(release.as_deref(), release_in_name, "{name}");
        }
    }

    #[test]
    fn driver_functions_are_known() {
        assert!(is_driver("libcuda.so.1") && is_driver("NVCUDA.dll") && !is_driver("libcudart.so.12"));
        assert!(is_driver_function("cuInit") && !is_driver_function("cudaMalloc"));
        assert!(!is_driver_function("curl_easy_init") && !is_driver_function("cu"));
        let since = |name| function_since(name).map(Version::as_str);
        assert_eq!(since("cuCtxCreate_v4"), Some("12.5"));
        assert_eq!(since("cuMemPrefetchAsync_v2_ptsz"), Some("12.2"));
        assert_eq!(since("cuInit"), None);
    }

    #[test]
    fn libraries_without_files_are_recognised_by_system() {
        assert!(is_of_system(Os::Windows, "API-MS-WIN-CRT-runtime-l1-1-0.dll"));
        assert!(is_of_system(Os::Macos, "/usr/lib/libSystem.B.dylib"));
        assert!(is_of_system(Os::Linux, "libm.so.6") && !is_of_system(Os::Linux, "libstdc++.so.6"));
    }
}
