use std::io::Write as _;

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostInfo as _, ReadFiles as _, RealHost};
use gpubuild_samples::random::{cases, random};
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
    for other in [&b"PK\x05\x06"[..], b"\xfd7zXZ", b"BZh9", b"", b"text", b"7z\xbc\xaf"] {
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

/// A program's output for an input; `None` if it is not installed.
#[expect(clippy::disallowed_methods, reason = "the test compresses with the usual program")]
fn filtered(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    use std::process::{Command, Stdio};
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take().unwrap().write_all(input).unwrap();
    Some(child.wait_with_output().unwrap().stdout)
}

#[test]
fn xz_and_bzip2_are_decompressed() {
    let entries =
        tar(&[("a.sh", EntryType::Regular, "", b"content"), ("l", EntryType::Symlink, "a.sh", b"")]);
    for (program, arguments) in [("xz", &["-9"][..]), ("xz", &["--check=sha256"]), ("bzip2", &["-1"])] {
        let Some(good) = filtered(program, arguments, &entries) else { continue };
        assert_eq!(unpacked(&good, 0).1.unwrap(), 2, "{program}");
        assert_ne!(id_of(&good[..good.len() - 5]), "accepted", "{program}");
        assert_eq!(id_of(&[&good[..], b"more"].concat()), "archive.damaged", "{program}");
        let middle = good.len() / 2;
        let damaged: Vec<u8> =
            good.iter().enumerate().map(|(at, byte)| if at == middle { !byte } else { *byte }).collect();
        assert_ne!(id_of(&damaged), "accepted", "{program}");
    }
}

/// A file of a ZIP archive: name, mode, content, and whether it is compressed.
struct Zipped<'a>(&'a str, u32, &'a [u8], bool);

/// A ZIP archive.
fn zip(files: &[Zipped<'_>]) -> Vec<u8> {
    let four = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let two = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for Zipped(name, mode, content, is_compressed) in files {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        let data = if *is_compressed { encoder.finish().unwrap() } else { content.to_vec() };
        let mut common = Vec::new();
        for field in [20_u16, 0, if *is_compressed { 8 } else { 0 }, 0, 33] {
            common.extend(field.to_le_bytes());
        }
        common.extend([crc.sum().to_le_bytes(), four(data.len()), four(content.len())].concat());
        common.extend(two(name.len()));
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(four(archive.len()));
        directory.extend(name.as_bytes());
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(data);
    }
    let start = four(archive.len());
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([two(files.len()), two(files.len())].concat());
    archive.extend([four(directory.len()), start].concat());
    archive.extend([0, 0]);
    archive
}

const FILE: u32 = 0o100_644;

#[test]
fn zip_archives_are_unpacked() {
    let text = "text ".repeat(100_000);
    let bytes = zip(&[
        Zipped("top/", 0o040_755, b"", false),
        Zipped("top/a.c", FILE, text.as_bytes(), true),
        Zipped("top/run.sh", 0o100_755, b"#!/bin/sh\n", false),
        Zipped("top/empty", 0, b"", false),
        Zipped("top/d/link.c", 0o120_777, b"../a.c", false),
        Zipped("outside", FILE, b"left out", true),
    ]);
    let (folder, result) = unpacked(&bytes, 1);
    assert_eq!(result.unwrap(), 4);
    let host = RealHost::new();
    let path = |name: &str| host.path(folder.path().join("out").join(name).to_str().unwrap());
    assert_eq!(host.read_text(&path("a.c")).unwrap(), text);
    assert_eq!(host.read_text(&path("d/link.c")).unwrap(), text);
    assert!(!host.exists(&path("outside")) && host.exists(&path("empty")));
    assert!(cfg!(windows) || host.stat(&path("run.sh")).unwrap().executable);
}

#[test]
fn zip_archives_follow_the_same_rules() {
    for (file, expected) in [
        (Zipped("a", FILE, b"1", false), "accepted"),
        (Zipped("../up", FILE, b"1", false), "archive.path"),
        (Zipped("/etc/x", FILE, b"1", false), "archive.path"),
        (Zipped("a\\b", FILE, b"1", false), "archive.path"),
        (Zipped("a", 0o120_777, b"/etc/passwd", false), "archive.kind"),
        (Zipped("a", 0o120_777, b"../x", false), "archive.kind"),
        (Zipped("a", 0o020_644, b"", false), "archive.kind"),
        (Zipped("a", 0o010_644, b"", false), "archive.kind"),
        (Zipped("a/", FILE, b"", false), "archive.kind"),
        (Zipped("a/", 0o040_755, b"1", false), "archive.damaged"),
        (Zipped("\u{e4}", FILE, b"1", false), "archive.damaged"),
    ] {
        assert_eq!(id_of(&zip(&[Zipped(file.0, file.1, file.2, file.3)])), expected, "{}", file.0);
    }
    assert_eq!(
        id_of(&zip(&[Zipped("a", FILE, b"1", true), Zipped("A", FILE, b"2", true)])),
        "archive.same-name"
    );
    let through = zip(&[Zipped("a", 0o120_777, b"b", false), Zipped("a/x", FILE, b"2", true)]);
    assert_eq!(id_of(&through), "archive.same-name");
}

#[test]
fn damaged_zip_archives_are_refused() {
    let good = zip(&[Zipped("a", FILE, b"content content content", true), Zipped("b", FILE, b"more", false)]);
    assert_eq!(id_of(&good), "accepted");
    // Every changed byte is noticed, or is one that is not used: times, versions, attributes and one of the two copies of sizes.
    let mut accepted = 0;
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 0x55;
        let (folder, result) = unpacked(&changed, 0);
        if result.is_ok() {
            accepted += 1;
            let host = RealHost::new();
            let a = host.path(folder.path().join("out/a").to_str().unwrap());
            assert_eq!(host.read_text(&a).unwrap(), "content content content", "byte {at}");
        }
    }
    assert!(accepted < good.len() / 2, "{accepted} of {}", good.len());
    for length in 0..good.len() {
        assert_ne!(id_of(&good[..length]), "accepted", "{length} bytes");
    }
    assert_eq!(id_of(&[&good[..], b"x"].concat()), "archive.damaged");
    // Two entries that share the content of one.
    let second = good.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    let mut shared = good.clone();
    shared[second + 42..second + 46].fill(0);
    assert_eq!(id_of(&shared), "archive.damaged");
}

/// The extra field of a header, which the directory does not have, moves the content into the next file or into the directory.
#[test]
fn extra_fields_cannot_move_content_into_other_files() {
    let good = zip(&[Zipped("a", FILE, b"1234", false), Zipped("b", FILE, b"1234", false)]);
    let second = good.windows(4).rposition(|window| window == b"PK\x03\x04").unwrap();
    for header in [0, second] {
        let mut moved = good.clone();
        // The content of the next file, or the first bytes behind the content.
        moved[header + 28] = if header == 0 { 35 } else { 4 };
        assert_eq!(id_of(&moved), "archive.damaged", "{header}");
    }
}

/// Checks that nothing is written beside the folder, and that the error has an id. Returns the id, or `accepted`.
fn confined(bytes: &[u8], case: &str) -> String {
    let (folder, result) = unpacked(bytes, 0);
    let host = RealHost::new();
    let root = host.path(folder.path().to_str().unwrap());
    let mut names: Vec<String> = host.list(&root).unwrap().iter().map(ToString::to_string).collect();
    names.retain(|name| !name.ends_with("archive") && !name.ends_with("out"));
    assert_eq!(names, [""; 0], "{case}");
    result.map_or_else(|error| error.id().as_str().to_owned(), |_| "accepted".to_owned())
}

/// Archives in which bytes are changed, removed or repeated, with a fixed seed. `GPUBUILD_CASES` sets their number.
#[test]
fn generated_damage_is_confined() {
    let cases = cases(200);
    let entries =
        tar(&[("a.sh", EntryType::Regular, "", b"content"), ("l", EntryType::Symlink, "a.sh", b"")]);
    let mut archives = vec![
        zip(&[
            Zipped("d/", 0o040_755, b"", false),
            Zipped("d/a", FILE, b"content content content", true),
            Zipped("l", 0o120_777, b"d/a", false),
            Zipped("b", FILE, b"more", false),
        ]),
        gzip(&entries),
        zstd::encode_all(&entries[..], 1).unwrap(),
    ];
    for (program, arguments) in [("xz", &["-1"][..]), ("bzip2", &["-1"])] {
        archives.extend(filtered(program, arguments, &entries));
    }
    let mut random = random();
    for case in 0..cases {
        let mut bytes = archives[case % archives.len()].clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                1 => bytes[at] ^= 1 << random(8),
                2 => bytes.truncate(at.max(8)),
                3 => bytes.extend_from_within(at..),
                _ => {
                    let from = random(bytes.len());
                    let count = random(32).min(bytes.len() - at.max(from));
                    bytes.copy_within(from..from + count, at);
                }
            }
        }
        confined(&bytes, &format!("case {case}"));
    }
    // Every length of every format.
    for (number, archive) in archives.iter().enumerate() {
        assert_eq!(confined(archive, "complete"), "accepted", "archive {number}");
        for length in 0..archive.len() {
            let case = format!("archive {number}, {length} bytes");
            assert_ne!(confined(&archive[..length], &case), "accepted", "{case}");
        }
    }
}
