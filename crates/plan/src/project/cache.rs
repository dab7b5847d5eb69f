//! `[cache]` of gpubuild.toml.

use serde::Deserialize;

use super::LauncherTable;

/// `[cache]` of `gpubuild.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// `on` (without it), `readonly`, `off`.
    pub store: Option<CacheAccess>,
    /// Folder of the store, relative to the file.
    pub folder: Option<String>,
    /// How much it may hold, `10GiB`.
    pub max_size: Option<String>,
    /// What stands in front of compilers: `none` (default), `auto`, `ccache`, `sccache`, `distcc`, `icecream`,
    /// `ccache+distcc`.
    pub launcher: Option<String>,
    /// The same by language.
    #[serde(default)]
    pub languages: LauncherTable,
    /// Storage that machines share through a launcher, `redis://build-cache:6379`.
    pub remote: Option<String>,
}

/// What may be done with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheAccess {
    /// Nothing.
    Off,
    /// Results are taken, none is put in.
    Readonly,
    /// Both.
    On,
}
