//! The format of `findings/logs/*.toml`, and compiled patterns.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use regex_lite::Regex;
use serde::Deserialize;

use super::literal::literals;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureFile {
    signature: Vec<Signature>,
}

/// A pattern for a failure in the output of tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// A regular expression for a line without escape sequences, time stamps, prefixes of build tools and surrounding
    /// spaces. Named captures become values. Every match must contain a literal of the pattern that is long enough for the
    /// index.
    pub pattern: String,
    /// Maximum number of lines that the pattern spans. Lines are joined by spaces; empty lines are skipped.
    #[serde(default = "one")]
    pub lines: usize,
    /// Text that must occur in the log before the match.
    pub after: Option<String>,
    /// The match only reports that something failed; it is used only if nothing else is recognised.
    #[serde(default)]
    pub weak: bool,
    /// Successful builds may print the same text, for example for an optional tool or an attempt with a fallback. The match
    /// counts only at the end of the log, or if another line reports a failure.
    #[serde(default)]
    pub doubtful: bool,
    /// The backend, if the finding is not specific to one.
    pub backend: Option<Backend>,
    /// Replaces the summary of the finding.
    pub summary: Option<String>,
    /// Replaces the remedy of the finding if a value for that is missing.
    pub fix: Option<String>,
    /// Real output that the pattern matches.
    pub sample: String,
    /// Where the sample is from: an issue, or the tool that printed it.
    pub source: String,
}

fn one() -> usize {
    1
}

/// Parses the signatures of all embedded files.
pub(super) fn embedded() -> Vec<Signature> {
    let parse = |(name, bytes): &(&str, &[u8])| {
        let file: SignatureFile = gpubuild_toml::from_bytes(bytes)
            .unwrap_or_else(|error| panic!("findings/logs/{name}.toml: {error}"));
        file.signature
    };
    // If several signatures match a line, the one in the earlier file wins. Files with general signatures come last.
    gpubuild_findings::LOG_SIGNATURES.iter().flat_map(parse).collect()
}

/// A signature with its literals, at least one of which occurs in every match.
pub(super) struct CompiledSignature {
    pub(super) signature: Signature,
    pub(super) literals: Vec<String>,
    regex: OnceLock<Regex>,
}

impl CompiledSignature {
    pub(super) fn new(signature: Signature) -> Self {
        let mut literals = literals(&signature.pattern).unwrap_or_default();
        if signature.lines > 1 {
            // A space in the pattern may be a line break in the log, so literals must not start or end with one.
            literals = literals.iter().map(|literal| literal.trim().to_owned()).collect();
        }
        Self { signature, literals, regex: OnceLock::new() }
    }

    /// The regular expression, compiled at first use.
    pub(super) fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let pattern = &self.signature.pattern;
            Regex::new(pattern).unwrap_or_else(|error| panic!("{}: `{pattern}`: {error}", self.signature.id))
        })
    }
}

/// Fills the placeholders of a template; `None` if a value is missing.
pub(super) fn fill(template: &str, values: &BTreeMap<String, String>) -> Option<String> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, name, after)) = placeholder(rest) {
        text.push_str(before);
        text.push_str(values.get(name)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// Splits a text at its first `{name}` into the text before, the name and the text after.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name.then_some((before, name, after))
}
