//! The document of `gpubuild link --format json`.

use gpubuild_plan::link::{Directives, Take};
use serde::Serialize;

use super::Schema;

/// A link line, by kind of thing.
#[derive(Debug, Serialize)]
pub struct LinkDocument<'a> {
    /// `link`, 1.
    pub schema: Schema,
    /// Folders to search.
    pub search: &'a [String],
    /// Static libraries by name, dependents first.
    #[serde(rename = "static")]
    pub statics: Vec<&'a str>,
    /// Shared libraries by name.
    pub dynamic: &'a [String],
    /// Apple frameworks.
    pub frameworks: &'a [String],
    /// Everything else.
    pub arguments: &'a [String],
    /// Folders to find the project's shared libraries in at run time.
    pub rpath: &'a [String],
    /// Those of `static` that have to be taken whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole_archive: Vec<&'a str>,
}

impl<'a> LinkDocument<'a> {
    /// The document for a link line.
    #[must_use]
    pub fn new(directives: &'a Directives) -> Self {
        let whole = directives.statics.iter().filter(|library| library.take == Take::Whole);
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
            |name: &str, take| Static { name: name.to_owned(), path: format!("/b/lib{name}.a"), take };
        let directives = Directives {
            search: vec!["/b/cpu".into(), "/b c".into()],
            statics: vec![library("gk-cpu", Take::Whole), library("gk-core", Take::Needed)],
            dynamic: vec!["dl".into(), "m".into()],
            ..Directives::default()
        };
        insta::assert_json_snapshot!(LinkDocument::new(&directives));
    }
}
