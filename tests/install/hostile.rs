//! Malicious archives: each is rejected with its id, and nothing is written outside the target folder.
#![expect(clippy::disallowed_methods, reason = "tests write their own files")]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostInfo, RealHost};
use gpubuild_release::manifest::Layer;
use gpubuild_release::unpack::names::{MAX_FILES, Names};
use gpubuild_release::unpack::{RejectedArchive, unpack};

/// An archive, and the unpacked size in the manifest.
struct Archive {
    bytes: Vec<u8>,
    unpacked: u64,
}

/// A tar header, byte by byte.
#[derive(Clone)]
struct Head {
    block: [u8; 512],
}

impl Head {
    fn new(name: &[u8], size: u64) -> Self {
        let mut head = Self { block: [0; 512] };
        let length = name.len().min(100);
        head.block[..length].copy_from_slice(&name[..length]);
        head.put(100, b"0000644\0").put(108, b"0000000\0").put(116, b"0000000\0");
        head.put(124, format!("{size:011o}\0").as_bytes()).put(136, b"00000000000\0").put(156, b"0");
        head.put(257, b"ustar  \0");
        head
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.block[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn kind(mut self, kind: u8) -> Self {
        self.put(156, &[kind]);
        self
    }

    fn mode(mut self, mode: u32) -> Self {
        self.put(100, format!("{mode:07o}\0").as_bytes());
        self
    }

    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.put(at, bytes);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut block = self.block;
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.to_vec()
    }
}

fn padded(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.resize(content.len().div_ceil(512) * 512, 0);
    bytes
}

fn file(name: &[u8], content: &[u8]) -> Vec<u8> {
    [Head::new(name, content.len() as u64).bytes(), padded(content)].concat()
}

fn long(name: &[u8], content: &[u8]) -> Vec<u8> {
    let terminated = [name, b"\0"].concat();
    let head = Head::new(b"././@LongLink", terminated.len() as u64).kind(b'L').bytes();
    let cut = &name[..name.len().min(100)];
    [head, padded(&terminated), file(cut, content)].concat()
}

fn tar(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), vec![0; 1024]].concat()
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).unwrap()
}

fn archive(parts: &[Vec<u8>], unpacked: u64) -> Archive {
    Archive { bytes: zstd(&tar(parts)), unpacked }
}

fn raw(bytes: Vec<u8>, unpacked: u64) -> Archive {
    Archive { bytes, unpacked }
}

/// Unpacks layers in order and checks that nothing outside the target folder changes.
fn run(layers: &[Archive]) -> Result<(), RejectedArchive> {
    run_with(Names::default(), layers)
}

fn run_with(mut names: Names, layers: &[Archive]) -> Result<(), RejectedArchive> {
    let sandbox = tempfile::tempdir().unwrap();
    let host = RealHost::new();
    let at = |name: &str| host.path(sandbox.path().to_str().unwrap()).join(name);
    fs::create_dir_all(sandbox.path().join("target/inner")).unwrap();
    fs::write(sandbox.path().join("victim"), "before").unwrap();
    fs::write(sandbox.path().join("target/victim"), "before").unwrap();
    let mut outcome = Ok(());
    for (index, one) in layers.iter().enumerate() {
        let path = at(&format!("layer{index}"));
        fs::write(path.as_std(), &one.bytes).unwrap();
        let layer =
            Layer { sha256: sha256(&one.bytes), size: one.bytes.len() as u64, unpacked: one.unpacked };
        outcome = unpack(&host, &path, &layer, &at("target/inner"), &mut names);
        if outcome.is_err() {
            break;
        }
    }
    let mut beside: Vec<String> = Vec::new();
    for entry in walkdir::WalkDir::new(sandbox.path()).min_depth(1).sort_by_file_name() {
        let entry = entry.unwrap();
        let name = entry.path().strip_prefix(sandbox.path()).unwrap().to_str().unwrap().to_owned();
        assert!(!entry.path_is_symlink(), "{name}");
        if let Some(inner) = name.strip_prefix("target/inner/") {
            is_plain(entry.path(), inner);
        } else if !name.starts_with("layer") {
            beside.push(name);
        }
    }
    assert_eq!(beside, ["target", "target/inner", "target/victim", "victim"]);
    for victim in ["victim", "target/victim"] {
        assert_eq!(fs::read_to_string(sandbox.path().join(victim)).unwrap(), "before");
    }
    let written: u64 = walkdir::WalkDir::new(sandbox.path().join("target/inner"))
        .into_iter()
        .filter_map(|entry| entry.ok()?.metadata().ok().filter(fs::Metadata::is_file))
        .map(|data| data.len())
        .sum();
    assert!(written <= layers.iter().map(|one| one.unpacked).sum(), "{written} bytes were written");
    outcome
}

