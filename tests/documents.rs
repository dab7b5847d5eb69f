//! The pages of the documentation that are made from data are what the data makes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads and writes its own files")]

use std::path::PathBuf;

use gpubuild::report::reference;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::toolkit::Catalogue;

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("GPUBUILD_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "docs/{name} is not what the data makes: run with GPUBUILD_UPDATE_DOCS=1");
}

#[test]
fn the_page_of_backends_is_made_from_the_descriptions() {
    check("backends.md", &reference::backends(&Catalogue::embedded()));
}

#[test]
fn the_page_of_findings_is_made_from_the_catalogue() {
    check("findings.md", &reference::findings(&Findings::embedded()));
}
