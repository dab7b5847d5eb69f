//! Takes secrets out of a recording and remembers where they were.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::secret::{self, SecretKind};

use crate::Environment;

/// Where secrets were redacted, without the secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<String, BTreeSet<SecretKind>>);

impl Redactions {
    /// Whether nothing was redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `redacted 2 values: CFLAGS, GITHUB_TOKEN`; empty if there are none.
    #[must_use]
    pub fn summary(&self) -> String {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let values = if names.len() == 1 { "value" } else { "values" };
        if names.is_empty() {
            return String::new();
        }
        format!("redacted {} {values}: {}", names.len(), names.join(", "))
    }

    /// One line for each place: `CFLAGS (by name)`.
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
            // Each place is one line, also that of a file with a line break in its name.
            self.0.entry(place.replace(char::is_control, " ")).or_default().extend(kinds);
        }
    }
}

/// What is known of a host's secrets.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets {
    /// Values of variables that are secret by their names, and secrets inside values of others. Other texts may repeat
    /// them.
    known: Vec<String>,
    /// Where they were redacted so far.
    pub(super) redactions: Redactions,
}

impl Secrets {
    /// Those in the variables of a host.
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
        // What contains another one is replaced as a whole.
        secrets.known.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        secrets.known.dedup();
        secrets
    }

    /// A text without secrets.
    pub(super) fn text(&mut self, place: &str, text: &str) -> String {
        let redacted = secret::redact_known(text, &self.known);
        self.redactions.add(place, redacted.kinds);
        redacted.text.into_owned()
    }

    /// The arguments of a command without secrets.
    pub(super) fn arguments(&mut self, place: &str, arguments: &[String]) -> Vec<String> {
        let (arguments, kinds) = secret::redact_arguments(arguments, &self.known);
        self.redactions.add(place, kinds);
        arguments
    }

    /// A binary file without secrets; its length stays.
    pub(super) fn bytes(&mut self, place: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let masked = secret::mask(bytes, &self.known)?;
        self.redactions.add(place, BTreeSet::from([SecretKind::Shape]));
        Some(masked)
    }
}
