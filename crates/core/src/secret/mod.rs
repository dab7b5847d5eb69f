//! Redacts secrets in recordings, reports, logs and the store, because these are published. Finds secrets by the names of assignments,
//! token formats and entropy.
//!
//! Each secret is replaced by [`MARK`], without changing the text around it: `-DAPI_KEY=[redacted]`.

mod entropy;
mod name;
mod scan;
mod shape;
#[cfg(test)]
mod tests;

use crate::order::SortIndirect as _;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

pub use name::{is_secret_name, names_secret};

/// The replacement for a secret.
pub const MARK: &str = "[redacted]";

/// Minimum length in bytes of a text that can contain a recognisable secret.
const MIN_LENGTH: usize = 6;

/// Why a text is considered a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretKind {
    /// It is the value of a variable, option, header or query parameter with a secret name: `API_KEY=`, `--password`, `?token=`.
    Name,
    /// It follows an authentication scheme: `Bearer`.
    Scheme,
    /// It is the user information of a URL.
    UserInfo,
    /// It has the format of a known token, key or webhook: `ghp_`, `AKIA`, PEM.
    Shape,
    /// It is a long random-looking text.
    Entropy,
    /// It is equal to the value of a secret variable.
    Known,
}

impl fmt::Display for SecretKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "by name",
            Self::Scheme => "authorization",
            Self::UserInfo => "user information of a URL",
            Self::Shape => "token",
            Self::Entropy => "random text",
            Self::Known => "value of another variable",
        })
    }
}

/// A secret in a text, as a byte range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FoundSecret {
    start: usize,
    end: usize,
    kind: SecretKind,
}

/// A text with its secrets replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'a> {
    /// The text with [`MARK`] in place of each secret.
    pub text: Cow<'a, str>,
    /// The kinds of secrets that were replaced; empty if the text is unchanged.
    pub kinds: BTreeSet<SecretKind>,
}

/// Replaces every secret in a text.
#[must_use]
pub fn redact(text: &str) -> Redacted<'_> {
    redact_known(text, &[])
}

/// Replaces every secret in a text and every occurrence of the `known` values.
#[must_use]
pub fn redact_known<'a>(text: &'a str, known: &[String]) -> Redacted<'a> {
    let found = find_known(text, known);
    if found.is_empty() {
        return Redacted { text: Cow::Borrowed(text), kinds: BTreeSet::new() };
    }
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for one in &found {
        result.push_str(&text[done..one.start]);
        result.push_str(MARK);
        done = one.end;
    }
    result.push_str(&text[done..]);
    Redacted { text: Cow::Owned(result), kinds: found.iter().map(|one| one.kind).collect() }
}

/// Replaces every secret in a command's arguments, including arguments that follow a secret option such as `--password`.
#[must_use]
pub fn redact_arguments(arguments: &[String], known: &[String]) -> (Vec<String>, BTreeSet<SecretKind>) {
    let mut kinds = BTreeSet::new();
    let mut before = "";
    let mut redacted = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if scan::is_secret_argument(before, argument) {
            redacted.push(MARK.to_owned());
            kinds.insert(SecretKind::Name);
        } else {
            let one = redact_known(argument, known);
            redacted.push(one.text.into_owned());
            kinds.extend(one.kinds);
        }
        before = argument;
    }
    (redacted, kinds)
}

/// Returns the secrets in a text that are long and unusual enough to be searched in other texts.
#[must_use]
pub fn values(text: &str) -> Vec<String> {
    let found = find_known(text, &[]);
    let values = found.into_iter().map(|one| &text[one.start..one.end]);
    values.filter(|value| entropy::is_distinct(value)).map(str::to_owned).collect()
}

/// Whether the value of a secret variable is unusual enough to be searched in other texts, so not a path or a word.
#[must_use]
pub fn is_distinct(value: &str) -> bool {
    entropy::is_distinct(value)
}

/// Whether the value of a variable with a secret name can be a secret. Paths such as the value of `SSH_AUTH_SOCK` cannot.
#[must_use]
pub fn is_value(value: &str) -> bool {
    !value.is_empty() && !entropy::is_path(value)
}

/// Overwrites secrets in the printable parts of a binary file without changing its length. Does not use entropy, because code and
/// compressed data look random. `None` if the file contains no secrets.
#[must_use]
pub fn mask(bytes: &[u8], known: &[String]) -> Option<Vec<u8>> {
    let mut masked = None;
    let mut start = 0;
    while start < bytes.len() {
        let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
        let length =
            bytes[start..].iter().position(|byte| !is_printable(byte)).unwrap_or(bytes.len() - start);
        let end = start + length;
        if length >= MIN_LENGTH
            && let Ok(text) = std::str::from_utf8(&bytes[start..end])
        {
            for one in find_known(text, known).iter().filter(|one| one.kind != SecretKind::Entropy) {
                let masked: &mut Vec<u8> = masked.get_or_insert_with(|| bytes.to_vec());
                masked[start + one.start..start + one.end].fill(b'*');
            }
        }
        start = end + 1;
    }
    masked
}

/// All secrets, sorted by position, without overlaps.
fn find_known(text: &str, known: &[String]) -> Vec<FoundSecret> {
    let mut found = Vec::new();
    if text.len() < MIN_LENGTH {
        return found;
    }
    let lower = text.to_ascii_lowercase();
    scan::assignments(text, &mut found);
    scan::options(text, &mut found);
    scan::schemes(text, &lower, &mut found);
    scan::user_info(text, &mut found);
    scan::netrc(text, &lower, &mut found);
    shape::private_keys(text, &mut found);
    shape::webhooks(text, &lower, &mut found);
    shape::tokens(text, &mut found);
    entropy::random(text, &mut found);
    for value in known {
        found.extend(text.match_indices(value.as_str()).map(|(start, value)| FoundSecret {
            start,
            end: start + value.len(),
            kind: SecretKind::Known,
        }));
    }
    found.retain(|one| one.start < one.end);
    found.sort_indirect();
    found.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        if overlaps {
            last.end = last.end.max(next.end);
        }
        overlaps
    });
    found
}

/// A writer that redacts its input; each call of `write_all` must pass complete lines or messages.
pub struct Redacting<W>(pub W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(redact(&text).text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
