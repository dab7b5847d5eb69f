//! The inline table of `source`, and what its values may be.

use gpubuild_core::shell::word;
use serde::Deserialize;

use super::{FetchedSource, SourceOrigin};

/// The value of `source`: a folder relative to gpubuild.toml, or sources that `gpubuild fetch` downloads.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SourceForm {
    /// Folder with the top-level CMakeLists.txt, relative to gpubuild.toml.
    Folder(String),
    /// Sources that `gpubuild fetch` downloads.
    Table(Box<SourceTable>),
}

/// Sources that `gpubuild fetch` downloads: exactly one of `crate`, `pypi`, `git` and `url`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SourceTable {
    /// Crate of crates.io whose package contains the sources. Needs `version`.
    #[serde(rename = "crate")]
    krate: Option<String>,
    /// Python package whose source distribution contains the sources. Needs `version`.
    pypi: Option<String>,
    /// URL of a git repository. Needs `rev`.
    git: Option<String>,
    /// URL of a ZIP archive, or of a tar archive that is compressed with gzip, zstd, xz or bzip2. Needs `sha256`.
    url: Option<String>,
    /// Version of the crate, as a requirement in cargo's notation, or the exact version of the Python package.
    version: Option<String>,
    /// The full hash of the commit.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$")))]
    rev: Option<String>,
    /// Whether to fetch the submodules of the commit as well.
    submodules: Option<bool>,
    /// The sha256 of the archive.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[0-9a-fA-F]{64}$")))]
    sha256: Option<String>,
    /// Number of leading path components to remove from the names in the archive.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 0)))]
    strip: Option<u8>,
    /// Folder with the top-level CMakeLists.txt, relative to the top folder of the crate, source distribution, repository or archive.
    path: Option<String>,
}

impl SourceTable {
    /// Checks the keys and their values.
    pub(super) fn checked(self) -> Result<FetchedSource, String> {
        let kinds = [("crate", &self.krate), ("pypi", &self.pypi), ("git", &self.git), ("url", &self.url)];
        let named: Vec<&str> =
            kinds.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| *key).collect();
        let [kind] = named[..] else {
            return Err("name one of `crate`, `pypi`, `git` and `url`".to_owned());
        };
        self.refuse_foreign(kind)?;
        if let Some(path) = self.path.as_deref().filter(|path| !is_inner(path)) {
            return Err(format!("`path` is `{path}`: write a path below the downloaded folder, with `/`"));
        }
        let origin = match (self.krate, self.pypi, self.git, self.url) {
            (Some(name), ..) => crate_origin(name, self.version)?,
            (_, Some(name), ..) => pypi_origin(name, self.version)?,
            (_, _, Some(url), _) => git_origin(url, self.rev, self.submodules.unwrap_or_default())?,
            (.., Some(url)) => url_origin(url, self.sha256, self.strip.unwrap_or_default().into())?,
            _ => return Err("name one of `crate`, `pypi`, `git` and `url`".to_owned()),
        };
        Ok(FetchedSource { origin, path: self.path })
    }

    /// Refuses keys of another kind.
    fn refuse_foreign(&self, kind: &str) -> Result<(), String> {
        let keys: [(&str, bool, &[&str]); 5] = [
            ("version", self.version.is_some(), &["crate", "pypi"]),
            ("rev", self.rev.is_some(), &["git"]),
            ("submodules", self.submodules.is_some(), &["git"]),
            ("sha256", self.sha256.is_some(), &["url"]),
            ("strip", self.strip.is_some(), &["url"]),
        ];
        match keys.iter().find(|(_, is_set, kinds)| *is_set && !kinds.contains(&kind)) {
            Some((key, ..)) => Err(format!("`{key}` does not belong to `{kind}`: remove it")),
            None => Ok(()),
        }
    }
}

fn crate_origin(name: String, version: Option<String>) -> Result<SourceOrigin, String> {
    let name = package_name("crate", name)?;
    let requirement = required("version", version, "such as `=0.1.161`")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || " *=<>~^,.+-".contains(c);
    if requirement.trim().is_empty() || !requirement.chars().all(plain) {
        return Err(format!("`version` is `{requirement}`: write a version such as `=0.1.161`"));
    }
    Ok(SourceOrigin::Crate { name, requirement })
}

fn pypi_origin(name: String, version: Option<String>) -> Result<SourceOrigin, String> {
    let name = package_name("pypi", name)?;
    let version = required("version", version, "such as `0.3.36`")?;
    let exact = version.trim().trim_start_matches("==").trim().to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '!' | '+' | '-' | '_');
    if exact.is_empty() || !exact.chars().all(plain) {
        return Err(format!("`version` is `{version}`: write the exact version, such as `0.3.36`"));
    }
    Ok(SourceOrigin::Pypi { name, version: exact })
}

fn git_origin(url: String, rev: Option<String>, submodules: bool) -> Result<SourceOrigin, String> {
    // Git would read the URL as an option.
    if url.starts_with('-') || url.is_empty() || url.chars().any(|c| !c.is_ascii_graphic() || c == '"') {
        return Err(format!("`git` is `{url}`: write the URL of a repository"));
    }
    refuse_credentials("git", &url)?;
    let rev = required("rev", rev, "the full hash of a commit")?;
    if !matches!(rev.len(), 40 | 64) || !is_hex(&rev) {
        let name: String = rev.chars().filter(|c| c.is_ascii_alphanumeric() || "._/-".contains(*c)).collect();
        return Err(format!(
            "`rev` is `{name}`, but only the full hash of a commit always names the same sources: `git ls-remote {} {}` prints it",
            word(&url, "URL"),
            word(&name, "NAME")
        ));
    }
    Ok(SourceOrigin::Git { url, rev: rev.to_ascii_lowercase(), submodules })
}

fn url_origin(url: String, sha256: Option<String>, strip: usize) -> Result<SourceOrigin, String> {
    let is_plain = url.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\');
    if !(url.starts_with("https://") || url.starts_with("http://")) || !is_plain {
        return Err(format!("`url` is `{url}`: write a URL that starts with `https://`"));
    }
    refuse_credentials("url", &url)?;
    let sha256 = required("sha256", sha256, "as `sha256sum` prints it for the archive")?;
    if sha256.len() != 64 || !is_hex(&sha256) {
        return Err("`sha256` must have 64 hexadecimal digits".to_owned());
    }
    Ok(SourceOrigin::Url { url, sha256: sha256.to_ascii_lowercase(), strip })
}

fn required(key: &str, value: Option<String>, what: &str) -> Result<String, String> {
    value.ok_or_else(|| format!("`{key}` is missing: write {what}"))
}

fn refuse_credentials(key: &str, url: &str) -> Result<(), String> {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => Err(format!(
            "`{key}` contains credentials, which do not belong in this file: use ~/.netrc or git's credential helpers"
        )),
        _ => Ok(()),
    }
}

fn package_name(key: &str, name: String) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= 64 && name.chars().all(plain) {
        return Ok(name);
    }
    Err(format!("`{key}` is `{name}`: use letters, digits, `-`, `_` and `.`"))
}

pub(super) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path stays below its folder on every platform.
pub(in crate::project) fn is_inner(path: &str) -> bool {
    let is_forbidden = |c: char| c.is_control() || matches!(c, '\\' | ':' | '"');
    !path.chars().any(is_forbidden) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
