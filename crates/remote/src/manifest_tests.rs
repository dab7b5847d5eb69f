use gpubuild_exec::store::entry::Stored;

use super::*;

fn hash(text: &str) -> String {
    sha256(text.as_bytes())
}

fn manifest() -> RemoteManifest {
    let file = Stored {
        name: "files/0-liba.a".to_owned(),
        path: "{gpubuild:build}/lib/liba.a".to_owned(),
        bytes: 3,
        sha256: hash("abc"),
        executable: false,
    };
    let entry = StoreEntry {
        schema: SCHEMA,
        kind: TREES.to_owned(),
        key: hash("key"),
        label: "a cpu".to_owned(),
        gpubuild: "0.1.0".to_owned(),
        created: 1,
        seconds: 2.0,
        bytes: 3,
        place: None,
        files: vec![file],
        links: vec![("{gpubuild:build}/lib/liba.so".to_owned(), "liba.so.1".to_owned())],
    };
    let blob = |text| Blob { sha256: hash(text), bytes: 9 };
    RemoteManifest {
        name: hash("key"),
        inputs: Content { sha256: hash("{}"), bytes: 2 },
        blobs: [(hash("abc"), blob("1")), (hash("{}"), blob("2"))].into(),
        entry,
    }
}

fn opened(manifest: &RemoteManifest) -> Result<RemoteManifest, Rejected> {
    RemoteManifest::open(&manifest.seal(None).unwrap(), &hash("key"), None)
}

#[test]
fn manifest_survives_the_server() {
    assert_eq!(opened(&manifest()), Ok(manifest()));
    let (blobs, created) = RemoteManifest::references(&manifest().seal(None).unwrap()).unwrap();
    assert_eq!((blobs.len(), created), (2, 1));
    assert_eq!(id("a").len(), 64);
    assert_ne!(id("a"), id("b"));
}

#[test]
fn entries_that_write_elsewhere_are_refused() {
    for path in [
        "/etc/passwd",
        "{gpubuild:build}/../x",
        "{gpubuild:build}/a/../../x",
        "{gpubuild:build}\\..\\x",
        "{gpubuild:build}/",
        "{gpubuild:build}",
        "{gpubuild:build}x/y",
        "{gpubuild:source}/CMakeLists.txt",
        "{gpubuild:build}/a//b",
        "{gpubuild:build}/C:x",
        "{gpubuild:build}/a\n",
        "{gpubuild:build}/{gpubuild:source}",
        "{gpubuild:build}/gpubuild/stamp.json",
        "",
    ] {
        let mut file = manifest();
        path.clone_into(&mut file.entry.files[0].path);
        assert!(matches!(opened(&file), Err(Rejected::Damaged(_))), "{path}");
        let mut link = manifest();
        path.clone_into(&mut link.entry.links[0].0);
        assert!(matches!(opened(&link), Err(Rejected::Damaged(_))), "{path}");
    }
    for target in ["/etc/passwd", "../x", "a/b", "..", ".", "", "a\\b"] {
        let mut link = manifest();
        target.clone_into(&mut link.entry.links[0].1);
        assert!(matches!(opened(&link), Err(Rejected::Damaged(_))), "{target}");
    }
    for name in ["liba.a", "files/../x", "files/", "/x", "files/a/b", "../files/a"] {
        let mut file = manifest();
        name.clone_into(&mut file.entry.files[0].name);
        assert!(matches!(opened(&file), Err(Rejected::Damaged(_))), "{name}");
    }
}

#[test]
fn inconsistent_manifests_are_refused() {
    type Change = fn(&mut RemoteManifest);
    let changes: [(&str, Change); 9] = [
        ("name", |one| one.name = sha256(b"other")),
        ("key", |one| one.entry.key = sha256(b"other")),
        ("place", |one| one.entry.place = Some("x".to_owned())),
        ("kind", |one| "objects".clone_into(&mut one.entry.kind)),
        ("schema", |one| one.entry.schema += 1),
        ("bytes", |one| one.entry.bytes += 1),
        ("overflow", |one| one.entry.files.push(Stored { bytes: u64::MAX, ..one.entry.files[0].clone() })),
        ("blob", |one| drop(one.blobs.remove(&sha256(b"abc")))),
        ("inputs", |one| one.inputs.bytes = u64::MAX),
    ];
    for (what, change) in changes {
        let mut damaged = manifest();
        change(&mut damaged);
        assert!(matches!(opened(&damaged), Err(Rejected::Damaged(_))), "{what}");
    }
    for text in ["", "{}", "[]", "null", "{\"schema\":\"gpubuild.store/2\",\"manifest\":\"{}\"}"] {
        let opened = RemoteManifest::open(text.as_bytes(), "x", None);
        assert!(matches!(opened, Err(Rejected::Damaged(_))), "{text}");
    }
}
