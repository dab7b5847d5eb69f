//! The index of Python packages: which source distribution a release has. The index is the one that uv or pip is configured to use.

use std::collections::BTreeMap;
use std::fmt;

use gpubuild_core::text::python_package;
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::project::source::SourceOrigin;
use gpubuild_plan::project::source::lock::LockedSource;
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{Client, FetchTarget};
use gpubuild_release::manifest::is_sha256;
use gpubuild_release::url::Url;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{SourceError, SourceRequest};

/// The default index of pip and uv.
const DEFAULT: &str = "https://pypi.org/simple";
/// Variables with the URL of an index.
const VARIABLES: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];
/// The forms of an index in order of preference.
const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";
/// The largest accepted document of an index in bytes.
const LARGEST: usize = 64 << 20;
/// The largest accepted number of files of a package. Memory use depends on it more than on the size of the document.
const MAX_FILES: usize = 100_000;
/// The number of versions in a message.
const SHOWN: usize = 3;
/// The longest accepted name of a file in bytes, which is the limit of most file systems.
const LONGEST_NAME: usize = 255;

/// The list of files of a package (PEP 691).
#[derive(Debug, Deserialize)]
struct FileList {
    #[serde(deserialize_with = "files_up_to_the_limit")]
    files: Vec<IndexedFile>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct IndexedFile {
    pub(crate) filename: String,
    pub(crate) url: String,
    #[serde(default)]
    hashes: FileHashes,
}

/// The hashes of a file. Others are not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct FileHashes {
    sha256: Option<String>,
}

impl IndexedFile {
    /// The hash in lower case, if it is one: it becomes part of paths.
    pub(crate) fn sha256(&self) -> Option<String> {
        self.hashes.sha256.as_ref().map(|hash| hash.to_ascii_lowercase()).filter(|hash| is_sha256(hash))
    }
}

/// Reads at most [`MAX_FILES`] files. Those with longer names than file systems allow are left out.
fn files_up_to_the_limit<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IndexedFile>, D::Error> {
    struct Files;

    impl<'de> Visitor<'de> for Files {
        type Value = Vec<IndexedFile>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a list of files")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let (mut files, mut count) = (Vec::new(), 0);
            while let Some(file) = list.next_element::<IndexedFile>()? {
                count += 1;
                if count > MAX_FILES {
                    return Err(A::Error::custom(too_many_files()));
                }
                if file.filename.len() <= LONGEST_NAME {
                    files.push(file);
                }
            }
            Ok(files)
        }
    }

    from.deserialize_seq(Files)
}

fn too_many_files() -> String {
    format!("it lists more than {MAX_FILES} files")
}

/// Pins the source distribution of a release.
pub(crate) fn resolve(
    request: &SourceRequest<'_>,
    name: &str,
    version: &str,
) -> Result<LockedSource, SourceError> {
    (request.progress)(&format!("looking up {name} {version}"));
    let (page, files) = files(request.client, name)?;
    pinned(&files, name, version, &page)
}

/// Pins the source distribution of a release in a list of files.
fn pinned(files: &[IndexedFile], name: &str, version: &str, page: &Url) -> Result<LockedSource, SourceError> {
    let found = choose(files, name, version)?;
    let sha256 = found.sha256().ok_or_else(|| SourceError::Index {
        url: page.shown(),
        why: format!("`{}` has no sha256", found.filename),
    })?;
    Ok(LockedSource {
        origin: SourceOrigin::Pypi { name: name.to_owned(), version: version.to_owned() },
        version: Some(version.to_owned()),
        file: Some(found.filename.clone()),
        sha256: Some(sha256),
    })
}

/// The URL of a pinned source distribution.
pub(crate) fn archive_url(request: &SourceRequest<'_>, locked: &LockedSource) -> Result<Url, SourceError> {
    let (SourceOrigin::Pypi { name, version }, Some(file)) = (&locked.origin, &locked.file) else {
        return Err(SourceError::Index { url: locked.name(), why: "the package is not pinned".to_owned() });
    };
    let (page, files) = files(request.client, name)?;
    let Some(found) = files.iter().find(|one| one.filename == *file) else {
        let requirement = version.clone();
        return Err(SourceError::UnknownVersion {
            name: name.clone(),
            requirement,
            known: newest(&files, name),
        });
    };
    Ok(page.join(&found.url)?)
}

