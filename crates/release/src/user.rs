//! The user's settings for all releases or for one: `config.toml` in the user's configuration folder.
//!
//! ```toml
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

/// The largest configuration that is read.
const MOST_BYTES: usize = 1 << 20;
/// The variable that names another file.
const VARIABLE: &str = "GPUBUILD_CONFIG";

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The variant that is wanted of every release.
    pub variant: Option<String>,
    /// The backend that is wanted of every release.
    #[serde(default, deserialize_with = "backend")]
    pub backend: Option<Backend>,
    /// What is wanted of one release, by its name.
    #[serde(default)]
    pub releases: BTreeMap<String, UserRelease>,
}

/// What is wanted of one release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRelease {
    /// The variant.
    pub variant: Option<String>,
    /// The backend.
    #[serde(default, deserialize_with = "backend")]
    pub backend: Option<Backend>,
    /// The key that signs it, or its file.
    pub key: Option<String>,
}

/// Spelled as on the command line, other names of a backend among them.
fn backend<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Backend>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

/// The settings, and the file that they stand in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The path of the file; `None` if no configuration folder is known.
    pub file: Option<HostPath>,
    /// What it says.
    pub settings: Settings,
}

/// Why it can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read `{file}`: {what}")]
pub struct UnreadableUserFile {
    /// The file.
    pub file: HostPath,
    /// Why, with the place.
    pub what: String,
}

impl UnreadableUserFile {
    /// Stable id.
    pub const ID: DiagnosticId = id!("config.invalid");
}

/// Where the file is looked for.
#[must_use]
pub fn place(host: &dyn HostInfo) -> Option<HostPath> {
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

/// Reads it. None is fine.
///
/// # Errors
/// It is there and is no such file.
pub fn read(host: &dyn ReadFiles) -> Result<User, UnreadableUserFile> {
    let Some(file) = place(host).filter(|file| host.is_file(file)) else { return Ok(User::default()) };
    let unreadable = |what: String| UnreadableUserFile { file: file.clone(), what };
    let bytes = host.read_start(&file, MOST_BYTES + 1).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MOST_BYTES {
        return Err(unreadable(format!("it has more than {MOST_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let settings = gpubuild_toml::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    Ok(User { file: Some(file), settings })
}

impl User {
    /// The variant that is wanted of a release, and where that stands.
    #[must_use]
    pub fn variant(&self, release: &str) -> Option<(String, String)> {
        let own = self.settings.releases.get(release).and_then(|one| one.variant.clone());
        own.map(|label| (label, self.who(Some(release), "variant")))
            .or_else(|| Some((self.settings.variant.clone()?, self.who(None, "variant"))))
    }

    /// The backend that is wanted of a release, and where that stands.
    #[must_use]
    pub fn backend(&self, release: &str) -> Option<(Backend, String)> {
        let own = self.settings.releases.get(release).and_then(|one| one.backend);
        own.map(|backend| (backend, self.who(Some(release), "backend")))
            .or_else(|| Some((self.settings.backend?, self.who(None, "backend"))))
    }

    /// The key of a release.
    #[must_use]
    pub fn key(&self, release: &str) -> Option<String> {
        self.settings.releases.get(release)?.key.clone()
    }

    fn who(&self, release: Option<&str>, key: &str) -> String {
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

    fn user(text: &str) -> Result<User, UnreadableUserFile> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .file("/home/u/.config/gpubuild/config.toml", text)
            .build();
        read(&host)
    }

    #[test]
    fn what_stands_for_one_release_counts_more() {
        let user =
            user("variant = \"cpu\"\n[releases.infer]\nvariant = \"cuda13\"\nbackend = \"hip\"\nkey = \"k\"")
                .unwrap();
        let (label, who) = user.variant("infer").unwrap();
        assert_eq!(label, "cuda13");
        assert_eq!(who, "`releases.infer.variant` in /home/u/.config/gpubuild/config.toml");
        assert_eq!(user.variant("other").unwrap().0, "cpu");
        assert_eq!(user.backend("infer").unwrap().0, Backend::Rocm);
        assert_eq!(
            (user.backend("other"), user.key("infer"), user.key("other")),
            (None, Some("k".into()), None)
        );
    }

    #[test]
    fn what_is_no_setting_is_told_with_its_place() {
        for (text, word) in [("varaint = \"cpu\"", "varaint"), ("backend = \"gpu\"", "gpu"), ("[", "line 1")]
        {
            let told = user(text).unwrap_err().to_string();
            assert!(told.contains(word) && told.contains("config.toml"), "{told}");
        }
        let none = RecordedHost::builder(Os::Linux, Arch::X86_64).env("HOME", "/home/u").build();
        assert_eq!(read(&none).unwrap(), User::default());
    }

    #[test]
    fn each_platform_has_its_place() {
        let windows = RecordedHost::builder(Os::Windows, Arch::X86_64)
            .env("APPDATA", r"C:\Users\u\AppData\Roaming")
            .build();
        assert_eq!(place(&windows).unwrap().as_str(), r"C:\Users\u\AppData\Roaming\gpubuild\config.toml");
        let linux = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .env("XDG_CONFIG_HOME", "/etc/u")
            .build();
        assert_eq!(place(&linux).unwrap().as_str(), "/etc/u/gpubuild/config.toml");
    }
}
