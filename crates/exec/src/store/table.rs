//! What the store looks at, as data: `toolkits/tables/store.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gpubuild_host::Os;
use gpubuild_toolkits::tables;
use serde::Deserialize;

/// The rows of `toolkits/tables/store.toml`; the file says what each is for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StampTable {
    schema: u32,
    /// Programs taken from PATH.
    pub programs: Vec<String>,
    prefixes: BTreeMap<String, Vec<String>>,
    /// Folders below prefixes whose names are compared.
    pub folders: Vec<String>,
    /// Cache entries and variables that name further prefixes.
    pub prefix_entries: Vec<String>,
    /// What a script that asks git has in it.
    pub git_words: Vec<String>,
    /// Words that make code one for this machine.
    pub native_words: Vec<String>,
    /// Ends of cache entries that tell that a program was run while configuring.
    pub ran_entries: Vec<String>,
    /// Extensions of files that are no result.
    pub intermediate: Vec<String>,
    /// Extensions of headers.
    pub headers: Vec<String>,
}

impl StampTable {
    /// The embedded table.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static TABLE: LazyLock<StampTable> = LazyLock::new(|| {
            let table: StampTable =
                gpubuild_toml::from_bytes(tables::STORE).expect("toolkits/tables/store.toml is tested");
            assert_eq!(table.schema, 1, "toolkits/tables/store.toml is tested");
            table
        });
        &TABLE
    }

    /// Prefixes that are searched on a platform without being named.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table = StampTable::embedded();
        assert!(table.programs.contains(&"glslc".to_owned()) && !table.prefixes(Os::Linux).is_empty());
        assert!(has_extension("a/b.HPP", &table.headers) && !has_extension("hpp", &table.headers));
    }
}
