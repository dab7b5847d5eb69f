//! The texts of gpubuild's findings and errors, and the log signatures. The TOML files in this folder are encoded at compile time and
//! embedded as `(name, bytes)` for `gpubuild_toml::from_static`.
//!
//! Part of gpubuild. The interface is not stable. New files must be added to the lists below; a
//! test checks this.

use std::cmp::Ordering;

/// Embeds files of a folder as a list of `(name, bytes)`.
macro_rules! files {
    ($folder:literal, $extension:literal, $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $folder, $name, $extension)).as_slice())),*]
    };
}

/// Embeds the files with log signatures, as [`files`] does.
macro_rules! log_files {
    ($extension:literal) => {
        files!("logs/", $extension,
            "starts" "releases" "configures" "applications" "formats" "vocabularies" "drivers" "cuda-tools" "python-tools" "runtime" "builds" "messages"
            "programs" "toolchain" "cuda" "rocm" "graphics" "link" "languages" "cmake" "cmake-modules" "system-tools" "variants"
            "wide" "forms" "codes" "symbols" "general" "sources" "source-programs" "grid" "cells" "platforms" "commands" "names"
            "cuda-libraries" "pkg-config"
        )
    };
}

/// The texts of findings, one file per family.
pub const FINDINGS: &[(&str, &[u8])] = files!("", ".bin",
    "general" "cuda-toolkit" "cuda-build" "nvidia" "container" "rocm" "graphics" "binary" "build" "files" "plan" "venv" "audit"
);

/// Log signatures: patterns that recognise failures in build output, one file per subject. Without the samples and their sources.
pub const LOG_SIGNATURES: &[(&str, &[u8])] = log_files!(".short.bin");

/// The log signatures with their samples, for tests. A program that does not use this list does not contain it.
pub const LOG_SIGNATURES_WITH_SAMPLES: &[(&str, &[u8])] = log_files!(".bin");

/// The texts of errors with which a command fails. Findings are not included.
pub const ERRORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/errors.bin")).as_slice();

/// The ids of all findings and errors, sorted.
pub const IDS: &[&str] = include!(concat!(env!("OUT_DIR"), "/ids.rs"));

/// The position of an id in [`IDS`]. Can be evaluated at compile time.
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
    fn every_id_has_a_position() {
        for (at, id) in super::IDS.iter().enumerate() {
            assert_eq!(super::position(id), Some(at), "{id}");
        }
        for unknown in ["", "a", "cuda", "cuda.toolkit.missing2", "zz.top"] {
            assert_eq!(super::position(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_file_is_listed() {
        for (folder, files) in [("", super::FINDINGS), ("logs", super::LOG_SIGNATURES)] {
            let listed: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut existing = names(folder);
            existing.remove("Cargo");
            existing.remove("errors");
            assert_eq!(listed, existing, "{folder}");
        }
    }
}
