//! Reads `toolkits/tables/store.toml`, which lists the implicit inputs of builds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use gpubuild_host::Os;
use gpubuild_toolkits::tables;
use serde::Deserialize;

/// The rows of `toolkits/tables/store.toml`. The file has comments on each row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StampTable {
    schema: u32,
    /// Names of programs on PATH that builds may run.
    pub programs: Vec<String>,
    prefixes: BTreeMap<String, Vec<String>>,
    /// Folders below prefixes where CMake searches for packages.
    pub folders: Vec<String>,
    /// Cache entries and variables that contain additional prefixes.
    pub prefix_entries: Vec<String>,
    /// Text by which CMake scripts that run git are recognised.
    pub git_words: Vec<String>,
    /// Text by which CMake scripts that read files or start programs are recognised.
    pub reading_words: Vec<String>,
    /// Variables that do not count although a script names them.
    pub ignored_variables: BTreeSet<String>,
    /// Compiler flags that make code specific to this machine.
    pub native_words: Vec<String>,
    /// Suffixes of cache entries that show that CMake ran a test program.
    pub ran_entries: Vec<String>,
    /// Extensions of intermediate files, which do not belong to results.
    pub intermediate: Vec<String>,
    /// Files in a build folder that CMake and Ninja write for themselves.
    pub from_tools: Vec<String>,
    /// Extensions of files that compilers write for linkers.
    pub objects: Vec<String>,
    /// Extensions of headers.
    pub headers: Vec<String>,
    /// Extensions of files that no source includes.
    pub never_included: Vec<String>,
}

impl StampTable {
    /// The embedded table.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static TABLE: LazyLock<StampTable> = LazyLock::new(|| {
            let table: StampTable =
                gpubuild_toml::from_static(tables::STORE).expect("toolkits/tables/store.toml is tested");
            assert_eq!(table.schema, 1, "toolkits/tables/store.toml is tested");
            table
        });
        &TABLE
    }

    /// Default prefixes of an operating system.
    #[must_use]
    pub fn prefixes(&self, os: Os) -> &[String] {
        let name = match os {
            Os::Linux => "linux",
            Os::Macos => "macos",
            Os::Windows => "windows",
        };
        self.prefixes.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether a file has one of these extensions.
#[must_use]
pub fn has_extension(name: &str, extensions: &[String]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Whether a source may include a file with this path. Sources and definitions are included as well as headers.
#[must_use]
pub fn may_be_included(path: &str) -> bool {
    let name = file_name(path);
    !name.starts_with('.') && !has_extension(name, &StampTable::embedded().never_included)
}

/// The last name of a path of any system.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_table_is_valid() {
        let table = StampTable::embedded();
        assert!(table.programs.contains(&"glslc".to_owned()) && !table.prefixes(Os::Linux).is_empty());
        assert!(has_extension("a/b.HPP", &table.headers) && !has_extension("hpp", &table.headers));
    }
}
