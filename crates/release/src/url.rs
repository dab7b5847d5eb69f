//! Addresses: as much of them as fetching a release needs. Pure.

use std::fmt;

/// `https://host:port/path?query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    authority: String,
    path: String,
    query: Option<String>,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// With encryption.
    Https,
    /// Without.
    Http,
}

/// Whether addresses without encryption are accepted from other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only from this machine itself.
    Loopback,
    /// From all.
    Anywhere,
}

/// Why a text is not a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid address: {why}")]
pub struct BadUrl {
    /// The text, without what may be a password.
    pub text: String,
    /// Why.
    pub why: &'static str,
}

impl Scheme {
    fn id(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not a URL that can be fetched.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let bad = |why| BadUrl { text: without_password(text), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("it has no `https://`"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return Err(bad("only https and http are fetched")),
        };
        if text.len() > 4096 {
            return Err(bad("it is too long"));
        }
        if rest.chars().any(|c| {
            !c.is_ascii_graphic() || matches!(c, '\\' | '"' | '<' | '>' | '`' | '{' | '}' | '|' | '^')
        }) {
            return Err(bad("it has characters that have to be written as `%20` and the like"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err(bad("names and passwords are not taken from addresses; ~/.netrc keeps them"));
        }
        let authority = authority.to_ascii_lowercase();
        if host_of(&authority).is_none_or(str::is_empty) {
            return Err(bad("it names no host"));
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { scheme, authority, path: path.to_owned(), query })
    }

    /// The target of a redirect from here.
    ///
    /// # Errors
    /// It is not a URL that can be fetched.
    pub fn join(&self, location: &str) -> Result<Self, BadUrl> {
        let origin = format!("{}://{}", self.scheme.id(), self.authority);
        if location.contains("://") && !location.starts_with(['/', '?', '.']) {
            return Self::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme.id()));
        }
        if location.starts_with('/') {
            return Self::parse(&format!("{origin}{location}"));
        }
        if location.starts_with('?') {
            return Self::parse(&format!("{origin}{}{location}", self.path));
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self::parse(&format!("{origin}{folder}/{location}"))
    }

    /// The address of a file beside this one; a query stays with the file that it was for.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self { path: format!("{folder}/{name}"), query: None, ..self.clone() }
    }

    /// The address of a file below this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self { path: format!("{}/{name}", self.path.trim_end_matches('/')), ..self.clone() }
    }

    /// With something put behind the path.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    /// With a question put behind what is asked already.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        let query = match &self.query {
            Some(own) => format!("{own}&{query}"),
            None => query.to_owned(),
        };
        Self { query: Some(query), ..self.clone() }
    }

    /// The host without its port, in small letters.
    #[must_use]
    pub fn host(&self) -> &str {
        host_of(&self.authority).unwrap_or_default()
    }

    /// How it is asked.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether both are asked of one server.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority == other.authority
    }

    /// Whether it is this machine itself.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        host_of(&self.authority).is_some_and(is_loopback)
    }

    /// As it is shown: a query may hold what opens a door.
    #[must_use]
    pub fn shown(&self) -> String {
        let query = if self.query.is_some() { "?…" } else { "" };
        format!("{}://{}{}{query}", self.scheme.id(), self.authority, self.path)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme.id(), self.authority, self.path)?;
        match &self.query {
            Some(query) => write!(formatter, "?{query}"),
            None => Ok(()),
        }
    }
}

/// The host of `host:port`; `None` if the port is invalid.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port)
        }
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    is_port.then_some(host)
}

/// Whether a host is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host == "::1"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// The URL for messages: without user information and query.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or_else(|| rest.to_owned(), |(_, rest)| format!("…@{rest}"));
    let rest = rest.split_once('?').map_or_else(|| rest.clone(), |(path, _)| format!("{path}?…"));
    format!("{scheme}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_joined() {
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
            let told = Url::parse(bad).unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
        }
        assert_eq!(Url::parse("https://h/t?a").unwrap().with_query("b=c").to_string(), "https://h/t?a&b=c");
        assert_eq!(Url::parse("https://[::1]:8/").unwrap().host(), "::1");
        assert!(url.join("file:///etc/passwd").is_err());
    }

    #[test]
    fn this_machine_is_known() {
        for (text, expected) in [
            ("http://localhost:5000/", true),
            ("http://127.0.0.1/", true),
            ("http://127.9.9.9:1/", true),
            ("http://[::1]:8/", true),
            ("http://localhost.evil.org/", false),
            ("http://127.0.0.1.evil.org/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(Url::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
