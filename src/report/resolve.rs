//! `gpubuild resolve`: the choice as a document and as text.

use std::fmt::Write as _;

use gpubuild_release::{Choice, Machine, Manifest};
use serde::Serialize;

use super::Schema;

/// The document of `resolve --json`.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: Schema,
    name: &'a str,
    version: &'a str,
    #[serde(flatten)]
    choice: &'a Choice,
    machine: &'a Machine,
}

impl<'a> Document<'a> {
    /// The document of a choice.
    #[must_use]
    pub fn new(manifest: &'a Manifest, machine: &'a Machine, choice: &'a Choice) -> Self {
        Self {
            schema: Schema { name: "resolve", version: 1 },
            name: &manifest.name,
            version: &manifest.version,
            choice,
            machine,
        }
    }
}

/// The choice for people: the label first, alone on its line.
#[must_use]
pub fn text(choice: &Choice, explain: bool) -> String {
    let mut text = format!("{}\n", choice.label);
    if explain {
        let _ = writeln!(text, "  {}: {}", choice.backend, choice.because);
        for one in &choice.unknown {
            let _ = writeln!(text, "  nobody knows: {one}");
        }
        for one in &choice.rejected {
            let _ = writeln!(text, "  not {}: {}", one.label, one.reason);
        }
    }
    text
}
