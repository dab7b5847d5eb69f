//! For gpubuild's own crates; no stable interface.

use std::path::{Path, PathBuf};

use crate::demand;
use crate::files::Variables;
use crate::manifest::Manifest;
use crate::same;
use crate::script::Script;

/// The code of a program whose backends are all linked in.
pub const NO_MODULES: &str = include_str!("linked.rs.in");

/// What to do about [`same_symbols`].
pub const SAME_SYMBOLS_HINT: &str = same::HINT;

/// The manifests of the crates that this one depends on, and a sentence if two of them, or one of them and the crate `own` with
/// its manifest, define the same symbols.
#[must_use]
pub fn same_symbols(
    variables: impl IntoIterator<Item = (String, String)>,
    own: (&str, &Path),
) -> (Vec<PathBuf>, Option<String>) {
    let manifest = Manifest::read_any(own.1).ok().map(|(manifest, _)| manifest);
    same::compared(&Variables::new(variables), manifest.as_ref().map(|manifest| (own.0, manifest)))
}

/// The text that [`crate::link`] prints in a build script with these variables.
#[must_use]
pub fn lines(variables: impl IntoIterator<Item = (String, String)>) -> String {
    crate::lines(&Variables::new(variables))
}

/// Lines for cargo that have linking fail where the crate's features name backends that are not among those of a manifest.
#[must_use]
pub fn demand(
    variables: impl IntoIterator<Item = (String, String)>,
    manifest: &Path,
    built: &[String],
) -> String {
    let mut script = Script::default();
    demand::demand(&Variables::new(variables), manifest, Some(built), &mut script);
    script.into_text()
}
