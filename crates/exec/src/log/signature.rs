//! The form of `findings/logs/*.toml`, and patterns ready to be matched.

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

/// A failure as tools print it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The finding that it shows.
    pub id: DiagnosticId,
    /// A regular expression for a line without escape sequences, time stamps, marks of build tools and outer blanks. Named
    /// captures become values. Every match has to hold a text of some length that stands in the pattern as it is.
    pub pattern: String,
    /// How many lines the pattern spans at most; they are joined by spaces and empty ones do not count.
    #[serde(default = "one")]
    pub lines: usize,
    /// Text that the log has to hold before it.
    pub after: Option<String>,
    /// It says only that something failed, and counts where nothing else is recognised.
    #[serde(default)]
    pub weak: bool,
    /// Builds that succeed print it as well: a tool that is only looked for, a try that is followed by another. It counts
    /// in a log that says elsewhere that something failed, or at its end.
    #[serde(default)]
    pub doubtful: bool,
    /// The backend, where the finding is not one backend's.
    pub backend: Option<Backend>,
    /// A line that replaces the finding's.
    pub summary: Option<String>,
    /// A remedy that replaces the finding's where that lacks a value.
    pub fix: Option<String>,
    /// Output of a real tool.
    pub sample: String,
    /// The thread that it was found in, or the tool that printed it.
    pub source: String,
}

fn one() -> usize {
    1
}

/// The signatures of all embedded files.
pub(super) fn embedded() -> Vec<Signature> {
    let parse = |(name, bytes): &(&str, &[u8])| {
        let file: SignatureFile = gpubuild_toml::from_bytes(bytes)
            .unwrap_or_else(|error| panic!("findings/logs/{name}.toml: {error}"));
        file.signature
    };
    // On one line of a log the earlier file wins; the general ones come last.
    gpubuild_findings::LOG_SIGNATURES.iter().flat_map(parse).collect()
}

/// A signature with the texts of which every match of it holds one.
pub(super) struct CompiledSignature {
    pub(super) signature: Signature,
    pub(super) literals: Vec<String>,
    regex: OnceLock<Regex>,
}

impl CompiledSignature {
    pub(super) fn new(signature: Signature) -> Self {
        let mut literals = literals(&signature.pattern).unwrap_or_default();
        if signature.lines > 1 {
            // Where the output breaks, there is no blank.
            literals = literals.iter().map(|literal| literal.trim().to_owned()).collect();
        }
        Self { signature, literals, regex: OnceLock::new() }
    }

    /// The pattern, compiled when it is needed first.
    pub(super) fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let pattern = &self.signature.pattern;
            Regex::new(pattern).unwrap_or_else(|error| panic!("{}: `{pattern}`: {error}", self.signature.id))
        })
    }
}

/// A template with its values; `None` if one is missing.
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

/// The first `{name}` of a text, with what stands around it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name.then_some((before, name, after))
}
