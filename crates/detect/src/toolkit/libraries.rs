//! What names of shared libraries tell: `toolkits/tables/libraries.toml`, and the functions of NVIDIA's driver by release.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_host::search::star_matches;
use gpubuild_toolkits::tables;
use serde::Deserialize;

static TABLE: OnceLock<Table> = OnceLock::new();
static FUNCTIONS: OnceLock<BTreeMap<String, Version>> = OnceLock::new();

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "schema")]
    _schema: u32,
    library: Vec<Library>,
    system: BTreeMap<Os, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Functions {
    #[serde(rename = "schema")]
    _schema: u32,
    since: BTreeMap<String, Vec<String>>,
}

/// Libraries that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// Their names; `*` is any text, `{version}` digits and dots.
    pub names: Vec<String>,
    /// What they are, for people.
    pub what: String,
    /// Whose they are.
    pub backend: Option<Backend>,
    /// Their part in it.
    pub role: Role,
    /// What their number is the release of: `cuda`, `rocm`.
    pub major: Option<String>,
    /// The toolkit that has them.
    pub toolkit: Option<String>,
    /// Libraries that must all be of one release.
    pub together: Option<String>,
    /// How functions of a driver's library begin.
    pub functions: Option<String>,
    /// Libraries that these open while they run.
    #[serde(default)]
    pub opens: BTreeMap<Os, Vec<String>>,
    /// Id of the finding when one is missing.
    pub missing: Option<String>,
    /// Packages that have them, by package manager.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Whether every machine has its own, which drivers and the system count on: another copy beside it breaks them.
    #[serde(default)]
    pub core: bool,
    /// Folders with data that they read, relative to where they lie.
    #[serde(default)]
    pub data: Vec<String>,
    /// Where they come from, in one sentence.
    pub fix: Option<String>,
}

/// The part that a library has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It belongs to a driver and is never shipped with a program.
    Driver,
    /// It finds drivers.
    Loader,
    /// It belongs to a toolkit and may be shipped.
    Runtime,
    /// It has nothing to do with GPUs.
    System,
}

/// The tables are part of the program, and a test reads them.
fn table() -> &'static Table {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_bytes(tables::LIBRARIES).expect("toolkits/tables/libraries.toml is tested")
    })
}

/// What is known of a library by its file name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Library> {
    let name = plain(name);
    table().library.iter().find(|library| library.names.iter().any(|pattern| matches(pattern, &name)))
}

/// The release in the name of a library whose number is one: `12` of `libcudart.so.12`, `11.0` of `cudart64_110.dll`.
#[must_use]
pub fn release(name: &str) -> Option<Version> {
    let plain = plain(name);
    let library = find(&plain)?;
    library.major.as_ref()?;
    let digits = library.names.iter().find_map(|pattern| version_in(pattern, &plain))?;
    // Windows' libraries of CUDA 11 and before are numbered without a dot.
    match digits.parse::<u32>() {
        Ok(number @ 20..=999) => format!("{}.{}", number / 10, number % 10).parse().ok(),
        _ => digits.parse().ok(),
    }
}

/// Whether a library is the one of a GPU driver whose functions are looked at.
#[must_use]
pub fn is_driver(name: &str) -> bool {
    find(name).is_some_and(|library| library.functions.is_some())
}

/// Whether a function is one of a GPU driver's library by its name.
#[must_use]
pub fn is_driver_function(name: &str) -> bool {
    table().library.iter().filter_map(|library| library.functions.as_deref()).any(|start| {
        name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

/// The release of CUDA that brought a function of the driver's library; `None` for those that every driver has.
///
/// # Panics
/// If the embedded table is broken, which a test rules out.
#[must_use]
pub fn function_since(name: &str) -> Option<&'static Version> {
    let functions = FUNCTIONS.get_or_init(|| {
        let file: Functions = gpubuild_toml::from_bytes(tables::CUDA_FUNCTIONS)
            .expect("toolkits/tables/cuda-functions.toml is tested");
        let mut functions = BTreeMap::new();
        for (version, names) in file.since {
            let version: Version = version.parse().expect("toolkits/tables/cuda-functions.toml is tested");
            functions.extend(names.into_iter().map(|name| (name, version.clone())));
        }
        functions
    });
    // The same function for another default stream.
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    functions.get(name)
}

/// Whether the system has a library although no file need be there.
#[must_use]
pub fn is_of_system(os: Os, name: &str) -> bool {
    let name = match os {
        Os::Windows => name.to_lowercase(),
        Os::Linux | Os::Macos => name.to_owned(),
    };
    table().system.get(&os).is_some_and(|names| names.iter().any(|pattern| star_matches(pattern, &name)))
}

/// The file name; Windows' names in lower case, in which their rows are compared.
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

/// What stands for `{version}`: digits and dots.
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
    fn names_tell_what_a_library_is() {
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
    fn drivers_and_their_functions() {
        assert!(is_driver("libcuda.so.1") && is_driver("NVCUDA.dll") && !is_driver("libcudart.so.12"));
        assert!(is_driver_function("cuInit") && !is_driver_function("cudaMalloc"));
        assert!(!is_driver_function("curl_easy_init") && !is_driver_function("cu"));
        let since = |name| function_since(name).map(Version::as_str);
        assert_eq!(since("cuCtxCreate_v4"), Some("12.5"));
        assert_eq!(since("cuMemPrefetchAsync_v2_ptsz"), Some("12.2"));
        assert_eq!(since("cuInit"), None);
    }

    #[test]
    fn systems_bring_libraries_without_files() {
        assert!(is_of_system(Os::Windows, "API-MS-WIN-CRT-runtime-l1-1-0.dll"));
        assert!(is_of_system(Os::Macos, "/usr/lib/libSystem.B.dylib"));
        assert!(is_of_system(Os::Linux, "libm.so.6") && !is_of_system(Os::Linux, "libstdc++.so.6"));
    }
}
