//! The user's settings: `config.toml` in the user's configuration folder.
//!
//! ```toml
//! safe_directories = ["/srv/shared/*"]   # projects of other users that are trusted
//! backend = "vulkan"
//! [releases.infer]
//! variant = "cuda13"
//! key = "RW…"
//! ```

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles};
use serde::Deserialize;

/// The largest configuration file that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The variable that overrides the path of the file.
const VARIABLE: &str = "GPUBUILD_CONFIG";

/// The contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The label of the variant to use for every release.
    pub variant: Option<String>,
    /// The backend to use for every release.
    #[serde(default, deserialize_with = "backend")]
    pub backend: Option<Backend>,
    /// Folders whose gpubuild.toml is used although it belongs to another user: paths, `DIR/*` for all folders below, or `*`.
    #[serde(default)]
    pub safe_directories: Vec<String>,
    /// Settings for single releases, by name. They override the general ones.
    #[serde(default)]
    pub releases: BTreeMap<String, UserRelease>,
}

/// The settings for one release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRelease {
    /// The label of the variant.
    pub variant: Option<String>,
    /// The backend.
    #[serde(default, deserialize_with = "backend")]
    pub backend: Option<Backend>,
    /// The public key that signs the release, or the path of its file.
    pub key: Option<String>,
}

/// Parses a backend as on the command line, including aliases.
fn backend<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Backend>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

/// The user's settings and the file that contains them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The path of the file; `None` if it does not exist.
    pub file: Option<HostPath>,
    /// The settings in the file; the defaults if it does not exist.
    pub settings: Settings,
}

/// The user's settings cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read `{file}`: {what}")]
pub struct UserFileError {
    /// The path of the file.
    pub file: HostPath,
    /// The cause, with the position in the file.
    pub what: String,
}

impl UserFileError {
    /// The stable id of the error.
    pub const ID: DiagnosticId = id!("config.invalid");
}

/// The path of the settings file, whether or not it exists; `None` if no configuration folder is known.
#[must_use]
pub fn path(host: &dyn HostInfo) -> Option<HostPath> {
    let env = host.env();
    if let Some(file) = env.get(VARIABLE) {
        return Some(host.path(file));
    }
    let home = |below: &str| env.get("HOME").map(|home| host.path(home).join(below));
    let folder = match host.platform().os {
        Os::Windows => env.get("APPDATA").map(|folder| host.path(folder)),
        Os::Linux | Os::Macos => env
            .get("XDG_CONFIG_HOME")
            .map(|folder| host.path(folder))
            .filter(HostPath::is_absolute)
            .or_else(|| home(".config")),
    };
    folder.map(|folder| folder.join("gpubuild/config.toml"))
}

/// Reads the user's settings. A missing file yields the defaults.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read(host: &dyn ReadFiles) -> Result<User, UserFileError> {
    let Some(file) = path(host).filter(|file| host.is_file(file)) else { return Ok(User::default()) };
    let unreadable = |what: String| UserFileError { file: file.clone(), what };
    let bytes = host.read_start(&file, MAX_BYTES + 1).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MAX_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let settings = gpubuild_toml::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    Ok(User { file: Some(file), settings })
}

impl User {
    /// The label of the variant to use for a release, and the setting that names it.
    #[must_use]
    pub fn variant(&self, release: &str) -> Option<(String, String)> {
        let own = self.settings.releases.get(release).and_then(|one| one.variant.clone());
        own.map(|label| (label, self.setting(Some(release), "variant")))
            .or_else(|| Some((self.settings.variant.clone()?, self.setting(None, "variant"))))
    }

    /// The backend to use for a release, and the setting that names it.
    #[must_use]
    pub fn backend(&self, release: &str) -> Option<(Backend, String)> {
        let own = self.settings.releases.get(release).and_then(|one| one.backend);
        own.map(|backend| (backend, self.setting(Some(release), "backend")))
            .or_else(|| Some((self.settings.backend?, self.setting(None, "backend"))))
    }

    /// The public key for a release, or the path of its file.
    #[must_use]
    pub fn key(&self, release: &str) -> Option<String> {
        self.settings.releases.get(release)?.key.clone()
    }

    fn setting(&self, release: Option<&str>, key: &str) -> String {
        let file = self.file.as_ref().map_or("config.toml", HostPath::as_str);
        match release {
            Some(release) => format!("`releases.{release}.{key}` in {file}"),
            None => format!("`{key}` in {file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, RecordedHost};

    fn user(text: &str) -> Result<User, UserFileError> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .file("/home/u/.config/gpubuild/config.toml", text)
            .build();
        read(&host)
    }

    #[test]
    fn settings_for_a_release_override_the_general_ones() {
        let user =
            user("variant = \"cpu\"\n[releases.infer]\nvariant = \"cuda13\"\nbackend = \"hip\"\nkey = \"k\"")
                .unwrap();
        let (label, setting) = user.variant("infer").unwrap();
        assert_eq!(label, "cuda13");
        assert_eq!(setting, "`releases.infer.variant` in /home/u/.config/gpubuild/config.toml");
        assert_eq!(user.variant("other").unwrap().0, "cpu");
        assert_eq!(user.backend("infer").unwrap().0, Backend::Rocm);
        assert_eq!(
            (user.backend("other"), user.key("infer"), user.key("other")),
            (None, Some("k".into()), None)
        );
    }

    #[test]
    fn invalid_settings_are_reported_with_the_file() {
        for (text, expected) in
            [("varaint = \"cpu\"", "varaint"), ("backend = \"gpu\"", "gpu"), ("[", "line 1")]
        {
            let message = user(text).unwrap_err().to_string();
            assert!(message.contains(expected) && message.contains("config.toml"), "{message}");
        }
        let empty = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/home/u").build();
        assert_eq!(read(&empty).unwrap(), User::default());
    }

    #[test]
    fn the_path_depends_on_the_platform() {
        let windows = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("APPDATA", r"C:\Users\u\AppData\Roaming")
            .build();
        assert_eq!(path(&windows).unwrap().as_str(), r"C:\Users\u\AppData\Roaming\gpubuild\config.toml");
        let linux = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .env("XDG_CONFIG_HOME", "/etc/u")
            .build();
        assert_eq!(path(&linux).unwrap().as_str(), "/etc/u/gpubuild/config.toml");
    }
}
