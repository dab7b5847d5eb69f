//! Selects the build store from `GPUBUILD_STORE` and the `[cache]` table of the project file.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{HostInfo, HostPath};
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::{CacheAccess, CacheTable};

/// The variable that selects or disables the store.
pub const VARIABLE: &str = "GPUBUILD_STORE";

/// Default size limit of the store in bytes. Beyond it, the least recently used entries are removed.
pub const DEFAULT_LIMIT: u64 = 10 << 30;

/// A build store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Folder of the store for this format version.
    pub root: HostPath,
    /// Allowed access; never [`CacheAccess::Off`] for builds.
    pub access: CacheAccess,
    /// Size limit in bytes.
    pub limit: u64,
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a valid {what}")]
pub struct SettingsError {
    /// The invalid value.
    pub value: String,
    /// The expected kind: `size` or `age`.
    pub what: &'static str,
}

impl Diagnostic for SettingsError {
    fn id(&self) -> DiagnosticId {
        id!("cache.setting-invalid")
    }

    fn hint(&self) -> Option<String> {
        Some("`[cache] max_size` and `--max-size` accept sizes such as `5GiB`; `--older-than` accepts ages such as `30d`".to_owned())
    }
}

impl Store {
    /// Selects the store. `None` if it is disabled, or if the machine has no cache folder.
    ///
    /// # Errors
    /// `max_size` is not a valid size.
    pub fn open(
        host: &dyn HostInfo,
        table: &CacheTable,
        project: Option<&HostPath>,
    ) -> Result<Option<Self>, SettingsError> {
        let store = Self::locate(host, table, project)?;
        Ok(store.filter(|store| store.access != CacheAccess::Off))
    }

    /// Selects the store, also if it is disabled: its folder may contain entries of former builds. `None` if the machine has no cache
    /// folder.
    ///
    /// # Errors
    /// `max_size` is not a valid size.
    pub fn locate(
        host: &dyn HostInfo,
        table: &CacheTable,
        project: Option<&HostPath>,
    ) -> Result<Option<Self>, SettingsError> {
        let limit = table.max_size.as_deref().map(size).transpose()?.unwrap_or(DEFAULT_LIMIT);
        let mut access = table.store.unwrap_or(CacheAccess::On);
        let mut folder = match (&table.folder, project) {
            (Some(folder), Some(project)) => Some(project.join(folder).normalized()),
            (Some(folder), None) => Some(host.path(folder)),
            (None, _) => gpubuild_host::folders::cache_folder(host).map(|cache| cache.join("store")),
        };
        match host.env().get(VARIABLE) {
            None => {}
            Some("off" | "0" | "false") => access = CacheAccess::Off,
            Some("readonly") => access = CacheAccess::Readonly,
            Some("on" | "1" | "true") => access = CacheAccess::On,
            Some(named) => {
                let path = host.path(named);
                let current = || host.current_dir().map(|here| here.join(named).normalized()).ok();
                folder = if path.is_absolute() { Some(path) } else { current() };
                access = if access == CacheAccess::Off { CacheAccess::On } else { access };
            }
        }
        Ok(folder.map(|folder| Self { root: folder.join(super::FORMAT), access, limit }))
    }

    /// Whether results may be saved.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.access == CacheAccess::On
    }
}

/// Parses a size in bytes, such as `5GiB`.
///
/// # Errors
/// The text is not valid.
pub fn size(text: &str) -> Result<u64, SettingsError> {
    bytes::parse(text).ok_or_else(|| SettingsError { value: text.to_owned(), what: "size" })
}

/// Parses an age, such as `30d`, `12h`, `45m`, `10s` or `2w`, and returns it in seconds.
///
/// # Errors
/// The text is not valid.
pub fn age(text: &str) -> Result<u64, SettingsError> {
    let wrong = || SettingsError { value: text.to_owned(), what: "age" };
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit.trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn opened(value: Option<&str>, table: &CacheTable) -> Option<Store> {
        let builder = RecordedHost::builder(Os::Linux, Arch::X86_64).env("GPUBUILD_CACHE", "/c");
        let builder = if let Some(value) = value { builder.env(VARIABLE, value) } else { builder };
        let host = builder.build();
        Store::open(&host, table, Some(&host.path("/p"))).unwrap()
    }

    #[test]
    fn environment_takes_precedence_over_the_project_file() {
        let table: CacheTable = gpubuild_toml::from_str("store = \"readonly\"\nmax_size = \"1GiB\"").unwrap();
        let store = opened(None, &table).unwrap();
        assert_eq!((store.access, store.limit), (CacheAccess::Readonly, 1 << 30));
        assert_eq!(store.root.as_str(), "/c/store/v1");
        assert_eq!(opened(Some("off"), &table), None);
        assert_eq!(opened(Some("/s"), &table).unwrap().root.as_str(), "/s/v1");
        let table: CacheTable = gpubuild_toml::from_str("store = \"off\"\nfolder = \"../s\"").unwrap();
        assert_eq!(opened(None, &table), None);
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).env(VARIABLE, "off").build();
        let located = Store::locate(&host, &table, Some(&host.path("/p"))).unwrap().unwrap();
        assert_eq!((located.root.as_str(), located.access), ("/s/v1", CacheAccess::Off));
        assert_eq!(opened(Some("on"), &table).unwrap().root.as_str(), "/s/v1");
    }

    #[test]
    fn ages_are_parsed() {
        assert_eq!(age("30d"), Ok(30 * 86_400));
        assert_eq!(age("2w"), Ok(14 * 86_400));
        for wrong in ["", "30", "d", "-1d", "99999999999999999999d", "3y"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
