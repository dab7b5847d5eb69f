//! `gpubuild.lock`: pins the version and the hash of downloaded sources.

use std::fmt::Write as _;

use gpubuild_core::text::python_package;
use serde::Deserialize;

use super::SourceOrigin;
use super::table::is_hex;

/// Name of the lock file, beside gpubuild.toml.
pub const LOCK_NAME: &str = "gpubuild.lock";

/// The maximum length of [`LockedSource::name`], so that file systems accept names that contain it.
const LONGEST_NAME: usize = 100;
/// The highest version of the format that this version reads.
const VERSION: i64 = 1;

/// Sources with their exact version and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedSource {
    /// What gpubuild.toml requests.
    pub origin: SourceOrigin,
    /// The exact version of a crate or package.
    pub version: Option<String>,
    /// File name of a source distribution.
    pub file: Option<String>,
    /// The sha256 of the archive; `None` for git, whose commit hash identifies the content.
    pub sha256: Option<String>,
}

#[derive(Deserialize)]
struct LockVersion {
    version: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockDocument {
    #[serde(rename = "version")]
    _version: i64,
    source: LockTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockTable {
    #[serde(rename = "crate")]
    krate: Option<String>,
    pypi: Option<String>,
    git: Option<String>,
    url: Option<String>,
    requirement: Option<String>,
    version: Option<String>,
    file: Option<String>,
    rev: Option<String>,
    submodules: Option<bool>,
    sha256: Option<String>,
    strip: Option<usize>,
}

impl LockedSource {
    /// The pin of an origin that is already exact: git and url.
    #[must_use]
    pub fn exact(origin: &SourceOrigin) -> Option<Self> {
        let sha256 = match origin {
            SourceOrigin::Url { sha256, .. } => Some(sha256.clone()),
            SourceOrigin::Git { .. } => None,
            SourceOrigin::Crate { .. } | SourceOrigin::Pypi { .. } => return None,
        };
        Some(Self { origin: origin.clone(), version: None, file: None, sha256 })
    }

    /// What identifies the content of the folder. Equal for all projects that use the same archive.
    #[must_use]
    pub fn identity(&self) -> String {
        match &self.origin {
            SourceOrigin::Git { rev, submodules, .. } => {
                format!("git:{rev}{}", if *submodules { ":submodules" } else { "" })
            }
            SourceOrigin::Url { sha256, strip, .. } => format!("sha256:{sha256}:strip={strip}"),
            _ => format!("sha256:{}:strip=1", self.sha256.as_deref().unwrap_or_default()),
        }
    }

    /// Name and version: `llama-cpp-sys-2-0.1.161`. Contains only letters, digits, `-`, `_`, `+` and `.`.
    #[must_use]
    pub fn name(&self) -> String {
        let (base, version) = match &self.origin {
            SourceOrigin::Crate { name, .. } | SourceOrigin::Pypi { name, .. } => {
                (name.as_str(), self.version.as_deref().unwrap_or_default())
            }
            SourceOrigin::Git { url, rev, .. } => (last(url), &rev[..12]),
            SourceOrigin::Url { url, sha256, .. } => (last(url), &sha256[..12]),
        };
        let base = [".git", ".zip", ".gz", ".zst", ".xz", ".bz2", ".tgz", ".txz", ".tar"]
            .iter()
            .fold(base, |base, ending| base.strip_suffix(ending).unwrap_or(base));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        let name: String = format!("{base}-{version}").chars().filter(|c| plain(*c)).collect();
        name.trim_start_matches(['.', '-']).chars().take(LONGEST_NAME).collect()
    }

    /// The [package URL](https://github.com/package-url/purl-spec) of a crate, a Python package, or a commit at github.com.
    #[must_use]
    pub fn package_url(&self) -> Option<String> {
        let version = self.version.as_deref().unwrap_or_default();
        match &self.origin {
            SourceOrigin::Crate { name, .. } => Some(format!("pkg:cargo/{name}@{version}")),
            SourceOrigin::Pypi { name, .. } => Some(format!("pkg:pypi/{}@{version}", python_package(name))),
            SourceOrigin::Git { url, rev, .. } => {
                let path = url.strip_prefix("https://github.com/")?.trim_end_matches('/');
                Some(format!("pkg:github/{}@{rev}", path.strip_suffix(".git").unwrap_or(path).to_lowercase()))
            }
            SourceOrigin::Url { .. } => None,
        }
    }

    /// Name of the folder in the cache.
    #[must_use]
    pub fn folder(&self) -> String {
        let (hash, suffix) = match &self.origin {
            SourceOrigin::Git { rev, submodules, .. } => (rev.as_str(), if *submodules { "-s" } else { "" }),
            SourceOrigin::Url { sha256, strip: 0, .. } => (sha256.as_str(), "-0"),
            _ => (self.sha256.as_deref().unwrap_or_default(), ""),
        };
        format!("{}-{}{suffix}", self.name(), &hash[..hash.len().min(16)])
    }

    /// The text of the lock file. Equal for equal values.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::from(
            "# The exact sources of gpubuild.toml. `gpubuild update` writes this file; commit it.\nversion = 1\n\n[source]\n",
        );
        let mut line = |key: &str, value: &str| {
            writeln!(out, "{key} = {}", quoted(value)).expect("writing to a string");
        };
        match &self.origin {
            SourceOrigin::Crate { name, requirement } => {
                line("crate", name);
                line("requirement", requirement);
            }
            SourceOrigin::Pypi { name, .. } => line("pypi", name),
            SourceOrigin::Git { url, rev, .. } => {
                line("git", url);
                line("rev", rev);
            }
            SourceOrigin::Url { url, .. } => line("url", url),
        }
        for (key, value) in [("version", &self.version), ("file", &self.file), ("sha256", &self.sha256)] {
            if let Some(value) = value {
                line(key, value);
            }
        }
        match &self.origin {
            SourceOrigin::Git { submodules: true, .. } => out.push_str("submodules = true\n"),
            SourceOrigin::Url { strip, .. } => {
                writeln!(out, "strip = {strip}").expect("writing to a string");
            }
            _ => {}
        }
        out
    }

