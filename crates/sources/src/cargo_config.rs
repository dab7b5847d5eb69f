//! What cargo's configuration says about crates.io: a replacement registry, and the folder of downloaded crates.

use std::collections::BTreeMap;

use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::cargo;
use serde::Deserialize;

use crate::SourceError;

/// The name of crates.io in cargo's configuration.
const CRATES_IO: &str = "crates-io";
/// The index of crates.io.
const DEFAULT: &str = "https://index.crates.io/";
/// The former index of crates.io, a git repository. Cargo uses the sparse one instead.
const FORMER: &str = "https://github.com/rust-lang/crates.io-index";
/// The maximum number of replacements that refer to each other.
const MAX_REPLACEMENTS: usize = 10;

/// The part of a configuration file that is read.
#[derive(Debug, Default, Deserialize)]
struct CargoConfig {
    #[serde(default)]
    source: BTreeMap<String, ReplacedSource>,
    #[serde(default)]
    registries: BTreeMap<String, NamedRegistry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReplacedSource {
    replace_with: Option<String>,
    registry: Option<String>,
    directory: Option<String>,
    local_registry: Option<String>,
    git: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct NamedRegistry {
    index: Option<String>,
}

/// Archives of a crate that cargo has downloaded. Their content is unverified.
pub(crate) fn cached_archives(host: &dyn ReadFiles, name: &str, version: &str) -> Vec<HostPath> {
    let Some(cache) = cargo::home(host).map(|home| home.join("registry/cache")) else { return Vec::new() };
    let registries = host.list(&cache).unwrap_or_default();
    let archive = format!("{name}-{version}.crate");
    registries
        .iter()
        .map(|registry| cache.join(registry).join(&archive))
        .filter(|path| host.is_file(path))
        .collect()
}

/// The URL of the sparse index that replaces crates.io, with a slash at its end.
///
/// # Errors
/// A configuration file is invalid, or names a registry of another kind.
pub(crate) fn index(host: &dyn ReadFiles, root: &HostPath) -> Result<String, SourceError> {
    let files = files(host, root)?;
    let mut name = CRATES_IO.to_owned();
    for _ in 0..MAX_REPLACEMENTS {
        let found = files.iter().find_map(|(file, config)| Some((file, config.source.get(&name)?)));
        match found {
            Some((_, source)) if source.replace_with.is_some() => {
                name = source.replace_with.clone().unwrap_or_default();
            }
            Some((file, source)) => return registry(file, source),
            None if name == CRATES_IO => return Ok(DEFAULT.to_owned()),
            None => return named(host, &files, &name),
        }
    }
    let file = files.first().map(|(file, _)| file.to_string()).unwrap_or_default();
    Err(SourceError::Registry { file, what: "sources that replace each other".to_owned() })
}

/// The configuration files that cargo reads for a folder, those with the highest precedence first.
fn files(host: &dyn ReadFiles, root: &HostPath) -> Result<Vec<(HostPath, CargoConfig)>, SourceError> {
    let mut found = Vec::new();
    for file in cargo::config_files(host, root) {
        let invalid = |why: String| SourceError::Index { url: file.to_string(), why };
        let text = host.read_text(&file).map_err(|error| invalid(error.to_string()))?;
        let config = gpubuild_toml::from_str(&text).map_err(|error| invalid(error.message().to_owned()))?;
        found.push((file, config));
    }
    Ok(found)
}

fn registry(file: &HostPath, source: &ReplacedSource) -> Result<String, SourceError> {
    let unsupported =
        |what: &str| Err(SourceError::Registry { file: file.to_string(), what: what.to_owned() });
    match source {
        ReplacedSource { registry: Some(url), .. } => sparse(file.as_str(), url),
        ReplacedSource { directory: Some(_), .. } => unsupported("a vendored folder"),
        ReplacedSource { local_registry: Some(_), .. } => unsupported("a local registry"),
        ReplacedSource { git: Some(_), .. } => unsupported("a git repository"),
        _ => Ok(DEFAULT.to_owned()),
    }
}

/// The index of a registry that is named in `[registries]` or in a variable.
fn named(host: &dyn ReadFiles, files: &[(HostPath, CargoConfig)], name: &str) -> Result<String, SourceError> {
    let variable = format!("CARGO_REGISTRIES_{}_INDEX", name.to_ascii_uppercase().replace('-', "_"));
    if let Some(url) = host.env().get(&variable) {
        return sparse(&variable, url);
    }
    let index = |(file, config): &(HostPath, CargoConfig)| {
        Some((file.to_string(), config.registries.get(name)?.index.clone()?))
    };
    if let Some((file, url)) = files.iter().find_map(index) {
        return sparse(&file, &url);
    }
    let file = files.first().map(|(file, _)| file.to_string()).unwrap_or_default();
    Err(SourceError::Registry { file, what: format!("`{name}`, which is not defined,") })
}

fn sparse(file: &str, url: &str) -> Result<String, SourceError> {
    if url == FORMER {
        return Ok(DEFAULT.to_owned());
    }
    let Some(index) = url.strip_prefix("sparse+") else {
        // The URL may contain a password.
        return Err(SourceError::Registry { file: file.to_owned(), what: "a git index".to_owned() });
    };
    Ok(format!("{}/", index.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};

    use super::*;

    fn found(files: &[(&str, &str)]) -> Result<String, String> {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("HOME", "/home/u")
            .env("CARGO_REGISTRIES_OF_ENV_INDEX", "sparse+https://env.example/i/");
        let host = files.iter().fold(host, |host, (path, text)| host.file(path, text)).build();
        index(&host, &host.path("/w/a/b")).map_err(|error| error.to_string())
    }

    const HOME: &str = "/home/u/.cargo/config.toml";

    #[test]
    fn crates_io_is_the_default_and_can_be_replaced() {
        assert_eq!(found(&[]).unwrap(), DEFAULT);
        assert_eq!(found(&[(HOME, "[build]\njobs = 1\n")]).unwrap(), DEFAULT);
        let mirror = "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://m.example/i\"\n";
        assert_eq!(found(&[(HOME, mirror)]).unwrap(), "https://m.example/i/");
        let closer = "[source.crates-io]\nreplace-with = \"r\"\n[registries.r]\nindex = \"sparse+https://r.example/\"\n";
        assert_eq!(found(&[(HOME, mirror), ("/w/a/.cargo/config", closer)]).unwrap(), "https://r.example/");
        let env = "[source.crates-io]\nreplace-with = \"of-env\"\n";
        assert_eq!(found(&[(HOME, env)]).unwrap(), "https://env.example/i/");
        let former = "[source.crates-io]\nregistry = \"https://github.com/rust-lang/crates.io-index\"\n";
        assert_eq!(found(&[(HOME, former)]).unwrap(), DEFAULT);
    }

    #[test]
    fn other_kinds_of_registries_are_named() {
        for (text, expected) in [
            (
                "[source.crates-io]\nreplace-with = \"v\"\n[source.v]\ndirectory = \"vendor\"\n",
                "a vendored folder",
            ),
            (
                "[source.crates-io]\nreplace-with = \"v\"\n[source.v]\nregistry = \"https://h/i\"\n",
                "a git index",
            ),
            ("[source.crates-io]\nreplace-with = \"v\"\n", "not defined"),
            ("[source.crates-io]\nreplace-with = \"crates-io\"\n", "replace each other"),
            ("[source\n", "not a valid index"),
        ] {
            let shown = found(&[(HOME, text)]).unwrap_err();
            assert!(shown.contains(expected) && (shown.contains(HOME)), "{shown}");
        }
    }
}