/// Checks that an unpacked entry is a plain file or folder without special mode bits.
fn is_plain(path: &Path, name: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let data = fs::symlink_metadata(path).unwrap();
    assert!(data.is_file() || data.is_dir(), "{name}");
    assert_eq!(data.permissions().mode() & 0o6000, 0, "{name}");
}

/// Names, expected error ids, and layers.
type Cases = Vec<(String, &'static str, Vec<Archive>)>;

fn paths(cases: &mut Cases) {
    let bad: [&[u8]; 52] = [
        b"/etc/passwd",
        b"/",
        b"//server/share/x",
        b"../victim",
        b"../../victim",
        b"a/../../victim",
        b"a/../b",
        b"..",
        b".",
        b"./a",
        b"a/.",
        b"a/./b",
        b"a//b",
        b"a/",
        b"a/..",
        b"/../victim",
        b"..\\victim",
        b"a\\..\\..\\victim",
        b"\\victim",
        b"\\\\server\\share\\x",
        b"\\\\?\\C:\\x",
        b"c:/victim",
        b"C:victim",
        b"c:\\victim",
        b"a:stream",
        b"a/b:$DATA",
        b"a\nb",
        b"a\rb",
        b"a\x1b[2Jb",
        b"a\x7fb",
        b"con",
        b"CON",
        b"con.txt",
        b"lib/nul",
        b"aux",
        b"prn.so",
        b"com1",
        b"COM9.dll",
        b"com0",
        b"lpt1",
        b"lib/LPT5.txt",
        b"conin$",
        b"CONOUT$",
        b"aux .x",
        b"a.",
        b"a ",
        b"a./b",
        b"a /b",
        b"...",
        b"a*b",
        b"a?b",
        b"a|b<c>\"d",
    ];
    for name in bad {
        let shown = String::from_utf8_lossy(name).into_owned();
        cases.push((format!("path {shown:?}"), "archive.path", vec![archive(&[file(name, b"x")], 1)]));
    }
    let deep = "a/".repeat(600) + "b";
    for (what, name) in [
        ("a long name with `..`", format!("{}/../../victim", "a".repeat(120))),
        ("a component that is too long", format!("{}/{}", "d".repeat(40), "a".repeat(256))),
        ("a path that is too long", deep.get(..1020).unwrap_or_default().to_owned() + "/bbbbbbbbbb"),
        ("a long absolute name", format!("/{}", "a".repeat(150))),
    ] {
        let id = if name.len() > 1024 { "archive.damaged" } else { "archive.path" };
        cases.push((what.to_owned(), id, vec![archive(&[long(name.as_bytes(), b"x")], 1)]));
    }
    let empty = Head::new(b"", 1).bytes();
    cases.push(("no name".into(), "archive.path", vec![archive(&[empty, padded(b"x")], 1)]));
    cases.push((
        "a name that is not UTF-8".into(),
        "archive.damaged",
        vec![archive(&[file(b"a\xff", b"x")], 1)],
    ));
    // The ustar prefix is part of the name.
    let prefix = Head::new(b"victim", 1).with(257, b"ustar\x0000").with(345, b"..").bytes();
    cases.push(("a prefix with `..`".into(), "archive.path", vec![archive(&[prefix, padded(b"x")], 1)]));
    let prefix = Head::new(b"victim", 1).with(257, b"ustar\x0000").with(345, b"/etc").bytes();
    cases.push(("an absolute prefix".into(), "archive.path", vec![archive(&[prefix, padded(b"x")], 1)]));
}

fn kinds(cases: &mut Cases) {
    for (what, kind, target) in [
        ("hard link to outside", b'1', "../victim"),
        ("hard link to /etc/passwd", b'1', "/etc/passwd"),
        ("hard link to nothing", b'1', ""),
        ("symbolic link up", b'2', ".."),
        ("symbolic link to /", b'2', "/"),
        ("symbolic link to itself", b'2', "x"),
        ("symbolic link inside", b'2', "y"),
        ("character device", b'3', ""),
        ("block device", b'4', ""),
        ("folder", b'5', ""),
        ("pipe", b'6', ""),
        ("contiguous file", b'7', ""),
        ("long link", b'K', ""),
        ("sparse file", b'S', ""),
        ("pax", b'x', ""),
        ("global pax", b'g', ""),
        ("Solaris pax", b'X', ""),
        ("Solaris ACL", b'A', ""),
        ("volume label", b'V', ""),
        ("multi-volume continuation", b'M', ""),
        ("old long name", b'N', ""),
        ("GNU dump folder", b'D', ""),
        ("unknown", b'Z', ""),
        ("unknown, not ASCII", 0xfe, ""),
    ] {
        let head = Head::new(b"x", 0).kind(kind).with(157, target.as_bytes()).bytes();
        cases.push((format!("kind {what}"), "archive.kind", vec![archive(&[head, file(b"y", b"x")], 1)]));
    }
    let linked = Head::new(b"x", 1).with(157, b"/etc/passwd").bytes();
    cases.push(("a file with a target".into(), "archive.kind", vec![archive(&[linked, padded(b"x")], 1)]));
    // A symlink followed by a file through it: rejected at the symlink.
    let link = Head::new(b"lib", 0).kind(b'2').with(157, b"../..").bytes();
    let by_way = vec![archive(&[link, file(b"lib/victim", b"x")], 1)];
    cases.push(("a file by way of a link".into(), "archive.kind", by_way));
    // A pax header that would rename the next file.
    let record = b"17 path=../victim\n";
    let pax = Head::new(b"pax", record.len() as u64).kind(b'x').bytes();
    let renamed = vec![archive(&[pax, padded(record), file(b"good", b"x")], 1)];
    cases.push(("pax that renames".into(), "archive.kind", renamed));
    let record = b"12 size=999\n";
    let pax = Head::new(b"pax", record.len() as u64).kind(b'x').bytes();
    let resized = vec![archive(&[pax, padded(record), file(b"good", b"x")], 1)];
    cases.push(("pax that resizes".into(), "archive.kind", resized));
    let twice = [long(&[b'a'; 120], b"x")[..1024].to_vec(), long(&[b'b'; 120], b"x")].concat();
    cases.push(("two long names".into(), "archive.kind", vec![archive(&[twice], 1)]));
    for mode in [0o4755, 0o2755, 0o6755, 0o1644, 0o7777, 0o10644, 0o120_777] {
        let head = Head::new(b"x", 1).mode(mode).bytes();
        cases.push((format!("mode {mode:o}"), "archive.mode", vec![archive(&[head, padded(b"x")], 1)]));
    }
}

fn same_names(cases: &mut Cases) {
    let one = |name: &[u8]| archive(&[file(name, b"x")], 1);
    let two = |first: &[u8], second: &[u8]| vec![archive(&[file(first, b"x"), file(second, b"y")], 2)];
    for (what, layers) in [
        ("a duplicate", two(b"bin/x", b"bin/x")),
        ("a name in another case", two(b"bin/x", b"bin/X")),
        ("a folder in another case", two(b"bin/x", b"Bin/y")),
        ("a non-ASCII name in another case", two("é".as_bytes(), "É".as_bytes())),
        ("below a file", two(b"x", b"x/y")),
        ("a file over a folder", two(b"x/y", b"x")),
        ("a file over a folder in another case", two(b"x/y", b"X")),
        ("over another layer's file", vec![one(b"bin/x"), one(b"bin/x")]),
        ("over another layer's file in another case", vec![one(b"bin/x"), one(b"BIN/x")]),
        ("below another layer's file", vec![one(b"lib"), one(b"lib/y")]),
        ("over another layer's folder", vec![one(b"lib/y"), one(b"lib")]),
    ] {
        cases.push((format!("name {what}"), "archive.same-name", layers));
    }
}

fn sizes(cases: &mut Cases) {
    let zeros = vec![0_u8; 8 << 20];
    cases.push(("a bomb".into(), "archive.size", vec![archive(&[file(b"x", &zeros)], 10)]));
    let many: Vec<Vec<u8>> = (0..50).map(|n| file(format!("f{n}").as_bytes(), b"0123456789")).collect();
    cases.push(("a bomb of many files".into(), "archive.size", vec![archive(&many, 499)]));
    cases.push(("less than declared".into(), "archive.size", vec![archive(&[file(b"x", b"abc")], 4)]));
    cases.push(("an empty archive with a declared size".into(), "archive.size", vec![archive(&[], 4)]));
    cases.push((
        "one byte more than declared".into(),
        "archive.size",
        vec![archive(&[file(b"x", b"abc")], 2)],
    ));
    let claim = |size: &[u8]| vec![archive(&[Head::new(b"x", 0).with(124, size).bytes(), padded(b"x")], 1)];
    cases.push(("8 GiB claimed".into(), "archive.size", claim(b"77777777777\0")));
    cases.push(("2^63 claimed".into(), "archive.size", claim(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")));
    cases.push((
        "2^64 - 1 claimed".into(),
        "archive.size",
        claim(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
    ));
    cases.push(("an invalid size".into(), "archive.damaged", claim(b"12x45678901\0")));
    cases.push(("a negative size".into(), "archive.damaged", claim(b"-0000000001\0")));
}

fn damage(cases: &mut Cases) {
    let good = tar(&[file(b"x", b"content"), file(b"y", b"content")]);
    let mut damaged = |what: &str, bytes: Vec<u8>| {
        cases.push((what.to_owned(), "archive.damaged", vec![raw(bytes, 14)]));
    };
    for cut in [0, 1, 511, 512, 515, 1024, 1025, 1536, 2048, 2560] {
        damaged(&format!("tar cut at {cut}"), zstd(&good[..cut]));
    }
    let with = |at: usize, byte: u8| {
        let mut tar = good.clone();
        tar[at] = byte;
        zstd(&tar)
    };
    damaged("a name changed", with(0, b'z'));
    damaged("a checksum changed", with(149, b'7'));
    damaged("an invalid checksum", with(150, b'x'));
    damaged("nonzero padding after a file", with(512 + 100, 1));
    damaged("nonzero bytes in the final blocks", with(2048 + 700, 1));
    damaged("a block after the end", zstd(&[good.clone(), vec![1; 512]].concat()));
    damaged("trailing zeros beyond a record", zstd(&[good.clone(), vec![0; 1 << 20]].concat()));
    damaged("a second archive after the end", zstd(&[good.clone(), good.clone()].concat()));
    damaged("an invalid mode", {
        let head = Head::new(b"x", 14).with(100, b"rwxr-xr\0").bytes();
        zstd(&tar(&[head, padded(&[0; 14])]))
    });
    damaged(
        "a long name at the end",
        zstd(&tar(&[file(b"x", &[0; 14]), long(&[b'a'; 120], b"")[..1024].to_vec()])),
    );
    damaged("a long name for a short one", {
        let name = b"good\0";
        let head = Head::new(b"././@LongLink", name.len() as u64).kind(b'L').bytes();
        zstd(&tar(&[head, padded(name), file(b"other", &[0; 14])]))
    });
    damaged("a long name of a gigabyte", {
        let head = Head::new(b"././@LongLink", 1 << 30).kind(b'L').bytes();
        zstd(&tar(&[head]))
    });
    let frame = zstd(&good);
    for cut in [0, 1, 4, 6, frame.len() / 2, frame.len() - 1] {
        damaged(&format!("zstd cut at {cut}"), frame[..cut].to_vec());
    }
    damaged("no zstd", good.clone());
    damaged("gzip", [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &good].concat());
    damaged("text", b"<html>404 Not Found</html>".to_vec());
    damaged("a second frame", [frame.clone(), frame.clone()].concat());
    damaged("an empty second frame", [frame.clone(), zstd(b"")].concat());
    damaged("a byte after the frame", [frame.clone(), vec![0]].concat());
    let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), b"evil"].concat();
    damaged("a skippable frame before it", [skippable.clone(), frame.clone()].concat());
    damaged("a skippable frame after it", [frame.clone(), skippable].concat());
    damaged("one archive in two frames", [zstd(&good[..1024]), zstd(&good[1024..])].concat());
    damaged("a dictionary", {
        let dictionary = b"a dictionary that is not supplied, for the content of files".repeat(20);
        let mut encoder = zstd::stream::write::Encoder::with_dictionary(Vec::new(), 3, &dictionary).unwrap();
        encoder.write_all(&good).unwrap();
        let mut bytes = encoder.finish().unwrap();
        // The dictionary id in the frame header.
        bytes[4] |= 1;
        bytes.insert(5 + usize::from(bytes[4] & 0x20 == 0), 7);
        bytes
    });
    damaged("a window of 2 GiB", {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(31).unwrap();
        encoder.write_all(&good).unwrap();
        encoder.finish().unwrap()
    });
    damaged("a block changed", {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(&good).unwrap();
        let mut bytes = encoder.finish().unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes
    });
}

#[test]
fn every_malicious_archive_is_rejected() {
    let mut cases = Cases::new();
    paths(&mut cases);
    kinds(&mut cases);
    same_names(&mut cases);
    sizes(&mut cases);
    damage(&mut cases);
    let distinct: std::collections::BTreeSet<Vec<&[u8]>> =
        cases.iter().map(|(_, _, layers)| layers.iter().map(|one| one.bytes.as_slice()).collect()).collect();
    assert!(distinct.len() >= 120, "{} archives", distinct.len());
    let mut wrong = Vec::new();
    for (what, id, layers) in &cases {
        match run(layers) {
            Ok(()) => wrong.push(format!("{what}: it was unpacked")),
            Err(refused) if refused.id() != *id => wrong.push(format!("{what}: {} {refused}", refused.id())),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn archive_beyond_the_file_limit_is_rejected() {
    let mut names = Names::default();
    (0..MAX_FILES).for_each(|n| names.add(&format!("f{n}")).unwrap());
    assert_eq!(run_with(names, &[archive(&[file(b"x", b"x")], 1)]).unwrap_err().id(), "archive.size");
}

/// Unpacks as many files as are allowed, and then one more.
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn an_archive_with_too_many_files_is_rejected() {
    let bytes = |count: usize| {
        let files = (0..count).map(|n| Head::new(format!("d{}/f{n}", n % 100).as_bytes(), 0).bytes());
        zstd::encode_all(tar(&files.collect::<Vec<_>>()).as_slice(), 1).unwrap()
    };
    run(&[raw(bytes(MAX_FILES), 0)]).unwrap();
    assert_eq!(run(&[raw(bytes(MAX_FILES + 1), 0)]).unwrap_err().id(), "archive.size");
}

#[test]
fn valid_archive_with_unusual_names_is_unpacked() {
    let name = format!("lib/{}/{}", "a".repeat(90), "b".repeat(90));
    let parts = [file(b"bin/x", b"x"), long(name.as_bytes(), &[7; 1000]), file("models/é".as_bytes(), b"")];
    run(&[archive(&parts, 1001), archive(&[file(b"lib/other", &[1; 512])], 512)]).unwrap();
    // The zero padding of the last record that GNU tar writes.
    let record = [tar(&[file(b"x", b"x")]), vec![0; 8192]].concat();
    run(&[raw(zstd(&record), 1)]).unwrap();
}

#[test]
fn layer_changed_after_verification_is_rejected() {
    let sandbox = tempfile::tempdir().unwrap();
    let host = RealHost::new();
    let at = |name: &str| host.path(sandbox.path().to_str().unwrap()).join(name);
    let one = archive(&[file(b"x", b"x")], 1);
    fs::write(at("layer").as_std(), &one.bytes).unwrap();
    let layer = Layer { sha256: "0".repeat(64), size: one.bytes.len() as u64, unpacked: 1 };
    let refused = unpack(&host, &at("layer"), &layer, &at("to"), &mut Names::default()).unwrap_err();
    assert_eq!(refused.id(), "archive.damaged");
}
