//! The document of `gpubuild link --format json`.

use gpubuild_plan::link::{ArchiveMode, Directives};
use serde::Serialize;

use super::Schema;

/// The document of `link --format json`: a link line, grouped by kind.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkDocument<'a> {
    /// `link`.
    pub schema: Schema,
    /// Folders in which the linker searches for libraries.
    pub search: &'a [String],
    /// Names of static libraries, in link order.
    #[serde(rename = "static")]
    pub statics: Vec<&'a str>,
    /// Names of shared libraries.
    pub dynamic: &'a [String],
    /// Names of Apple frameworks.
    pub frameworks: &'a [String],
    /// Other linker arguments.
    pub arguments: &'a [String],
    /// Run-time search path for the shared libraries of the project.
    pub rpath: &'a [String],
    /// The libraries of `static` that must be linked completely.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole_archive: Vec<&'a str>,
}

impl<'a> LinkDocument<'a> {
    /// The document of a link line.
    #[must_use]
    pub fn new(directives: &'a Directives) -> Self {
        let whole = directives.statics.iter().filter(|library| library.mode == ArchiveMode::Whole);
        Self {
            schema: Schema { name: "link", version: 1 },
            search: &directives.search,
            statics: directives.statics.iter().map(|library| library.name.as_str()).collect(),
            dynamic: &directives.dynamic,
            frameworks: &directives.frameworks,
            arguments: &directives.arguments,
            rpath: &directives.rpath,
            whole_archive: whole.map(|library| library.name.as_str()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_plan::link::Static;

    #[test]
    fn the_document_names_libraries_in_the_order_for_the_linker() {
        let library =
            |name: &str, mode| Static { name: name.to_owned(), path: format!("/b/lib{name}.a"), mode };
        let directives = Directives {
            search: vec!["/b/cpu".into(), "/b c".into()],
            statics: vec![library("gk-cpu", ArchiveMode::Whole), library("gk-core", ArchiveMode::Needed)],
            dynamic: vec!["dl".into(), "m".into()],
            ..Directives::default()
        };
        insta::assert_json_snapshot!(LinkDocument::new(&directives));
    }
}
