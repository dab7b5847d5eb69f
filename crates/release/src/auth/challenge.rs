//! Parses `WWW-Authenticate` headers, in which a server names the authentication schemes that it accepts. Pure.

use gpubuild_host::net::Response;
use serde::Deserialize;

use crate::url::{BadUrl, Url};

/// The largest response of a token server that is read, in bytes.
pub(crate) const LARGEST_TOKEN: usize = 64 << 10;
/// The client id that is sent to token servers.
const CLIENT: &str = "gpubuild";

/// An authentication scheme with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// In lower case: `basic`, `bearer`.
    pub(crate) scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// All challenges of a response. One header can contain several.
    pub(crate) fn all(response: &Response) -> Vec<Self> {
        let headers = response.headers.iter().filter(|(name, _)| name == "www-authenticate");
        headers.flat_map(|(_, value)| parse(value)).collect()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The URL that issues tokens; `None` if the challenge names none.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(crate) fn realm(&self) -> Option<Result<Url, BadUrl>> {
        self.get("realm").filter(|_| self.scheme == "bearer").map(Url::parse)
    }

    /// The query string of a token request.
    pub(crate) fn query(&self) -> String {
        let pairs = ["service", "scope"].into_iter().filter_map(|name| Some((name, self.get(name)?)));
        form(pairs)
    }

    /// The form body that exchanges an identity token for an access token.
    pub(crate) fn refresh(&self, token: &str) -> String {
        let fixed = [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", token)];
        let own = ["service", "scope"].into_iter().filter_map(|name| Some((name, self.get(name)?)));
        form(fixed.into_iter().chain(own))
    }
}

/// `Bearer realm="…", scope="a,b", Basic realm=…`. Invalid challenges are ignored.
fn parse(text: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',', '=', '"']);
        if rest.is_empty() {
            return found;
        }
        let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let name = name.to_ascii_lowercase();
        let Some(text) = after.trim_start().strip_prefix('=') else {
            found.push(Challenge { scheme: name, parameters: Vec::new() });
            continue;
        };
        let value;
        (value, rest) = value_of(text.trim_start());
        if let Some(challenge) = found.last_mut() {
            challenge.parameters.push((name, value));
        }
    }
}

/// The token or quoted string at the start of a text, and the remaining text.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            _ => value.push(c),
        }
    }
    (value, "")
}

fn form<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    pairs.map(|(name, value)| format!("{name}={}", escaped(value))).collect::<Vec<_>>().join("&")
}

fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// The access token in a token server's response.
#[must_use]
pub(crate) fn token(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct TokenResponse {
        token: Option<String>,
        access_token: Option<String>,
    }
    let response: TokenResponse = serde_json::from_slice(body).ok()?;
    let text = response.token.filter(|text| !text.is_empty()).or(response.access_token)?;
    (!text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemes(text: &str) -> Vec<String> {
        parse(text).into_iter().map(|one| one.scheme).collect()
    }

    #[test]
    fn bearer_challenges_produce_token_requests() {
        let all = parse(
            "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"",
        );
        assert_eq!(all[0].realm().unwrap().unwrap().to_string(), "https://auth.docker.io/token");
        assert_eq!(all[0].query(), "service=registry.docker.io&scope=repository:a/b:pull%2Cpush");
        assert_eq!(
            all[0].refresh("a&b"),
            "grant_type=refresh_token&client_id=gpubuild&refresh_token=a%26b&service=registry.docker.io&scope=repository:a/b:pull%2Cpush"
        );
        for none in ["", "Basic realm=\"x\"", "Bearer", "Bearer service=\"x\""] {
            assert!(parse(none).iter().all(|one| one.realm().is_none()), "{none}");
        }
        assert!(parse("Bearer realm=\"file:///x\"")[0].realm().unwrap().is_err());
        assert_eq!(token(br#"{"access_token": "abc", "token": ""}"#).as_deref(), Some("abc"));
        for bad in [&b"{}"[..], b"", br#"{"token": "a\r\nx: y"}"#, br#"{"token": ""}"#] {
            assert_eq!(token(bad), None);
        }
    }

    #[test]
    fn several_challenges_in_one_header_are_separated() {
        assert_eq!(schemes("Basic realm=\"a, Bearer b\", Bearer realm=\"c\""), ["basic", "bearer"]);
        assert_eq!(schemes("Negotiate, BASIC realm = x , charset=\"UTF-8\""), ["negotiate", "basic"]);
        assert_eq!(schemes("NTLM TlRMTVNTUAAC=="), ["ntlm"]);
        let quoted = parse("Bearer realm=\"https://h/\\\"x\",scope=a");
        assert_eq!((quoted[0].get("realm"), quoted[0].get("scope")), (Some("https://h/\"x"), Some("a")));
        // Malformed input neither panics nor loops forever.
        for malformed in
            ["=", "\"", "Bearer realm=\"", "Bearer realm=\"\\", "a=b", ",,,", "é=é \"é", "Bearer ="]
        {
            let _ = parse(malformed);
        }
    }
}
