//! URLs of releases: `http` and `https` without user information. Pure; parsed by the `url` crate.

use std::fmt;

use gpubuild_core::clean;
use url::Host;

/// `https://host:port/path?query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(url::Url);

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Encrypted.
    Https,
    /// Not encrypted.
    Http,
}

/// From which hosts `http` is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only from this machine.
    Loopback,
    /// From every host.
    Anywhere,
}

/// Why a text is not a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid address: {why}")]
pub struct BadUrl {
    /// The text without user information and query.
    pub text: String,
    /// The reason.
    pub why: String,
}

/// The longest accepted URL, in bytes.
const MAX_LENGTH: usize = 4096;
/// The longest part of an invalid URL in a message, in characters: servers choose the targets of redirects.
const SHOWN: usize = 256;

const TOO_LONG: &str = "it is too long";
const RAW_CHARACTERS: &str = "it contains characters that must be percent-encoded";

/// Whether a text contains characters that `url` would remove or encode: a mistake, or an attack.
fn has_raw_characters(text: &str) -> bool {
    text.chars().any(|c| !c.is_ascii_graphic() || r#"\"<>`{}|^"#.contains(c))
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is not a URL, or not one that may be fetched.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let bad = |why: &str| BadUrl { text: without_password(text), why: why.to_owned() };
        // `url` also accepts `https:host` and `https:///host`.
        let Some((_, rest)) = text.split_once("://") else {
            return Err(bad("it has no `https://`"));
        };
        if rest.starts_with('/') {
            return Err(bad("it has no host"));
        }
        if text.len() > MAX_LENGTH {
            return Err(bad(TOO_LONG));
        }
        if has_raw_characters(text) {
            return Err(bad(RAW_CHARACTERS));
        }
        let url = url::Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        Self::accept(url).map_err(bad)
    }

    /// The target of a redirect from this URL.
    ///
    /// # Errors
    /// The location is not a URL, or not one that may be fetched.
    pub fn join(&self, location: &str) -> Result<Self, BadUrl> {
        let bad = |why: &str| BadUrl { text: without_password(location), why: why.to_owned() };
        if location.len() > MAX_LENGTH {
            return Err(bad(TOO_LONG));
        }
        if has_raw_characters(location) {
            return Err(bad(RAW_CHARACTERS));
        }
        let url = self.0.join(location).map_err(|error| bad(&error.to_string()))?;
        Self::accept(url).map_err(bad)
    }

    fn accept(mut url: url::Url) -> Result<Self, &'static str> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err("only https and http are supported");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user names and passwords in addresses are not supported; store them in ~/.netrc");
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The URL of a file in the same folder, without the query.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let folder = self.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut url = self.with_path(&format!("{folder}/{name}"));
        url.0.set_query(None);
        url
    }

    /// The URL of a file below this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        self.with_path(&format!("{}/{name}", self.path().trim_end_matches('/')))
    }

    /// The URL with a suffix appended to its path.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        self.with_path(&format!("{}{suffix}", self.path()))
    }

    /// The URL with more parameters, already encoded.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        let query = match self.0.query() {
            Some(own) => format!("{own}&{query}"),
            None => query.to_owned(),
        };
        let mut url = self.clone();
        url.0.set_query(Some(&query));
        url
    }

    fn with_path(&self, path: &str) -> Self {
        let mut url = self.clone();
        url.0.set_path(path);
        url
    }

    /// The host in lowercase, without port and brackets.
    #[must_use]
    pub fn host(&self) -> String {
        match self.0.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        if self.0.scheme() == "https" { Scheme::Https } else { Scheme::Http }
    }

    /// The path, encoded.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether scheme, host and port are the same.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// Whether the host is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    /// The URL for messages: without the query, which may contain a token.
    #[must_use]
    pub fn shown(&self) -> String {
        without_query(self.0.as_str())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Whether a host is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    Url::parse(&format!("http://{host}")).is_ok_and(|url| url.is_loopback())
}

/// A possibly invalid URL for messages: without user information and query.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or_else(|| rest.to_owned(), |(_, rest)| format!("…@{rest}"));
    clean::short(&format!("{scheme}{}", without_query(&rest)), SHOWN).into_owned()
}

fn without_query(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(path, _)| format!("{path}?…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_joined() {
        let url = Url::parse("HTTPS://Example.com:8443/a/b/manifest.json?token=1#x").unwrap();
        assert_eq!(url.to_string(), "https://example.com:8443/a/b/manifest.json?token=1");
        assert_eq!(url.shown(), "https://example.com:8443/a/b/manifest.json?…");
        assert_eq!(url.beside("blobs/x").to_string(), "https://example.com:8443/a/b/blobs/x");
        for (location, expected) in [
            ("https://other.org/x", "https://other.org/x"),
            ("//other.org/x", "https://other.org/x"),
            ("/x?y", "https://example.com:8443/x?y"),
            ("x", "https://example.com:8443/a/b/x"),
            ("?z", "https://example.com:8443/a/b/manifest.json?z"),
            ("/x?u=https://a", "https://example.com:8443/x?u=https://a"),
        ] {
            assert_eq!(url.join(location).unwrap().to_string(), expected);
        }
        assert_eq!(
            Url::parse("http://h").unwrap().below("manifest.json").to_string(),
            "http://h/manifest.json"
        );
        for bad in [
            "",
            "x",
            "ftp://h/x",
            "file:///etc/passwd",
            "https://",
            "https://:80/",
            "https://h:port/",
            "https://h/a b",
            "https://h/\n",
            "https://[::1",
            "https:///h/x",
            "https:h/x",
            "https://h\\x/",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
        for bad in [
            "https://me:secret@h/",
            "https://me:se@secret@h/",
            "https://me:x/secret@h/",
            "https://me:x?secret@h/",
            "https://h/ x?secret",
            "ftp://secret@h",
        ] {
            let message = Url::parse(bad).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
        assert_eq!(Url::parse("https://h/t?a").unwrap().with_query("b=c").to_string(), "https://h/t?a&b=c");
        assert_eq!(Url::parse("https://[::1]:8/").unwrap().host(), "::1");
        assert!(url.join("file:///etc/passwd").is_err());
    }

    #[test]
    fn redirects_to_long_and_odd_addresses_have_short_messages() {
        let url = Url::parse("https://h/a").unwrap();
        let long = "x".repeat(100_000);
        for location in [
            long.clone(),
            format!("/{long}"),
            format!("?{long}"),
            format!("https://{long}:{long}/"),
            " \u{1b}\n".repeat(10_000),
        ] {
            let message = url.join(&location).unwrap_err().to_string();
            assert!(message.len() < 1000 && !message.contains(['\u{1b}', '\n']), "{message}");
        }
    }

    #[test]
    fn loopback_hosts_are_recognized() {
        for (text, expected) in [
            ("http://localhost:5000/", true),
            ("http://127.0.0.1/", true),
            ("http://127.9.9.9:1/", true),
            ("http://2130706433/", true),
            ("http://[::1]:8/", true),
            ("http://localhost.evil.org/", false),
            ("http://127.0.0.1.evil.org/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(Url::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
