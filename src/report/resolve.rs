//! The document of `gpubuild resolve`, and its text.

use std::fmt::Write as _;

use gpubuild_release::{ReleaseMachine, ReleaseManifest, VariantChoice};
use serde::Serialize;

use super::Schema;

/// The document of `resolve --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResolveReport<'a> {
    schema: Schema,
    /// Name of the release.
    name: &'a str,
    /// Its version.
    version: &'a str,
    #[serde(flatten)]
    choice: &'a VariantChoice,
    /// The properties of the machine that variants can require.
    machine: &'a ReleaseMachine,
}

impl<'a> ResolveReport<'a> {
    /// The document of a selection.
    #[must_use]
    pub fn new(
        manifest: &'a ReleaseManifest,
        machine: &'a ReleaseMachine,
        choice: &'a VariantChoice,
    ) -> Self {
        Self {
            schema: Schema { name: "resolve", version: 1 },
            name: &manifest.name,
            version: &manifest.version,
            choice,
            machine,
        }
    }
}

/// The selection as text: the label on its own line, with `explain` followed by the reasons.
#[must_use]
pub fn text(choice: &VariantChoice, explain: bool) -> String {
    let mut text = format!("{}\n", choice.label);
    if explain {
        let _ = writeln!(text, "  {}: {}", choice.backend, choice.because);
        for one in &choice.unknown {
            let _ = writeln!(text, "  unknown: {one}");
        }
        for one in &choice.rejected {
            let _ = writeln!(text, "  not {}: {}", one.label, one.reason);
        }
    }
    text
}
