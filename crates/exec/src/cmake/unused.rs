//! Finds the cache entries that a project neither declares nor reads.

use std::collections::BTreeMap;

use gpubuild_core::order::SortIndirect as _;

use super::initial_cache::entry_type;

/// Whether an entry should be reported if the project does not use it. Entries of CMake and its find modules are set for
/// every project, whether it uses them or not.
#[must_use]
pub fn must_be_known(name: &str) -> bool {
    const PREFIXES: [&str; 8] =
        ["CMAKE_", "CUDAToolkit_", "FETCHCONTENT_", "GPUBUILD_", "Vulkan_", "OpenCL_", "Python3_", "SPIRV-"];
    const NAMES: [&str; 7] = [
        "BUILD_SHARED_LIBS",
        "BUILD_TESTING",
        "GPU_TARGETS",
        "AMDGPU_TARGETS",
        "HIP_PLATFORM",
        "ROCM_PATH",
        "GGML_CCACHE",
    ];
    const SUFFIXES: [&str; 2] = ["_ROOT", "_DIR"];
    !(PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

/// The entries of a plan for which [`must_be_known`] holds.
pub fn watched(cache: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    cache.keys().map(String::as_str).filter(|name| must_be_known(name))
}

/// The watched entries whose values are `ON` or `OFF`. Only their reads can be observed.
pub fn switches(cache: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    watched(cache).filter(|name| cache.get(*name).is_some_and(|value| entry_type(name, value) == "BOOL"))
}

/// Returns the names in `list` that no script of the project mentions. The injected script writes `list`, one name per line:
/// the entries that were neither declared nor observed to be read.
#[must_use]
pub fn unknown(list: &str, scripts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = list
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !scripts.iter().any(|script| mentions(script, name)))
        .map(str::to_owned)
        .collect();
    names.sort_indirect();
    names.dedup();
    names
}

/// Whether a text contains a name as a complete identifier.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_entries_are_not_watched() {
        for name in ["CMAKE_BUILD_TYPE", "CUDAToolkit_ROOT", "BUILD_SHARED_LIBS", "ZENDNN_ROOT"] {
            assert!(!must_be_known(name), "{name}");
        }
        for name in ["GK_CPU", "GGML_CUDA", "LLAMA_CURL", "HIGHS_FAST"] {
            assert!(must_be_known(name), "{name}");
        }
    }

    #[test]
    fn name_in_a_script_is_known() {
        let scripts = ["if(A_B)\nset(X ${C})".to_owned()];
        assert_eq!(unknown("B\n\n A\nB\nC\n A_B\n", &scripts), ["A", "B"]);
    }
}
