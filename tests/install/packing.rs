//! A kill at any point of packing leaves the previous or the new release, with and without atomic exchange of
//! folders.
#![expect(clippy::disallowed_methods, reason = "a test reads its own folders")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubuild_core::Backend;
use gpubuild_host::{Environment, Host, HostInfo, HostPath, Os, WriteFiles};
use gpubuild_release::manifest::ReleaseVariant;
use gpubuild_release::pack::layer::{LayerKind, LayerPiece};
use gpubuild_release::pack::release::{PublishOptions, ReleaseEntry, ReleaseWork};
use gpubuild_release::pack::{self, KnownLayers, PackError};

use crate::faulty::{Fault, FaultyHost};
use crate::support::Sandbox;

/// Packs a variant with these files into the folder.
pub(crate) fn pack(
    host: &dyn Host,
    folder: &HostPath,
    label: &str,
    files: &[HostPath],
) -> Result<(), PackError> {
    let work = ReleaseWork::begin(host, folder)?;
    let mut known = KnownLayers::of(&work, folder);
    let piece = |(index, from): (usize, &HostPath)| LayerPiece {
        path: format!("share/{index}"),
        from: from.clone(),
        executable: false,
        part: LayerKind::Built(index.to_string()),
    };
    let pieces: Vec<LayerPiece> = files.iter().enumerate().map(piece).collect();
    let (layers, contents) = pack::layers(host, &work, &pieces, &mut known)?;
    let variant =
        ReleaseVariant { label: label.to_owned(), backends: vec![Backend::Cpu], ..ReleaseVariant::default() };
    let variant = pack::with_layers(variant, &layers);
    let entry = ReleaseEntry::new("demo", "1.0", "linux-x86_64", variant, contents);
    let seal = PublishOptions {
        days: None,
        serial: None,
        default: None,
        prefer: &[],
        signer: None,
        now: 1_790_000_000,
    };
    work.publish(vec![entry], &seal).map(drop)
}

pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            (entry.path().strip_prefix(folder).unwrap().to_owned(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Kills packing before every disk change and returns the number of changes.
fn every_point(exchanges: bool) -> usize {
    let sandbox = Sandbox::new();
    let env = Environment::new(Os::Linux, [("GPUBUILD_CACHE", sandbox.at("cache"))]);
    let dying = |count: usize| {
        let mut host = FaultyHost::new(Fault::Kill, count).knows(&[sandbox.path("")]);
        (host.env, host.exchanges) = (env.clone(), exchanges);
        host
    };
    let host = dying(usize::MAX);
    let files: Vec<HostPath> = (0..46)
        .map(|index| {
            let path = host.path(&sandbox.at(&format!("files/{index}")));
            host.write(&path, format!("content {index}").repeat(100).as_bytes()).unwrap();
            path
        })
        .collect();
    let release = sandbox.path("release");
    let folder = host.path(release.to_str().unwrap());
    let first = || {
        let _ = std::fs::remove_dir_all(&release);
        pack(&host, &folder, "first", &files[..32]).unwrap();
    };
    first();
    let old = contents(&release);
    pack(&host, &folder, "second", &files).unwrap();
    let new = contents(&release);
    assert!(new.len() > old.len());
    let mut is_new = true;
    for point in 0.. {
        if is_new {
            first();
        }
        let killed = dying(point);
        let done = pack(&killed, &folder, "second", &files);
        killed.lose_unsynced(&[sandbox.path("")]);
        let now = contents(&release);
        // Without atomic exchange the release is briefly renamed: the next call restores it.
        let is_aside =
            !exchanges && !release.exists() && contents(&sandbox.path(".release.gpubuild-old")) == old;
        assert!(
            now == old || now == new || is_aside,
            "point {point}: neither the old release nor the new one"
        );
        is_new = now == new;
        if done.is_ok() {
            assert!(is_new);
            return point;
        }
        pack(&host, &folder, "second", &files).unwrap();
        assert_eq!(contents(&release), new, "point {point}: the next call");
        let names = std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("gpubuild-")).collect();
        assert!(left.is_empty(), "point {point}: {left:?}");
        is_new = true;
    }
    unreachable!("packing terminates")
}

#[test]
fn kill_during_pack_leaves_the_old_or_new_release() {
    assert!(every_point(true) >= 100);
}

#[test]
fn kill_during_pack_without_atomic_exchange_leaves_the_old_or_new_release() {
    assert!(every_point(false) >= 100);
}
