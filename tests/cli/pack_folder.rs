//! `gpubuild pack` into a folder that is not a complete release.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests write their own files")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::Value;

use crate::pack::{pack, project};

#[test]
fn foreign_release_folder_is_not_replaced() {
    let Some(project) = project() else { return };
    project.write("photos/blobs/sha256/holiday.jpg", "mine");
    pack(&project, &["--out", "photos"]).fails(1, "pack.out-foreign").says(&["blobs"]);
    let photos = project.path("photos");
    for link in
        ["release", "release/blobs", "release/variants", ".release.gpubuild-new", ".release.gpubuild-old"]
    {
        let link = project.path(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&photos, &link).unwrap();
        pack(&project, &["--out", "release"]).fails(1, "file.link-refused").says(&[link.to_str().unwrap()]);
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(project.read("photos/blobs/sha256/holiday.jpg"), "mine");
    let path = project.path("release").join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::write(&path, "mine").unwrap();
    pack(&project, &["--out", "release"]).fails(1, "pack.out-foreign").says(&["not UTF-8"]);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    assert!(!project.exists("app/target"), "the error precedes the build");
}

/// Packing takes variants over and deletes the rest, so a release whose parts are missing or contradict each other is left alone.
#[test]
fn damaged_release_is_not_replaced() {
    let Some(project) = project() else { return };
    pack(&project, &["--out", "alone", "--label", "one"]).succeeds();
    let damaged = |name: &str, damage: &dyn Fn(&Path), (id, text): (&str, &str)| {
        let merge = ["--out", name, "--from", "alone"];
        pack(&project, &merge).succeeds();
        damage(&project.path(name));
        pack(&project, &merge).fails(1, id).says(&[text]);
        assert!(project.exists(&format!("{name}/manifest.json")));
    };
    let variants = |folder: &Path| std::fs::remove_dir_all(folder.join("variants")).unwrap();
    damaged("a", &variants, ("pack.release-damaged", "the manifest lists this variant"));
    let file = |folder: &Path| {
        variants(folder);
        std::fs::write(folder.join("variants"), "").unwrap();
    };
    damaged("b", &file, ("pack.io", "variants"));
    let manifest_is_folder = |folder: &Path| {
        std::fs::remove_file(folder.join("manifest.json")).unwrap();
        std::fs::create_dir(folder.join("manifest.json")).unwrap();
    };
    damaged("c", &manifest_is_folder, ("pack.release-damaged", "it is not a file"));
    let foreign = |folder: &Path| std::fs::write(folder.join("blobs/sha256/precious.iso"), "").unwrap();
    damaged("d", &foreign, ("pack.out-foreign", "`blobs/sha256/precious.iso`"));
    let other_name = |folder: &Path| {
        let path = folder.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        manifest["name"] = "other".into();
        std::fs::write(path, manifest.to_string()).unwrap();
    };
    damaged("e", &other_name, ("pack.release-damaged", "it is the manifest of `other`"));
}
