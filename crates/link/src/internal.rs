//! For gpubuild's crates; not a stable interface.

use std::path::{Path, PathBuf};

use crate::demand;
use crate::files::Variables;
use crate::manifest::LinkManifest;
use crate::same;
use crate::script::BuildScript;

/// The modules code of a program that links all its backends.
pub const NO_MODULES: &str = include_str!("linked.rs.in");

/// The hint for [`same_symbols`].
pub const SAME_SYMBOLS_HINT: &str = same::HINT;

/// The manifests of the crates that this one depends on, and a message if two of them define the same symbols, or one of them
/// and the crate `own` with its manifest do.
#[must_use]
pub fn same_symbols(
    variables: impl IntoIterator<Item = (String, String)>,
    own: (&str, &Path),
) -> (Vec<PathBuf>, Option<String>) {
    let manifest = LinkManifest::read_any(own.1).ok().map(|(manifest, _)| manifest);
    same::compared(&Variables::new(variables), manifest.as_ref().map(|manifest| (own.0, manifest)))
}

/// What [`crate::link`] prints in a build script with these variables.
#[must_use]
pub fn lines(variables: impl IntoIterator<Item = (String, String)>) -> String {
    crate::lines(&Variables::new(variables))
}

/// Lines for cargo that make linking fail if the crate's features name backends that a manifest lacks.
#[must_use]
pub fn demand(
    variables: impl IntoIterator<Item = (String, String)>,
    manifest: &Path,
    built: &[String],
) -> String {
    let mut script = BuildScript::default();
    demand::demand(&Variables::new(variables), manifest, Some(built), &mut script);
    script.into_text()
}
