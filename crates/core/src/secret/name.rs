//! Names of variables, options, headers and parameters whose values are secret.

/// How strongly a name marks its value as secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// The value is secret.
    Strong,
    /// The value is secret if it looks random.
    Weak,
}

/// A variable is secret if its name contains one of these texts, even within a longer word.
const IN_VARIABLES: [&str; 8] =
    ["TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "_KEY", "APIKEY", "COOKIE"];

/// Word endings that mark a secret.
const STRONG: [&str; 21] = [
    "token",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "authkey",
    "cookie",
    "authorization",
    "bearer",
    "jwt",
    "sharedaccesssignature",
    "sharedkey",
];

/// Words that mark a secret when followed by `key`.
const KEYS: [&str; 17] = [
    "api",
    "access",
    "private",
    "secret",
    "account",
    "shared",
    "auth",
    "encryption",
    "signing",
    "storage",
    "master",
    "deploy",
    "client",
    "app",
    "subscription",
    "functions",
    "service",
];

/// Complete words that mark a secret only weakly.
const WEAK: [&str; 19] = [
    "tokens",
    "auth",
    "authentication",
    "pat",
    "pwd",
    "pass",
    "pw",
    "session",
    "sessionid",
    "sid",
    "sig",
    "signature",
    "hmac",
    "otp",
    "psk",
    "dsn",
    "sas",
    "webhook",
    "passcode",
];

/// Last words of names of variables that refer to a secret but do not contain it.
const ABOUT: [&str; 28] = [
    "file",
    "path",
    "dir",
    "folder",
    "url",
    "uri",
    "name",
    "id",
    "type",
    "length",
    "len",
    "size",
    "count",
    "limit",
    "ttl",
    "expiry",
    "expires",
    "version",
    "enabled",
    "algorithm",
    "method",
    "provider",
    "helper",
    "mode",
    "format",
    "host",
    "endpoint",
    "server",
];

/// Whether an environment variable with this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_uppercase();
    IN_VARIABLES.iter().any(|word| upper.contains(word)) || strength(name) == Some(Strength::Strong)
}

/// Whether one of the name's words marks its value as secret.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    strength(name).is_some()
}

/// How strongly an assignment's name marks its value as secret; `None` if it does not.
pub(super) fn strength(name: &str) -> Option<Strength> {
    let name = name.strip_prefix("-D").unwrap_or(name);
    let words = words(name);
    let last = words.last()?.as_str();
    let pair = |first: &str, second: &str| words.windows(2).any(|two| two[0] == first && two[1] == second);
    if (pair("access", "key") && last == "id") || pair("set", "cookie") {
        return Some(Strength::Strong);
    }
    if pair("session", "id") {
        return Some(Strength::Weak);
    }
    if ABOUT.contains(&last) || words.iter().any(|word| word == "public" || word == "pub") {
        return None;
    }
    let is_strong = |word: &String| STRONG.iter().any(|end| word.ends_with(end));
    if words.iter().any(is_strong) || KEYS.iter().any(|first| pair(first, "key")) {
        return Some(Strength::Strong);
    }
    let is_weak = last == "key" || words.iter().any(|word| WEAK.contains(&word.as_str()));
    is_weak.then_some(Strength::Weak)
}

/// Splits a name into lowercase words: `X-Amz-apiKey` is `x`, `amz`, `api`, `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}