/// The files of a package, and the URL of the page that lists them.
pub(crate) fn files(client: &Client<'_>, name: &str) -> Result<(Url, Vec<IndexedFile>), SourceError> {
    let index = index(client.host);
    let page = Url::parse(&format!("{}/{}/", index.trim_end_matches('/'), python_package(name)))?;
    let target = FetchTarget { url: &page, scope: CredentialScope::Server };
    let Some(bytes) = client.document(target, Some(ACCEPT), LARGEST)? else {
        let (name, registry) = (name.to_owned(), index);
        return Err(SourceError::UnknownPackage { kind: "Python package", name, registry });
    };
    let invalid = |why: String| SourceError::Index { url: page.shown(), why };
    let text = String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    let files = listed(&text).map_err(invalid)?;
    Ok((page, files))
}

/// The files in a document, or why it is invalid.
fn listed(text: &str) -> Result<Vec<IndexedFile>, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str::<FileList>(text)
            .map(|list| list.files)
            .map_err(|error| error.to_string());
    }
    links(text).ok_or_else(too_many_files)
}

/// The formats of source distributions, the preferred one first. The others are older than PEP 625.
const FORMATS: [&str; 4] = [".tar.gz", ".zip", ".tar.bz2", ".tar.xz"];

/// The source distribution of a release.
fn choose<'a>(files: &'a [IndexedFile], name: &str, version: &str) -> Result<&'a IndexedFile, SourceError> {
    for format in FORMATS {
        let is_wanted = |file: &&IndexedFile| {
            file.filename.ends_with(format) && distribution(&file.filename, name) == Some(version)
        };
        if let Some(found) = files.iter().find(is_wanted) {
            return Ok(found);
        }
    }
    let mut others: Vec<String> = files
        .iter()
        .map(|file| file.filename.clone())
        .filter(|file| {
            let rest =
                file.split_once('-').filter(|(first, _)| python_package(first) == python_package(name));
            rest.is_some_and(|(_, rest)| rest.starts_with(&format!("{version}-")))
        })
        .collect();
    if others.is_empty() {
        let (requirement, known) = (version.to_owned(), newest(files, name));
        return Err(SourceError::UnknownVersion { name: name.to_owned(), requirement, known });
    }
    others.truncate(SHOWN);
    Err(SourceError::NoArchive { name: name.to_owned(), version: version.to_owned(), files: others })
}

/// The version of a source distribution, if the file is one of this package.
fn distribution<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let stem = FORMATS.iter().find_map(|format| file.strip_suffix(format))?;
    let (found, version) = stem.rsplit_once('-')?;
    (python_package(found) == python_package(name)).then_some(version)
}

/// The versions of the last source distributions in the list, which is in the order of the index.
fn newest(files: &[IndexedFile], name: &str) -> Vec<String> {
    let found = files.iter().rev().filter_map(|file| distribution(&file.filename, name));
    found.take(SHOWN).map(str::to_owned).collect()
}

/// The links of an index in HTML (PEP 503), with the same limits as in JSON. `None` if there are too many.
fn links(page: &str) -> Option<Vec<IndexedFile>> {
    let mut found = Vec::new();
    for (at, tag) in page.split("<a ").skip(1).enumerate() {
        if at == MAX_FILES {
            return None;
        }
        let Some((attributes, text)) = tag.split_once('>') else { continue };
        let Some(href) = attribute(attributes, "href") else { continue };
        let (url, fragment) = href.split_once('#').unwrap_or((&href, ""));
        let sha256 = fragment.strip_prefix("sha256=").map(str::to_owned);
        let filename = text.split('<').next().unwrap_or_default().trim();
        if filename.len() <= LONGEST_NAME {
            found.push(IndexedFile {
                filename: filename.to_owned(),
                url: url.to_owned(),
                hashes: FileHashes { sha256 },
            });
        }
    }
    Some(found)
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let (_, rest) = attributes.split_once(&format!("{name}="))?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let value = rest[1..].split(quote).next()?;
    Some(value.replace("&amp;", "&").replace("&#43;", "+"))
}

