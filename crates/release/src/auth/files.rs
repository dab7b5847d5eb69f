//! Credentials for registries: containers-auth.json(5) and Docker's configuration, in the order of podman and skopeo.
//!
//! In each file, the registry's own credential helper comes first, then the default helper, then entries in the file, the longest path
//! first. As in Docker, an unreadable file is reported and skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use gpubuild_host::{HostInfo, HostPath, InspectHost, Os, RunPrograms};
use serde::Deserialize;

use super::helper;
use super::{
    CredentialLookup, FILE_INVALID, FoundCredentials, HELPER_FAILED, Secret, SendPolicy, home, path_from_env,
};

/// The variable that, when set, names the only file to read.
const ONLY: &str = "REGISTRY_AUTH_FILE";
/// Host names of Docker Hub, and the key under which Docker stores its credentials.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
const HUB_KEY: &str = "https://index.docker.io/v1/";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    auths: Option<BTreeMap<String, Option<AuthEntry>>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// A registry's name in lower case; all host names of Docker Hub become `docker.io`.
pub(super) fn registry(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if HUB.contains(&host.as_str()) { HUB[0].to_owned() } else { host }
}

/// The files to search, in order of precedence.
fn paths(host: &dyn HostInfo) -> Vec<HostPath> {
    if let Some(only) = path_from_env(host, ONLY) {
        return vec![only];
    }
    let absolute = |name| host.env().get(name).map(|text| host.path(text)).filter(HostPath::is_absolute);
    let home = home(host);
    let below_home = |below: &str| home.as_ref().map(|home| home.join(below));
    let runtime = (host.platform().os == Os::Linux).then(|| {
        let of_user =
            || host.identity().uid.map(|uid| host.path(&format!("/run/containers/{uid}/auth.json")));
        absolute("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")).or_else(of_user)
    });
    let configured = absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let docker = path_from_env(host, "DOCKER_CONFIG").or_else(|| below_home(".docker"));
    [
        runtime.flatten(),
        configured.map(|folder| folder.join("containers/auth.json")),
        docker.map(|folder| folder.join("config.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Looks up the credentials for an image in a registry.
pub(super) fn find(
    host: &dyn InspectHost,
    registry: &str,
    name: &str,
    timeout: Duration,
) -> CredentialLookup {
    let mut lookup = CredentialLookup::default();
    for path in paths(host) {
        let Some(bytes) = lookup.read(host, &path) else { continue };
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let file: AuthFile = match serde_json::from_slice(&bytes) {
            Ok(file) => file,
            Err(error) => {
                // The parser's message may quote the credentials.
                let what = if error.is_data() { "has an unexpected structure" } else { "is not valid JSON" };
                lookup.ignore(&path, &format!("line {} {what}", error.line()));
                continue;
            }
        };
        let found = from_helper(host, &file, &path, registry, timeout, &mut lookup)
            .or_else(|| from_entry(&file, &path, registry, name, &mut lookup));
        if found.is_some() {
            lookup.found = found;
            break;
        }
    }
    lookup
}

fn from_helper(
    host: &dyn RunPrograms,
    file: &AuthFile,
    path: &HostPath,
    registry: &str,
    timeout: Duration,
    lookup: &mut CredentialLookup,
) -> Option<FoundCredentials> {
    let own = file.cred_helpers.iter().flatten().find(|(key, _)| normal(key) == registry);
    // An empty entry for a registry means that it has no helper.
    let name = own.map(|(_, name)| name).or(file.creds_store.as_ref()).filter(|name| !name.is_empty())?;
    let server = if registry == HUB[0] { HUB_KEY } else { registry };
    let from = format!("{} (named in {path})", helper::program(name));
    lookup.searched.push(from.clone());
    match helper::get(host, name, server, timeout) {
        Ok(secret) => secret.map(|secret| FoundCredentials { secret, from, policy: SendPolicy::OnChallenge }),
        Err(what) => {
            lookup.problems.push(format!(
                "{what}; {path} names it as the credential helper for `{registry}` [{HELPER_FAILED}]"
            ));
            None
        }
    }
}

fn from_entry(
    file: &AuthFile,
    path: &HostPath,
    registry: &str,
    name: &str,
    lookup: &mut CredentialLookup,
) -> Option<FoundCredentials> {
    let entries = file.auths.as_ref()?;
    for (key, entry) in matching(entries, registry, name) {
        match secret(entry) {
            Ok(Some(secret)) => {
                let from = format!("`{}` in {path}", shown(key));
                return Some(FoundCredentials { secret, from, policy: SendPolicy::OnChallenge });
            }
            Ok(None) => {}
            Err(what) => {
                let key = shown(key);
                lookup.problems.push(format!("ignoring `{key}` in {path}: {what} [{FILE_INVALID}]"));
            }
        }
    }
    None
}

/// The entries that match an image: the longest path first, then the registry, then other spellings of the registry.
fn matching<'a>(
    entries: &'a BTreeMap<String, Option<AuthEntry>>,
    registry: &str,
    name: &str,
) -> Vec<(&'a str, &'a AuthEntry)> {
    let mut keys = vec![format!("{registry}/{name}")];
    while let Some((shorter, _)) = keys.last().and_then(|key| key.rsplit_once('/')) {
        keys.push(shorter.to_owned());
    }
    let exact = keys.iter().filter_map(|key| entries.get_key_value(key));
    let others = entries.iter().filter(|(key, _)| !keys.contains(key) && normal(key) == registry);
    exact.chain(others).filter_map(|(key, entry)| Some((key.as_str(), entry.as_ref()?))).collect()
}

/// The registry that a key names. Older versions of Docker wrote URLs as keys.
fn normal(key: &str) -> String {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    registry(bare.map_or(key, |bare| bare.split('/').next().unwrap_or_default()))
}

/// A key without the user name and password that a hand-written URL may contain.
fn shown(key: &str) -> &str {
    key.rsplit_once('@').map_or(key, |(_, rest)| rest)
}

/// The secret in an entry; `None` for an empty entry, which Docker writes if a helper has the secret.
fn secret(entry: &AuthEntry) -> Result<Option<Secret>, &'static str> {
    let is_set = |text: &&String| !text.is_empty();
    if let Some(token) = entry.identitytoken.as_ref().filter(is_set) {
        return Ok(Some(Secret::Identity(token.clone())));
    }
    if let Some(auth) = entry.auth.as_ref().filter(is_set) {
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let bytes = GeneralPurpose::new(&STANDARD, lenient).decode(auth.trim());
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or("`auth` is not base64-encoded text")?;
        let (user, password) =
            text.split_once(':').ok_or("`auth` has no `:` between user name and password")?;
        let password = password.trim_matches('\0').to_owned();
        return Ok(Some(Secret::Password { user: user.to_owned(), password }));
    }
    let both = entry.username.as_ref().filter(is_set).zip(entry.password.as_ref().filter(is_set));
    Ok(both.map(|(user, password)| Secret::Password { user: user.clone(), password: password.clone() }))
}
