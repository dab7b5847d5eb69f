use std::fmt::Write as _;

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_plan::wheels::lock;

use super::*;
use crate::provision::{kit, pin};

fn kit() -> &'static ToolkitLayout {
    &kit::embedded().kits["cuda"]
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// A manifest with the archives of a lock, a platform that locks do not support, and the other values of a manifest.
fn manifest(lock: &WheelLock) -> String {
    let mut text = format!(
        "{{\"release_date\": \"2025-06-04\", \"release_label\": \"{}\", \"release_product\": \"cuda\"",
        lock.version
    );
    for package in lock.components.iter().flat_map(|component| &component.archives) {
        let (name, number) = (&package.package, &package.version);
        write!(text, ",\n\"{name}\": {{\"name\": \"x\", \"license\": \"y\", \"version\": \"{number}\"")
            .unwrap();
        let jetson =
            PinnedFile { name: format!("{name}/linux-aarch64/x.tar.xz"), sha256: "0".repeat(64), size: 1 };
        for file in package.files.iter().rev().chain([&jetson]) {
            let PinnedFile { name: path, sha256, size } = file;
            let folder = file.platform_folder().unwrap();
            write!(
                text,
                ", \"{folder}\": {{\"relative_path\": \"{path}\", \"sha256\": \"{sha256}\", \"md5\": \"0\", \"size\": \"{size}\"}}"
            )
            .unwrap();
        }
        text.push('}');
    }
    text + "}"
}

#[test]
fn embedded_locks_are_reproducible() {
    let known: Vec<&WheelLock> =
        lock::offered("cuda").into_values().filter(|lock| lock.has_archives()).collect();
    assert_eq!(known.len(), 4);
    for known in known {
        for release in [&known.release, &known.version] {
            let made = super::lock(kit(), "cuda", release, &manifest(known), "m.json").unwrap();
            assert_eq!(&made, known);
            assert_eq!(&WheelLock::parse(&pin::text(&made, kit())).unwrap(), known);
        }
    }
}

#[test]
fn invalid_manifests_are_refused() {
    let known = lock::offered("cuda")[&version("12.9")];
    let good = manifest(known);
    let refused = |release: &str, text: &str| {
        let error = super::lock(kit(), "cuda", &version(release), text, "m.json").unwrap_err();
        (error.id().as_str().to_owned(), error.to_string())
    };
    for (text, expected) in [
        ("<html>".to_owned(), "`m.json` is not a manifest of the release 12.9"),
        (good.replace("12.9.1", "12.8.1"), "it belongs to 12.8.1"),
        (good.replace("\"libcublas\"", "\"other\""), "it has no `libcublas`"),
        (good.replace("\"size\": \"", "\"size\": \"x"), "is not a size"),
        (good.replace("\"size\": \"", "\"size\": \"9000000000"), "is more than 16 TiB"),
        (
            good.replace("\"relative_path\": \"cuda_nvcc/", "\"relative_path\": \"cuda_nvcc/../"),
            "is not in its folder",
        ),
        (good.replace("\"sha256\": \"", "\"sha256\": \"x"), "is not a sha256 hash"),
        (good.replace("\"linux-", "\"bsd-").replace("\"windows-", "\"bsd-2"), "no platform has all archives"),
    ] {
        let (id, message) = refused("12.9", &text);
        assert!(message.contains(expected) && id == "toolkit.lock-unreadable", "{id}: {message}");
    }
    let (id, message) = refused("13.0", &good);
    assert!(id == "toolkit.not-in-wheels" && message.contains("omit `--manifest`"), "{message}");
}
