//! Redacts secrets in a recording and lists where they were.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::secret::{self, SecretKind};

use crate::Environment;

/// The places in which secrets were redacted, and the kinds of secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<String, BTreeSet<SecretKind>>);

impl Redactions {
    /// Whether nothing was redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A summary: `redacted 2 values: CFLAGS, GITHUB_TOKEN`; empty if nothing was redacted.
    #[must_use]
    pub fn summary(&self) -> String {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let values = if names.len() == 1 { "value" } else { "values" };
        if names.is_empty() {
            return String::new();
        }
        format!("redacted {} {values}: {}", names.len(), names.join(", "))
    }

    /// One line per place: `CFLAGS (by name)`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |(place, kinds): (&String, &BTreeSet<SecretKind>)| {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            format!("{place} ({})", kinds.join(", "))
        };
        self.0.iter().map(line).collect()
    }

    fn add(&mut self, place: &str, kinds: BTreeSet<SecretKind>) {
        if !kinds.is_empty() {
            // Keep each place on one line, even if a file name contains a line break.
            self.0.entry(place.replace(char::is_control, " ")).or_default().extend(kinds);
        }
    }
}

/// The known secrets of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets {
    /// Values of variables with secret names, and secrets inside other values. They are redacted wherever they occur.
    known: Vec<String>,
    /// The redactions so far.
    pub(super) redactions: Redactions,
}

impl Secrets {
    /// Collects the secrets in environment variables.
    pub(super) fn of(env: &Environment) -> Self {
        let mut secrets = Self::default();
        for (name, value) in env.iter() {
            if secret::names_secret(name) && secret::is_distinct(value) {
                secrets.known.push(value.to_owned());
                secrets.redactions.add(name, BTreeSet::from([SecretKind::Name]));
            } else if secret::is_secret_name(name) && secret::names_secret(name) && secret::is_value(value) {
                secrets.redactions.add(name, BTreeSet::from([SecretKind::Name]));
            }
            secrets.known.extend(secret::values(value));
        }
        secrets.known.retain(|value| value != secret::MARK);
        // Longest first, so that a secret that contains another one is replaced completely.
        secrets
            .known
            .sort_indirect_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        secrets.known.dedup();
        secrets
    }

    /// Redacts a text.
    pub(super) fn text(&mut self, place: &str, text: &str) -> String {
        let redacted = secret::redact_known(text, &self.known);
        self.redactions.add(place, redacted.kinds);
        redacted.text.into_owned()
    }

    /// Redacts the arguments of a command.
    pub(super) fn arguments(&mut self, place: &str, arguments: &[String]) -> Vec<String> {
        let (arguments, kinds) = secret::redact_arguments(arguments, &self.known);
        self.redactions.add(place, kinds);
        arguments
    }

    /// Redacts binary content without changing its length. `None` if it contains no secrets.
    pub(super) fn bytes(&mut self, place: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let masked = secret::mask(bytes, &self.known)?;
        self.redactions.add(place, BTreeSet::from([SecretKind::Shape]));
        Some(masked)
    }
}