    /// Parses a lock file.
    ///
    /// # Errors
    /// Why the text is not a lock file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = |error: gpubuild_toml::TomlError| error.to_string().trim_end().to_owned();
        let found = gpubuild_toml::from_str::<LockVersion>(text).map_err(shown)?.version;
        if let Some(found) = found.filter(|found| *found > VERSION) {
            return Err(format!(
                "it has version {found}, but this version of gpubuild reads version {VERSION}"
            ));
        }
        let table = gpubuild_toml::from_str::<LockDocument>(text).map_err(shown)?.source;
        table
            .checked()
            .ok_or_else(|| "`[source]` lacks a key of its kind, or has an invalid value".to_owned())
    }
}

impl LockTable {
    fn checked(self) -> Option<LockedSource> {
        let is_hash = |text: &String| text.len() == 64 && is_hex(text);
        let sha256 = self.sha256.filter(is_hash);
        match (self.krate, self.pypi, self.git, self.url) {
            (Some(name), None, None, None) => {
                let origin = SourceOrigin::Crate { name, requirement: self.requirement? };
                let version = Some(self.version?);
                Some(LockedSource { origin, version, file: None, sha256: Some(sha256?) })
            }
            (None, Some(name), None, None) => {
                let version = self.version?;
                let file = self.file.filter(|file| !file.contains(['/', '\\']))?;
                let origin = SourceOrigin::Pypi { name, version: version.clone() };
                Some(LockedSource { origin, version: Some(version), file: Some(file), sha256: Some(sha256?) })
            }
            (None, None, Some(url), None) => {
                let rev = self.rev.filter(|rev| matches!(rev.len(), 40 | 64) && is_hex(rev))?;
                let submodules = self.submodules.unwrap_or_default();
                LockedSource::exact(&SourceOrigin::Git { url, rev, submodules })
            }
            (None, None, None, Some(url)) => {
                let strip = self.strip.unwrap_or_default();
                LockedSource::exact(&SourceOrigin::Url { url, sha256: sha256?, strip })
            }
            _ => None,
        }
    }
}

fn last(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(path)
}

/// A TOML string. The values contain no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [LockedSource; 4] {
        let sha = "0123456789abcdef".repeat(4);
        let krate = SourceOrigin::Crate { name: "x-sys".into(), requirement: "0.1".into() };
        let pypi = SourceOrigin::Pypi { name: "x".into(), version: "1.0".into() };
        let git =
            SourceOrigin::Git { url: "https://h/a/x.git".into(), rev: "ab".repeat(20), submodules: true };
        let url = SourceOrigin::Url { url: "https://h/y-2.tar.gz?t=1".into(), sha256: sha.clone(), strip: 1 };
        [
            LockedSource {
                origin: krate,
                version: Some("0.1.3".into()),
                file: None,
                sha256: Some(sha.clone()),
            },
            LockedSource {
                origin: pypi,
                version: Some("1.0".into()),
                file: Some("x-1.0.tar.gz".into()),
                sha256: Some(sha),
            },
            LockedSource::exact(&git).unwrap(),
            LockedSource::exact(&url).unwrap(),
        ]
    }

    #[test]
    fn every_kind_is_read_back_as_written() {
        for locked in all() {
            let text = locked.text();
            assert_eq!(LockedSource::parse(&text).as_ref(), Ok(&locked), "{text}");
        }
    }

    #[test]
    fn names_and_folders_show_the_source_and_its_hash() {
        let names: Vec<String> = all().iter().map(LockedSource::folder).collect();
        assert_eq!(
            names,
            [
                "x-sys-0.1.3-0123456789abcdef",
                "x-1.0-0123456789abcdef",
                "x-abababababab-abababababababab-s",
                "y-2-0123456789ab-0123456789abcdef",
            ]
        );
    }

    #[test]
    fn damaged_and_newer_locks_are_refused() {
        for bad in [
            "",
            "version = 1\n",
            "version = 1\n[source]\n",
            "version = 1\n[source]\ncrate = \"x\"\nrequirement = \"1\"\nversion = \"1.0\"\nsha256 = \"12\"\n",
            "version = 1\n[source]\ncrate = \"x\"\ngit = \"y\"\n",
            "version = 1\n[source]\ngit = \"https://h/x\"\nrev = \"v1\"\n",
        ] {
            assert!(LockedSource::parse(bad).is_err(), "{bad}");
        }
        assert!(LockedSource::parse("version = 2\nfuture = 1\n").unwrap_err().contains("version 2"));
    }
}
