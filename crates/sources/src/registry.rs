//! The sparse index of a crate registry: which versions exist, their hashes, and where their archives are.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::project::source::SourceOrigin;
use gpubuild_plan::project::source::lock::LockedSource;
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{Client, FetchTarget};
use gpubuild_release::manifest::is_sha256;
use gpubuild_release::url::Url;
use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::{SourceError, SourceRequest, cargo_config};

/// The largest accepted document of an index in bytes.
const LARGEST: usize = 32 << 20;
/// The number of versions in a message.
const SHOWN: usize = 3;

/// `config.json` of an index.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegistryConfig {
    dl: String,
    #[serde(default)]
    auth_required: bool,
}

/// A version of a crate in the index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct IndexedVersion {
    name: String,
    vers: String,
    cksum: String,
    #[serde(default)]
    yanked: bool,
}

/// Pins the newest version that matches.
pub(crate) fn resolve(
    request: &SourceRequest<'_>,
    name: &str,
    requirement: &str,
) -> Result<LockedSource, SourceError> {
    let base = cargo_config::index(request.host, request.root)?;
    (request.progress)(&format!("looking up crate {name}"));
    let text = document(request.client, &base, &index_path(name))?.ok_or_else(|| {
        SourceError::UnknownPackage { kind: "crate", name: name.to_owned(), registry: base.clone() }
    })?;
    if !is_index(&text) {
        let why = format!("its file for the crate `{name}` has no line that is a JSON object");
        return Err(SourceError::Index { url: base, why });
    }
    let versions = versions(&text);
    let found = choose(&versions, requirement).ok_or_else(|| SourceError::UnknownVersion {
        name: name.to_owned(),
        requirement: requirement.to_owned(),
        known: newest(&versions),
    })?;
    Ok(LockedSource {
        origin: SourceOrigin::Crate { name: name.to_owned(), requirement: requirement.to_owned() },
        version: Some(found.vers.clone()),
        file: None,
        sha256: Some(found.cksum.to_ascii_lowercase()),
    })
}

/// The URL of the archive of a pinned version.
pub(crate) fn archive_url(request: &SourceRequest<'_>, locked: &LockedSource) -> Result<Url, SourceError> {
    let base = cargo_config::index(request.host, request.root)?;
    let invalid = |why: &str| SourceError::Index { url: base.clone(), why: why.to_owned() };
    let text =
        document(request.client, &base, "config.json")?.ok_or_else(|| invalid("it has no `config.json`"))?;
    let config: RegistryConfig =
        serde_json::from_str(&text).map_err(|error| invalid(&format!("`config.json`: {error}")))?;
    if config.auth_required {
        let (file, what) = (base.clone(), "a registry that requires a token".to_owned());
        return Err(SourceError::Registry { file, what });
    }
    let (SourceOrigin::Crate { name, .. }, Some(version), Some(sha256)) =
        (&locked.origin, &locked.version, &locked.sha256)
    else {
        return Err(invalid("the crate is not pinned"));
    };
    Ok(Url::parse(&archive_address(&config.dl, name, version, sha256))?)
}

