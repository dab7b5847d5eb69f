//! The pages of the documentation that are made from data are what the data makes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads and writes its own files")]

use std::path::{Path, PathBuf};

use gpubuild::report::reference;
use gpubuild_detect::diagnostic;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::toolkit::Catalogue;

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
    if std::env::var_os("GPUBUILD_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/reference/{name} is not what the data makes: run with GPUBUILD_UPDATE_DOCS=1"
    );
}

#[test]
fn the_page_of_backends_is_made_from_the_descriptions() {
    check("backends.md", &reference::backends(&Catalogue::embedded()));
}

#[test]
fn the_page_of_findings_is_made_from_the_catalogue() {
    check("findings.md", &reference::findings(&Findings::embedded()));
}

/// The text of every Rust file below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_error_of_the_catalogue_is_used() {
    let mut text = String::new();
    for folder in ["src", "crates"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
    }
    let errors = diagnostic::errors();
    let idle: Vec<&String> = errors.keys().filter(|id| !text.contains(&format!("\"{id}\""))).collect();
    assert!(idle.is_empty(), "no code uses {idle:?}: remove them from findings/errors.toml");
}

#[test]
fn the_page_of_errors_is_made_from_the_catalogue() {
    check("errors.md", &reference::errors(&diagnostic::errors()));
}
