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
    /// Compiler launcher: `none`, `auto`, `ccache`, `sccache`, `sccache-dist`, `distcc`, `icecream`, `recc`, `ccache+distcc`, or a path.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "none")))]
    pub launcher: Option<String>,
    /// Compiler launchers by language, which have precedence over `launcher`.
    #[serde(default)]
    pub languages: LauncherTable,
    /// URL of the storage that machines share, without credentials: the shared build store (`s3://BUCKET/PREFIX`, `https://HOST/PATH`,
    /// `oci://REGISTRY/REPOSITORY`) or the storage of the launcher (`redis://build-cache:6379`). `GPUBUILD_REMOTE` has precedence for the
    /// build store.
    pub remote: Option<String>,
    /// Whether builds save results in the shared build store. `GPUBUILD_REMOTE_WRITE` has precedence.
    #[serde(default)]
    pub write: bool,
    /// Time after which a server of the shared build store that does not answer is given up.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "3s")))]
    pub timeout: Option<String>,
    /// Maximum time that a build spends on the shared build store.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "5m")))]
    pub budget: Option<String>,
    /// Maximum number of bytes that a build uploads.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "4GiB")))]
    pub max_upload: Option<String>,
    /// Whether entries of the shared build store need a signature of one of `keys`, or of `GPUBUILD_KEY`.
    #[serde(default)]
    pub require_signature: bool,
    /// Minisign public keys of those who may write the shared build store. Entries without a signature of one of them are not used.
    #[serde(default)]
    pub keys: Vec<String>,
    /// URL of the S3 service; by default of `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or Amazon.
    pub endpoint: Option<String>,
    /// Region of the S3 service; by default of `AWS_REGION` or `AWS_DEFAULT_REGION`.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "us-east-1")))]
    pub region: Option<String>,
    /// Whether the bucket is in the path of S3 URLs and not in the host name; by default with an own `endpoint`.
    pub path_style: Option<bool>,
    /// Whether a server of the shared build store outside this machine may be contacted without encryption.
    #[serde(default)]
    pub insecure_http: bool,
}

/// The schemes of shared build stores.
const STORE_SCHEMES: [&str; 3] = ["s3", "https", "oci"];

impl CacheTable {
    /// Whether `remote` is a shared build store, and not the storage of the launcher. Launchers use `http` as well.
    #[must_use]
    pub fn shared_store(&self) -> Option<&str> {
        let remote = self.remote.as_deref()?;
        let scheme = remote.split("://").next().unwrap_or_default();
        let has_launcher = self.launcher.is_some() || self.languages != LauncherTable::default();
        let is_store = STORE_SCHEMES.contains(&scheme) || scheme == "http" && !has_launcher;
        is_store.then_some(remote)
    }
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
