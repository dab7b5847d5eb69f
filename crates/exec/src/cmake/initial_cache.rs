//! The initial-cache file (`cmake -C`): every entry of a plan as one `set(… CACHE … FORCE)`.
//!
//! Values are bracket arguments, in which CMake expands no escapes, variables or separators.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_core::shell::cmake_bracket;

/// The help string of the entries that gpubuild sets. A project that declares an option overwrites it. The injected script
/// uses this to find the entries that the project knows.
pub const MARK: &str = "set by gpubuild";

/// An entry that CMake's cache cannot store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// The name contains characters that are not allowed in variable names.
    #[error("`{0}` is not the name of a CMake variable")]
    Name(String),
    /// The value contains a line break or a zero byte; the cache stores one line per entry.
    #[error("the value of `{0}` contains a line break or a zero byte, which the CMake cache cannot store")]
    Value(String),
}

/// Returns the entries with the injected script at the front of `CMAKE_PROJECT_TOP_LEVEL_INCLUDES`.
#[must_use]
pub fn with_include(cache: &BTreeMap<String, String>, script: &str) -> BTreeMap<String, String> {
    let mut cache = cache.clone();
    let includes = cache.entry("CMAKE_PROJECT_TOP_LEVEL_INCLUDES".to_owned()).or_default();
    *includes = if includes.is_empty() { script.to_owned() } else { format!("{script};{includes}") };
    cache
}

/// Renders the content of the file.
///
/// # Errors
/// The first entry that CMake's cache cannot store.
pub fn render(cache: &BTreeMap<String, String>) -> Result<String, BadEntry> {
    let mut text = String::from("# Written by gpubuild: the cache entries of the plan, nothing else.\n");
    for (name, value) in cache {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.+/".contains(c)) {
            return Err(BadEntry::Name(name.clone()));
        }
        if value.contains(['\n', '\r', '\0']) {
            return Err(BadEntry::Value(name.clone()));
        }
        let kind = entry_type(name, value);
        writeln!(text, "set({name} {} CACHE {kind} \"{MARK}\" FORCE)", cmake_bracket(value))
            .expect("writing to a string");
    }
    Ok(text)
}

/// The cache type of an entry, which GUIs use to show it: derived from the value for switches and from the name for paths.
#[must_use]
pub fn entry_type(name: &str, value: &str) -> &'static str {
    const SWITCH: [&str; 6] = ["ON", "OFF", "TRUE", "FALSE", "YES", "NO"];
    const FILE: [&str; 6] =
        ["_COMPILER", "_EXECUTABLE", "_PROGRAM", "_LIBRARY", "_LAUNCHER", "_TOOLCHAIN_FILE"];
    const FOLDER: [&str; 4] = ["_ROOT", "_DIR", "_PREFIX", "_PATH"];
    if SWITCH.contains(&value.to_ascii_uppercase().as_str()) {
        "BOOL"
    } else if value.contains(';') {
        "STRING"
    } else if FILE.iter().any(|end| name.ends_with(end)) {
        "FILEPATH"
    } else if FOLDER.iter().any(|end| name.ends_with(end)) {
        "PATH"
    } else {
        "STRING"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn entries_have_types_and_bracket_values() {
        let cache = entries(&[
            ("CMAKE_CUDA_ARCHITECTURES", "80;90a"),
            ("CMAKE_CUDA_COMPILER", "/usr/local/cuda/bin/nvcc"),
            ("CUDAToolkit_ROOT", r"C:/Program Files/CUDA"),
            ("GK_CPU", "ON"),
            ("ODD", r#"a "b" $ENV{X} \ ]=] ;"#),
        ]);
        insta::assert_snapshot!(render(&cache).unwrap(), @r##"
        # Written by gpubuild: the cache entries of the plan, nothing else.
        set(CMAKE_CUDA_ARCHITECTURES [=[80;90a]=] CACHE STRING "set by gpubuild" FORCE)
        set(CMAKE_CUDA_COMPILER [=[/usr/local/cuda/bin/nvcc]=] CACHE FILEPATH "set by gpubuild" FORCE)
        set(CUDAToolkit_ROOT [=[C:/Program Files/CUDA]=] CACHE PATH "set by gpubuild" FORCE)
        set(GK_CPU [=[ON]=] CACHE BOOL "set by gpubuild" FORCE)
        set(ODD [==[a "b" $ENV{X} \ ]=] ;]==] CACHE STRING "set by gpubuild" FORCE)
        "##);
    }

    #[test]
    fn unstorable_entries_are_rejected() {
        assert_eq!(render(&entries(&[("A", "x\ny")])), Err(BadEntry::Value("A".into())));
        assert_eq!(render(&entries(&[("A B", "x")])), Err(BadEntry::Name("A B".into())));
        assert_eq!(render(&entries(&[("A)", "x")])), Err(BadEntry::Name("A)".into())));
    }

    #[test]
    fn script_is_added_before_those_of_the_user() {
        let cache = entries(&[("CMAKE_PROJECT_TOP_LEVEL_INCLUDES", "/a.cmake")]);
        assert_eq!(with_include(&cache, "/i.cmake")["CMAKE_PROJECT_TOP_LEVEL_INCLUDES"], "/i.cmake;/a.cmake");
        let none = BTreeMap::new();
        assert_eq!(with_include(&none, "/i.cmake")["CMAKE_PROJECT_TOP_LEVEL_INCLUDES"], "/i.cmake");
    }

    proptest::proptest! {
        #[test]
        fn bracket_argument_ends_after_the_value(value in r"[\]=a\[]{0,12}") {
            let text = cmake_bracket(&value);
            let equals = text[1..].find('[').unwrap();
            let close = format!("]{}]", "=".repeat(equals));
            let body = &text[equals + 2..];
            proptest::prop_assert_eq!(body.find(&close).unwrap(), value.len());
        }
    }
}
