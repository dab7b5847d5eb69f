//! The archive of a layer, as `install` unpacks it, and an archive of sources.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gpubuild_exec::store::hash_file;
use gpubuild_host::{HostInfo as _, RealHost};
use gpubuild_release::manifest::Layer;
use gpubuild_release::unpack::entries::{ArchiveEntries, ArchiveEntry, ArchiveRules};
use gpubuild_release::unpack::names::Names;
use gpubuild_release::unpack::tree::{TreeRequest, unpack_tree};
use gpubuild_release::unpack::unpack;
use tempfile::TempDir;

use super::output::check_text;

/// The size of a block of a tar archive in bytes.
const BLOCK: usize = 512;
/// The largest unpacked size that the manifest declares, in bytes.
const LARGEST: u64 = 1 << 20;
/// The first bytes of a Zstandard frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The first bytes of the formats in which only sources are accepted: ZIP, gzip, xz and bzip2.
const OF_SOURCES: [&[u8]; 4] = [b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh"];

/// Unpacks a layer or sources into a temporary folder and asserts that nothing is written beside that folder. Input that is not compressed is a tar
/// archive whose checksums are corrected first, since random changes would only ever reach the check of the checksum.
pub fn run(bytes: &[u8]) -> bool {
    if bytes.starts_with(&ZSTD) {
        return unpack_layer(bytes, &listed(&decompressed(bytes)));
    }
    if OF_SOURCES.iter().any(|start| bytes.starts_with(start)) {
        return unpack_sources(bytes);
    }
    let tar = with_checksums(bytes);
    let compressed = zstd::stream::encode_all(tar.as_slice(), 1).expect("compression works in memory");
    unpack_layer(&compressed, &listed(&tar))
}

/// As much of an archive as the manifest may declare, and some headers.
fn decompressed(bytes: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    if let Ok(decoder) = zstd::stream::read::Decoder::new(bytes) {
        // The content until the first error counts.
        let _ = decoder.take(2 * LARGEST).read_to_end(&mut tar);
    }
    tar
}

/// The entries that the reader finds, until the first error.
fn listed(tar: &[u8]) -> Vec<ArchiveEntry> {
    let mut entries = ArchiveEntries::new(tar, ArchiveRules::Layer);
    let mut found = Vec::new();
    while let Ok(Some(entry)) = entries.next_file() {
        let size = usize::try_from(entry.size).ok().filter(|size| *size <= tar.len());
        let is_complete = size.is_some_and(|size| entries.content(&mut vec![0; size]).is_ok());
        found.push(entry);
        if !is_complete {
            break;
        }
    }
    found
}

/// A temporary folder with the archive, and an empty folder in it to unpack to.
fn scene(archive: &[u8]) -> (TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().expect("the temporary folder is writable");
    let (folder, file) = (root.path().join("unpacked"), root.path().join("archive"));
    fs::create_dir(&folder).expect("a new folder is writable");
    fs::write(&file, archive).expect("a new folder is writable");
    (root, folder, file)
}

fn unpack_layer(archive: &[u8], entries: &[ArchiveEntry]) -> bool {
    let (root, folder, file) = scene(archive);
    let host = RealHost::new();
    let path = |path: &Path| host.path(path.to_str().expect("temporary folders have a UTF-8 path"));
    let (sha256, size) = hash_file(&host, &path(&file)).expect("the file was just written");
    let unpacked = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size)).min(LARGEST);
    let layer = Layer { sha256, size, unpacked };
    let mut names = Names::default();
    let result = unpack(&host, &path(&file), &layer, &path(&folder), &mut names);
    let beside = files(root.path()).into_iter().filter(|found| !found.starts_with(&folder)).count();
    assert_eq!(beside, 1, "something was written outside of the folder");
    let written = files(&folder);
    let total: u64 = written.iter().map(|file| fs::metadata(file).expect("it was listed").len()).sum();
    assert!(total <= unpacked, "{total} bytes were written, but {unpacked} are declared");
    match result {
        Ok(()) => {
            let mut expected: Vec<PathBuf> = entries.iter().map(|entry| folder.join(&entry.path)).collect();
            expected.sort();
            assert_eq!(written, expected, "the files differ from the entries");
            assert_eq!(names.files(), written.len());
            true
        }
        Err(rejected) => {
            check_text(&rejected.to_string());
            false
        }
    }
}

fn unpack_sources(archive: &[u8]) -> bool {
    let (root, folder, file) = scene(archive);
    let host = RealHost::new();
    let path = |path: &Path| host.path(path.to_str().expect("temporary folders have a UTF-8 path"));
    let (sha256, _) = hash_file(&host, &path(&file)).expect("the file was just written");
    let request = TreeRequest { sha256: &sha256, strip: 0 };
    let result = unpack_tree(&host, &path(&file), request, &path(&folder));
    let mut beside = fs::read_dir(root.path())
        .expect("the folder exists")
        .map(|entry| entry.expect("it can be read").path());
    assert!(
        beside.all(|found| found == folder || found == file),
        "something was written outside of the folder"
    );
    links_stay_inside(&folder, &folder);
    if let Err(rejected) = &result {
        check_text(&rejected.to_string());
    }
    result.is_ok()
}

/// Asserts that every link below a folder leads to something inside the top folder, or to nothing.
fn links_stay_inside(folder: &Path, top: &Path) {
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let entry = entry.expect("the folder can be read");
        let kind = entry.file_type().expect("the entry was just listed");
        if kind.is_dir() {
            links_stay_inside(&entry.path(), top);
        } else if kind.is_symlink()
            && let Ok(target) = fs::canonicalize(entry.path())
        {
            let top = fs::canonicalize(top).expect("the folder exists");
            assert!(target.starts_with(top), "{} leads to {}", entry.path().display(), target.display());
        }
    }
}

/// All files below a folder, sorted. Asserts that there is nothing but files and folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let entry = entry.expect("the folder can be read");
        let kind = entry.file_type().expect("the entry was just listed");
        assert!(kind.is_dir() || kind.is_file(), "{} is {kind:?}", entry.path().display());
        if kind.is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found.sort();
    found
}

/// The archive with a correct checksum in each header.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut tar = bytes.to_vec();
    let mut at = 0;
    while let Some(block) = tar.get_mut(at..at + BLOCK) {
        let size = octal(&block[124..136]);
        if block.iter().any(|byte| *byte != 0) {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        at = at.saturating_add(BLOCK).saturating_add(size.next_multiple_of(BLOCK));
    }
    tar
}

/// The number in a field of a header; 0 if it is invalid or too large for an input.
fn octal(field: &[u8]) -> usize {
    let digits = field.iter().take_while(|byte| (b'0'..=b'7').contains(*byte));
    let number = digits.fold(0_usize, |number, digit| (number << 3) + usize::from(digit - b'0'));
    if number > 1 << 20 { 0 } else { number }
}