/// Whether the registry has a version of a crate that matches.
pub(crate) fn has(
    (host, client): (&dyn Host, &Client<'_>),
    root: &HostPath,
    name: &str,
    requirement: &str,
) -> Result<bool, SourceError> {
    let base = cargo_config::index(host, root)?;
    let Some(text) = document(client, &base, &index_path(name))? else { return Ok(false) };
    if !is_index(&text) {
        let why = format!("its file for the crate `{name}` has no line that is a JSON object");
        return Err(SourceError::Index { url: base, why });
    }
    Ok(choose(&versions(&text), requirement).is_some())
}

fn document(client: &Client<'_>, base: &str, path: &str) -> Result<Option<String>, SourceError> {
    let url = Url::parse(&format!("{base}{path}"))?;
    let target = FetchTarget { url: &url, scope: CredentialScope::Server };
    let bytes = client.document(target, None, LARGEST)?;
    bytes
        .map(|bytes| {
            String::from_utf8(bytes)
                .map_err(|_| SourceError::Index { url: url.shown(), why: "it is not UTF-8".to_owned() })
        })
        .transpose()
}

/// The path of a crate in an index, as cargo computes it.
fn index_path(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.len() {
        1 => format!("1/{name}"),
        2 => format!("2/{name}"),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    }
}

/// The URL of an archive, from the template in `config.json`.
fn archive_address(template: &str, name: &str, version: &str, sha256: &str) -> String {
    let prefix = |name: &str| match name.len() {
        1 | 2 => name.len().to_string(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    };
    let markers = [
        ("{crate}", name.to_owned()),
        ("{version}", version.to_owned()),
        ("{prefix}", prefix(name)),
        ("{lowerprefix}", prefix(&name.to_ascii_lowercase())),
        ("{sha256-checksum}", sha256.to_owned()),
    ];
    if !markers.iter().any(|(marker, _)| template.contains(marker)) {
        return format!("{}/{name}/{version}/download", template.trim_end_matches('/'));
    }
    markers.iter().fold(template.to_owned(), |url, (marker, value)| url.replace(marker, value))
}

/// Whether a document can be one of an index: each line is an object, though its keys may be unknown.
fn is_index(text: &str) -> bool {
    let is_object = |line| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).is_ok();
    text.lines().any(is_object)
}

/// The versions in a document of the index. Lines that gpubuild does not understand are skipped, as cargo does.
fn versions(text: &str) -> Vec<IndexedVersion> {
    text.lines()
        .filter_map(|line| serde_json::from_str::<IndexedVersion>(line).ok())
        .filter(|one| is_sha256(&one.cksum.to_ascii_lowercase()))
        .collect()
}

/// The newest version that matches and was not yanked. A requirement such as `=0.1.0-rc.1` also selects a yanked version, because it names
/// exactly one.
fn choose<'a>(versions: &'a [IndexedVersion], requirement: &str) -> Option<&'a IndexedVersion> {
    let wanted = VersionReq::parse(requirement).ok()?;
    let exact = requirement.trim().strip_prefix('=').and_then(|text| Version::parse(text.trim()).ok());
    let parsed = versions.iter().filter_map(|one| Some((Version::parse(&one.vers).ok()?, one)));
    parsed
        .filter(|(version, one)| match &exact {
            Some(exact) => version == exact,
            None => wanted.matches(version) && !one.yanked,
        })
        .max_by(|(one, _), (other, _)| one.cmp(other))
        .map(|(_, one)| one)
}

fn newest(versions: &[IndexedVersion]) -> Vec<String> {
    let mut found: Vec<Version> =
        versions.iter().filter(|one| !one.yanked).filter_map(|one| Version::parse(&one.vers).ok()).collect();
    found.sort_indirect();
    found.iter().rev().take(SHOWN).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_follow_cargo() {
        for (name, expected) in
            [("a", "1/a"), ("ab", "2/ab"), ("abc", "3/a/abc"), ("Llama-cpp-sys-2", "ll/am/llama-cpp-sys-2")]
        {
            assert_eq!(index_path(name), expected);
        }
        let at = |template: &str| archive_address(template, "Abcd", "1.2.3", "f0");
        assert_eq!(at("https://h/dl"), "https://h/dl/Abcd/1.2.3/download");
        assert_eq!(
            at("https://h/{prefix}/{lowerprefix}/{crate}-{version}.crate?{sha256-checksum}"),
            "https://h/Ab/cd/ab/cd/Abcd-1.2.3.crate?f0"
        );
    }

    #[test]
    fn the_newest_matching_version_is_chosen() {
        let line = |version: &str, yanked: bool| {
            let cksum = "0".repeat(64);
            format!(
                "{{\"name\":\"x\",\"vers\":\"{version}\",\"cksum\":\"{cksum}\",\"yanked\":{yanked},\"deps\":[]}}\n"
            )
        };
        let text = [
            line("0.1.9", false),
            line("0.1.10", false),
            line("0.1.11", true),
            line("0.2.0-rc.1", false),
            "{\"future\":1}\n".to_owned(),
            "not json\n".to_owned(),
        ]
        .concat();
        let known = versions(&text);
        let chosen = |requirement: &str| choose(&known, requirement).map(|one| one.vers.as_str());
        assert_eq!(chosen("0.1"), Some("0.1.10"));
        assert_eq!(chosen("=0.1.9"), Some("0.1.9"));
        assert_eq!(chosen("=0.1.11"), Some("0.1.11"));
        assert_eq!(chosen(">0.1.10, <0.2"), None);
        assert_eq!(chosen("=0.2.0-rc.1"), Some("0.2.0-rc.1"));
        assert_eq!(chosen("0.2"), None);
        assert_eq!(chosen("not a version"), None);
        assert_eq!(newest(&known), ["0.2.0-rc.1", "0.1.10", "0.1.9"]);
    }

    #[test]
    fn hashes_are_checked_before_they_become_paths() {
        for cksum in ["", "../../escape", &"x".repeat(64), &"/".repeat(64), &"é".repeat(32), &"0".repeat(63)]
        {
            let line = serde_json::json!({"name": "x", "vers": "1.0.0", "cksum": cksum}).to_string();
            assert_eq!(versions(&line), [], "{cksum}");
        }
        let line = serde_json::json!({"name": "x", "vers": "1.0.0", "cksum": "F".repeat(64)}).to_string();
        assert_eq!(versions(&line).len(), 1);
    }
}
