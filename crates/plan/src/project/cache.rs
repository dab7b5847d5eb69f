//! `[cache]` of gpubuild.toml.

use serde::Deserialize;

use super::LauncherTable;

/// `[cache]` of `gpubuild.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// How builds use the build store. `GPUBUILD_STORE` has precedence.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "on")))]
    pub store: Option<CacheAccess>,
    /// Folder of the build store, relative to gpubuild.toml; by default in gpubuild's cache folder.
    pub folder: Option<String>,
    /// Maximum size of the build store.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "10GiB")))]
    pub max_size: Option<String>,
    /// Compiler launcher: `none`, `auto`, `ccache`, `sccache`, `distcc`, `icecream`, `ccache+distcc`, or a path.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "none")))]
    pub launcher: Option<String>,
    /// Compiler launchers by language, which have precedence over `launcher`.
    #[serde(default)]
    pub languages: LauncherTable,
    /// URL of the storage that machines share through the launcher, without credentials: `redis://build-cache:6379`.
    pub remote: Option<String>,
}

/// How builds use the build store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheAccess {
    /// Do not use it.
    Off,
    /// Reuse results, but do not add any.
    Readonly,
    /// Reuse and add results.
    On,
}
