use std::io::Write as _;

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostInfo as _, ReadFiles as _, RealHost};
use tar::{Builder, EntryType, Header};

use super::*;

/// An entry: its name, kind, link target and content.
type Entry<'a> = (&'a str, EntryType, &'a str, &'a [u8]);

fn header(entry: &Entry<'_>) -> Header {
    let (name, kind, target, content) = entry;
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(*kind);
    header.set_size(content.len() as u64);
    header.set_mode(if name.rsplit('.').next() == Some("sh") { 0o775 } else { 0o664 });
    header.set_cksum();
    header
}

fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        builder.append(&header(entry), entry.3).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Unpacks bytes into a temporary folder. Returns the folder and the result.
fn unpacked(bytes: &[u8], strip: usize) -> (tempfile::TempDir, Result<usize, RejectedArchive>) {
    let folder = tempfile::tempdir().unwrap();
    let host = RealHost::new();
    let root = host.path(folder.path().to_str().unwrap());
    host.write(&root.join("archive"), bytes).unwrap();
    let sha256 = sha256(bytes);
    let request = TreeRequest { sha256: &sha256, strip };
    let result = unpack_tree(&host, &root.join("archive"), request, &root.join("out"));
    (folder, result)
}

fn id_of(bytes: &[u8]) -> String {
    unpacked(bytes, 0).1.map_or_else(|error| error.id().as_str().to_owned(), |_| "accepted".to_owned())
}

const PAX: &[u8] = b"19 path=top/long.c\n";

#[test]
fn files_folders_links_and_pax_names_are_unpacked() {
    let entries = tar(&[
        ("pax_global_header", EntryType::XGlobalHeader, "", b"19 comment=abcdefg\n"),
        ("top/", EntryType::Directory, "", b""),
        ("top/src/a.c", EntryType::Regular, "", b"one"),
        ("top/run.sh", EntryType::Regular, "", b"#!/bin/sh\n"),
        ("top/src/link.c", EntryType::Symlink, "../long.c", b""),
        ("PaxHeaders/x", EntryType::XHeader, "", PAX),
        ("top/long.c", EntryType::Regular, "", b"two"),
        ("outside", EntryType::Regular, "", b"left out"),
    ]);
    for bytes in [gzip(&entries), zstd::encode_all(&entries[..], 1).unwrap()] {
        let (folder, result) = unpacked(&bytes, 1);
        assert_eq!(result.unwrap(), 4);
        let out = folder.path().join("out");
        let host = RealHost::new();
        let read = |name: &str| host.read_text(&host.path(out.join(name).to_str().unwrap())).unwrap();
        assert_eq!((read("src/a.c"), read("long.c")), ("one".to_owned(), "two".to_owned()));
        assert!(!host.exists(&host.path(out.join("outside").to_str().unwrap())));
        assert_eq!(read("src/link.c"), "two");
        let run = host.stat(&host.path(out.join("run.sh").to_str().unwrap())).unwrap();
        assert!(cfg!(windows) || run.executable);
    }
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the mode of a file")]
fn files_are_read_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, result) = unpacked(&gzip(&tar(&[("a.sh", EntryType::Regular, "", b"x")])), 0);
    result.unwrap();
    let mode = std::fs::metadata(folder.path().join("out/a.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o222, 0, "{mode:o}");
}

/// As Rust's `tar` and others write them, with the kind of file in the mode. Other bits have no effect.
#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the mode of a file")]
fn only_execute_bits_of_modes_are_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = Builder::new(Vec::new());
    for (name, mode) in [("plain", 0o100_644), ("program", 0o100_755), ("set-user-id", 0o104_755)] {
        let mut header = header(&(name, EntryType::Regular, "", b"x"));
        header.set_mode(mode);
        header.set_cksum();
        builder.append(&header, &b"x"[..]).unwrap();
    }
    let (folder, result) = unpacked(&gzip(&builder.into_inner().unwrap()), 0);
    result.unwrap();
    for (name, executable) in [("plain", false), ("program", true), ("set-user-id", true)] {
        let mode = std::fs::metadata(folder.path().join("out").join(name)).unwrap().permissions().mode();
        assert_eq!((mode & 0o111 != 0, mode & 0o7222), (executable, 0), "{name}: {mode:o}");
    }
}

#[test]
fn entries_that_could_write_elsewhere_are_refused() {
    for (entry, expected) in [
        (("../up", EntryType::Regular, "", &b""[..]), "archive.path"),
        (("/etc/x", EntryType::Regular, "", b""), "archive.path"),
        (("a", EntryType::Symlink, "/etc/passwd", b""), "archive.kind"),
        (("a", EntryType::Symlink, "../x", b""), "archive.kind"),
        (("d/a", EntryType::Symlink, "b/../../../x", b""), "archive.kind"),
        (("a", EntryType::Symlink, "", b""), "archive.kind"),
        (("a", EntryType::Link, "b", b""), "archive.kind"),
        (("a", EntryType::Char, "", b""), "archive.kind"),
        (("a", EntryType::Fifo, "", b""), "archive.kind"),
        (("d/", EntryType::Directory, "", b"content"), "archive.damaged"),
        (("x", EntryType::XHeader, "", b"10 size=9\n"), "archive.damaged"),
        (("x", EntryType::XGlobalHeader, "", b"10 path=x\n"), "archive.damaged"),
    ] {
        assert_eq!(id_of(&gzip(&tar(&[entry]))), expected, "{entry:?}");
    }
    let through = [("a", EntryType::Symlink, "b", &b""[..]), ("a/x", EntryType::Regular, "", b"1")];
    assert_eq!(id_of(&gzip(&tar(&through))), "archive.same-name");
    let twice = [("a", EntryType::Regular, "", &b""[..]), ("A", EntryType::Regular, "", b"")];
    assert_eq!(id_of(&gzip(&tar(&twice))), "archive.same-name");
}

#[test]
fn damaged_archives_and_other_formats_are_refused() {
    let good = gzip(&tar(&[("a", EntryType::Regular, "", b"content")]));
    assert_eq!(id_of(&good), "accepted");
    assert_eq!(id_of(&good[..good.len() - 9]), "archive.damaged");
    let mut checksum = good.clone();
    let at = checksum.len() - 6;
    checksum[at] ^= 1;
    assert_eq!(id_of(&checksum), "archive.damaged");
    assert_eq!(id_of(&[good, b"more".to_vec()].concat()), "archive.damaged");
    for other in [&b"PK\x03\x04"[..], b"\xfd7zXZ", b"BZh9", b"", b"text"] {
        assert_eq!(id_of(other), "archive.format", "{other:?}");
    }
}

#[test]
fn links_stay_inside_the_archive() {
    for (path, target, expected) in [
        ("a", "b", true),
        ("d/a", "../b/c", true),
        ("d/a", "..", true),
        ("a", "..", false),
        ("d/e/a", "../../b", true),
        ("d/a", "../../b", false),
        ("d/a", "b/..", false),
        ("a", "C:/x", false),
        ("a", "b\\c", false),
        ("a", "b//c", false),
        ("a", "b/", true),
    ] {
        assert_eq!(stays_inside(path, target), expected, "{path} -> {target}");
    }
}
