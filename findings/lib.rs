//! The texts of gpubuild's findings and the messages that it knows, as TOML that is parsed when the crate is
//! compiled: `(name, bytes)` of the files in this folder, for `gpubuild_toml::from_bytes`.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable. A new file has to be named here: a test
//! fails until it is.

use std::cmp::Ordering;

/// `(name, bytes)` of files in a folder.
macro_rules! files {
    ($folder:literal, $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $folder, $name, ".bin")).as_slice())),*]
    };
}

/// What findings mean and how they are remedied, by subject.
pub const FINDINGS: &[(&str, &[u8])] = files!("",
    "general" "cuda-toolkit" "cuda-build" "nvidia" "container" "rocm" "graphics" "binary" "build" "files" "plan" "venv" "audit"
);

/// Messages of programs that failed, and what they tell.
pub const LOG_SIGNATURES: &[(&str, &[u8])] =
    files!("logs/", "cuda" "rocm" "graphics" "link" "languages" "cmake" "general");

/// The ids with which a command ends, except those that are findings.
pub const ERRORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/errors.bin")).as_slice();

/// The ids of all findings and errors, sorted.
pub const IDS: &[&str] = include!(concat!(env!("OUT_DIR"), "/ids.rs"));

/// The position of an id in [`IDS`]. Works at compile time.
#[must_use]
pub const fn position(id: &str) -> Option<usize> {
    let (mut start, mut end) = (0, IDS.len());
    while start < end {
        let middle = usize::midpoint(start, end);
        match compare(IDS[middle].as_bytes(), id.as_bytes()) {
            Ordering::Less => start = middle + 1,
            Ordering::Equal => return Some(middle),
            Ordering::Greater => end = middle,
        }
    }
    None
}

const fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return if left[at] < right[at] { Ordering::Less } else { Ordering::Greater };
        }
        at += 1;
    }
    if left.len() == right.len() {
        Ordering::Equal
    } else if left.len() < right.len() {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The names of the TOML files in a folder.
    #[expect(clippy::disallowed_methods, reason = "a test reads the folder of its crate")]
    fn names(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_id_has_its_position() {
        for (at, id) in super::IDS.iter().enumerate() {
            assert_eq!(super::position(id), Some(at), "{id}");
        }
        for unknown in ["", "a", "cuda", "cuda.toolkit.missing2", "zz.top"] {
            assert_eq!(super::position(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_file_is_named() {
        for (folder, files) in [("", super::FINDINGS), ("logs", super::LOG_SIGNATURES)] {
            let listed: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut there = names(folder);
            there.remove("Cargo");
            there.remove("errors");
            assert_eq!(listed, there, "{folder}");
        }
    }
}