/// The URL of the index: of the variables, else of uv's, else of pip's configuration files.
fn index(host: &dyn ReadFiles) -> String {
    let env = host.env();
    let of_variables = VARIABLES.iter().find_map(|name| env.get(name).filter(|url| !url.is_empty()));
    if let Some(url) = of_variables {
        return url.to_owned();
    }
    let read = |path: &HostPath| host.read_text(path).ok();
    let of_uv = uv_files(host).iter().filter_map(read).find_map(|text| uv_index(&text));
    of_uv
        .or_else(|| pip_files(host).iter().filter_map(read).find_map(|text| pip_index(&text)))
        .unwrap_or_else(|| DEFAULT.to_owned())
}

fn home(host: &dyn ReadFiles) -> Option<HostPath> {
    host.env().get("HOME").map(|home| host.path(home))
}

fn uv_files(host: &dyn ReadFiles) -> Vec<HostPath> {
    let env = host.env();
    let path = |text: &str| host.path(text);
    if let Some(file) = env.get("UV_CONFIG_FILE") {
        return vec![path(file)];
    }
    if host.platform().os == Os::Windows {
        return env.get("APPDATA").map(|folder| path(folder).join("uv/uv.toml")).into_iter().collect();
    }
    let config = env.get("XDG_CONFIG_HOME").map(path).or_else(|| Some(home(host)?.join(".config")));
    config.map(|folder| folder.join("uv/uv.toml")).into_iter().chain([path("/etc/uv/uv.toml")]).collect()
}

/// The files of pip with an index, those with the highest precedence first.
fn pip_files(host: &dyn ReadFiles) -> Vec<HostPath> {
    let env = host.env();
    let path = |text: &str| host.path(text);
    let mut files: Vec<HostPath> = env.get("PIP_CONFIG_FILE").map(path).into_iter().collect();
    if host.platform().os == Os::Windows {
        files.extend(env.get("VIRTUAL_ENV").map(|folder| path(folder).join("pip.ini")));
        files.extend(env.get("APPDATA").map(|folder| path(folder).join("pip/pip.ini")));
        files.extend(env.get("ProgramData").map(|folder| path(folder).join("pip/pip.ini")));
        return files;
    }
    files.extend(env.get("VIRTUAL_ENV").map(|folder| path(folder).join("pip.conf")));
    let config = env.get("XDG_CONFIG_HOME").map(path).or_else(|| Some(home(host)?.join(".config")));
    files.extend(config.map(|folder| folder.join("pip/pip.conf")));
    if host.platform().os == Os::Macos {
        files.extend(home(host).map(|home| home.join("Library/Application Support/pip/pip.conf")));
    }
    files.extend(home(host).map(|home| home.join(".pip/pip.conf")));
    files.push(path("/etc/pip.conf"));
    files
}

/// The default index of uv.toml.
fn uv_index(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct UvSettings {
        index_url: Option<String>,
        #[serde(default)]
        index: Vec<UvIndex>,
    }
    #[derive(Deserialize)]
    struct UvIndex {
        url: String,
        #[serde(default)]
        default: bool,
    }
    let settings: UvSettings = gpubuild_toml::from_str(text).ok()?;
    settings.index.into_iter().find(|index| index.default).map(|index| index.url).or(settings.index_url)
}

/// `index-url` of a file of pip, in `[install]` or `[global]`.
fn pip_index(text: &str) -> Option<String> {
    let mut section = "";
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((key, value)) = line.split_once(['=', ':'])
            && matches!(key.trim(), "index-url" | "index_url")
        {
            found.insert(section, value.trim());
        }
    }
    ["download", "install", "global"]
        .iter()
        .find_map(|section| found.get(section))
        .map(|url| (*url).to_owned())
}

#[cfg(test)]
#[path = "python_index_tests.rs"]
mod tests;
