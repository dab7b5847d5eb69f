//! Selects the shared store from `GPUBUILD_REMOTE` and the `[cache]` table of the project file.

use std::time::Duration;

use gpubuild_exec::store::settings::{age, size};
use gpubuild_host::HostInfo;
use gpubuild_plan::project::CacheTable;
use gpubuild_release::oci::Reference;
use gpubuild_release::pack::sign::Signer;
use gpubuild_release::trust::TrustKey;
use gpubuild_release::url::{PlainHttp, Url};

use super::error::InvalidRemote;
use super::http::HttpServer;
use super::oci::OciServer;
use super::s3::S3Server;
use super::server::Server;

/// The variable that selects or disables the shared store.
pub const VARIABLE: &str = "GPUBUILD_REMOTE";
/// The variable that allows saving results.
pub const WRITE: &str = "GPUBUILD_REMOTE_WRITE";
const KEY: &str = "GPUBUILD_KEY";
const SIGN_KEY: &str = "GPUBUILD_SIGN_KEY";
const SIGN_PASSWORD: &str = "GPUBUILD_SIGN_PASSWORD";

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_BUDGET: Duration = Duration::from_secs(300);
/// The longest time limit. Deadlines are computed by additions, which longer ones would overflow.
const LONGEST_TIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const DEFAULT_UPLOAD: u64 = 4 << 30;

/// Whether results are saved in the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteAccess {
    /// Results are only read.
    Read,
    /// Results are read and saved.
    Write,
}

/// A shared store and its limits.
pub struct RemoteSettings {
    pub(crate) server: Box<dyn Server>,
    /// The URL as the user wrote it.
    pub url: String,
    /// Whether results are saved.
    pub access: RemoteAccess,
    /// Time limit for connecting and for every response.
    pub timeout: Duration,
    /// Time limit for all transfers of a command.
    pub budget: Duration,
    /// Maximum number of bytes that a command uploads.
    pub max_upload: u64,
    /// Hosts that may be contacted without encryption.
    pub plain: PlainHttp,
    /// The keys of which one has to have signed an entry; `None` if unsigned entries are accepted.
    pub(crate) keys: Option<Vec<TrustKey>>,
    pub(crate) signer: Option<Signer>,
}

/// What a command asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemoteRequest<'a> {
    /// The URL of the store instead of the configured one.
    pub url: Option<&'a str>,
    /// Whether the command saves results, whatever is configured for builds.
    pub write: bool,
}

impl RemoteSettings {
    /// Selects the store. `None` if none is configured, or if it is disabled.
    ///
    /// # Errors
    /// A setting is not valid.
    pub fn open(
        host: &dyn HostInfo,
        table: &CacheTable,
        request: RemoteRequest<'_>,
    ) -> Result<Option<Self>, InvalidRemote> {
        let env = host.env();
        let (setting, url) = match (request.url, env.get(VARIABLE).map(str::trim), table.shared_store()) {
            (Some(url), ..) => ("--remote", url.to_owned()),
            (None, Some("off" | "0" | "false" | ""), _) | (None, None, None) => return Ok(None),
            (None, Some(url), _) => (VARIABLE, url.to_owned()),
            (None, None, Some(url)) => ("remote", url.to_owned()),
        };
        let plain = if table.insecure_http { PlainHttp::Anywhere } else { PlainHttp::Loopback };
        let access = match env.get(WRITE) {
            _ if request.write => RemoteAccess::Write,
            Some("1" | "on" | "true") => RemoteAccess::Write,
            Some("0" | "off" | "false") => RemoteAccess::Read,
            _ if table.write => RemoteAccess::Write,
            _ => RemoteAccess::Read,
        };
        let seconds = |setting, value: &Option<String>, default| match value.as_deref().map(age) {
            None => Ok(default),
            Some(Ok(seconds @ 1..)) => Ok(Duration::from_secs(seconds).min(LONGEST_TIME)),
            Some(_) => Err(InvalidRemote { setting, what: "write a time such as `3s` or `5m`".to_owned() }),
        };
        let max_upload = table.max_upload.as_deref().map(size).transpose();
        Ok(Some(Self {
            server: server(host, table, setting, &url, plain)?,
            url,
            access,
            timeout: seconds("timeout", &table.timeout, DEFAULT_TIMEOUT)?,
            budget: seconds("budget", &table.budget, DEFAULT_BUDGET)?,
            max_upload: max_upload
                .map_err(|error| InvalidRemote { setting: "max_upload", what: error.to_string() })?
                .unwrap_or(DEFAULT_UPLOAD),
            plain,
            keys: keys(host, table)?,
            signer: if access == RemoteAccess::Write { signer(host)? } else { None },
        }))
    }
}

/// The server of a URL.
fn server(
    host: &dyn HostInfo,
    table: &CacheTable,
    setting: &'static str,
    url: &str,
    plain: PlainHttp,
) -> Result<Box<dyn Server>, InvalidRemote> {
    let invalid = |what: String| InvalidRemote { setting, what };
    match url.split_once("://") {
        Some(("s3", rest)) => Ok(Box::new(S3Server::new(host, table, rest)?)),
        Some(("oci", rest)) => {
            let repository = Reference::repository(rest.trim_end_matches('/'), plain);
            let repository = repository.map_err(|error| invalid(error.to_string()))?;
            Ok(Box::new(OciServer { repository }))
        }
        Some(("https" | "http", _)) => {
            let root = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
            Ok(Box::new(HttpServer { root }))
        }
        Some((scheme, _)) => Err(invalid(format!("no kind of store has the scheme `{scheme}`"))),
        None => Err(invalid("it is not a URL".to_owned())),
    }
}

/// The keys of `[cache] keys`, else of `GPUBUILD_KEY`. Entries of other keys are refused as soon as there is one.
fn keys(host: &dyn HostInfo, table: &CacheTable) -> Result<Option<Vec<TrustKey>>, InvalidRemote> {
    let from_env = || host.env().get(KEY).map(|text| vec![text.to_owned()]).unwrap_or_default();
    let texts = if table.keys.is_empty() { from_env() } else { table.keys.clone() };
    if !table.require_signature && table.keys.is_empty() {
        return Ok(None);
    }
    let invalid = |what: &str| InvalidRemote { setting: "keys", what: what.to_owned() };
    if texts.is_empty() {
        return Err(invalid("`require_signature` needs a minisign public key, or GPUBUILD_KEY"));
    }
    let keys: Option<Vec<TrustKey>> = texts.iter().map(|text| TrustKey::read(text)).collect();
    keys.map(Some).ok_or_else(|| invalid("a minisign public key is the line that begins with `RW`"))
}

/// The key of `GPUBUILD_SIGN_KEY`.
fn signer(host: &dyn HostInfo) -> Result<Option<Signer>, InvalidRemote> {
    let env = host.env();
    let Some(text) = env.get(SIGN_KEY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let signer = Signer::open(text, env.get(SIGN_PASSWORD).map(str::to_owned));
    signer.map(Some).map_err(|error| InvalidRemote { setting: SIGN_KEY, what: error.to_string() })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
