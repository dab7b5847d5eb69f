//! Validates the paths of files in archives: each must denote the same, single file on every platform. Pure.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;

use crate::manifest::is_inner_path;

/// The longest component of a path in bytes, which is the limit of most file systems.
const LONGEST_PART: usize = 255;
/// The maximum number of files in a variant.
pub const MAX_FILES: usize = 100_000;

/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Why a path is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The path is outside of the folder, or not valid on every platform.
    #[error("its path is not safe on every platform")]
    Outside,
    /// A component is a device name on Windows.
    #[error("`{0}` is a device name on Windows")]
    Device(String),
    /// A component is too long for most file systems.
    #[error("a component of its path is longer than {LONGEST_PART} bytes")]
    Long,
    /// Another file has the same path.
    #[error("another file has the same path")]
    Twice,
    /// It differs from another path only in case or in the composition of characters, so it denotes the same file on some systems.
    #[error("it differs from `{0}` only in case or in how accents are encoded")]
    Case(String),
    /// The same path is used for a file and for a folder.
    #[error("`{0}` is both a file and a folder")]
    Both(String),
    /// The variant has too many files.
    #[error("there are more than {MAX_FILES} files")]
    Many,
}

/// A path with its original spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownName {
    spelling: String,
    is_file: bool,
}

/// The files of a variant and their folders, by `key`.
#[derive(Debug, Clone, Default)]
pub struct Names {
    known: BTreeMap<String, KnownName>,
    files: usize,
}

impl Names {
    /// Adds a file.
    ///
    /// # Errors
    /// The path is invalid or conflicts with another one.
    pub fn add(&mut self, path: &str) -> Result<(), InvalidName> {
        if !is_inner_path(path) {
            return Err(InvalidName::Outside);
        }
        for part in path.split('/') {
            if part.len() > LONGEST_PART {
                return Err(InvalidName::Long);
            }
            if is_device(part) {
                return Err(InvalidName::Device(part.to_owned()));
            }
        }
        if self.files == MAX_FILES {
            return Err(InvalidName::Many);
        }
        for (at, _) in path.match_indices('/') {
            self.insert(&path[..at], false)?;
        }
        self.insert(path, true)?;
        self.files += 1;
        Ok(())
    }

    /// The number of files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    /// Whether a file with this path, in the same case, was added.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        self.known.get(&key(path)).is_some_and(|known| known.is_file && known.spelling == path)
    }

    fn insert(&mut self, spelling: &str, is_file: bool) -> Result<(), InvalidName> {
        let key = key(spelling);
        let Some(known) = self.known.get(&key) else {
            self.known.insert(key, KnownName { spelling: spelling.to_owned(), is_file });
            return Ok(());
        };
        match known {
            known if known.spelling != spelling => Err(InvalidName::Case(known.spelling.clone())),
            known if known.is_file != is_file => Err(InvalidName::Both(spelling.to_owned())),
            _ if is_file => Err(InvalidName::Twice),
            _ => Ok(()),
        }
    }
}

/// A text that is equal for paths that denote the same file on a system that ignores case, as Windows, or composition too, as macOS. Case is
/// folded through upper case, so that letters with several lower-case forms are equal.
fn key(path: &str) -> String {
    let folded = path.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.nfd().collect()
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_numbered = |name: &str| {
        stem.strip_prefix(name).is_some_and(|rest| {
            let mut rest = rest.chars();
            matches!((rest.next(), rest.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
        })
    };
    DEVICES.contains(&stem.as_str()) || is_numbered("com") || is_numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_and_unsafe_paths_are_rejected() {
        let mut names = Names::default();
        for good in [
            "bin/infer",
            "lib/libx.so.1",
            "lib/sub/a b",
            "é",
            "\u{3c3}\u{3c3}",
            "lib/straße",
            "lib/.hidden",
            "console/comx",
            "aux1",
        ] {
            assert_eq!(names.add(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "../up",
            "a/../b",
            "a/./b",
            "./a",
            "a//b",
            "a/",
            "c:/x",
            "c:x",
            r"a\b",
            "a\0b",
            "a\nb",
            "x.",
            "x ",
            "a/x./b",
            "a:stream",
            "con",
            "lib/NUL.txt",
            "aux .h",
            "com1",
            "LPT9.so",
            "com¹",
            "bin/infer",
            "BIN/infer",
            "Bin/other",
            "lib",
            "bin/infer/x",
            "LIB/SUB",
            "É",
            "e\u{301}",
            "\u{3c3}\u{3c2}",
            "lib/STRASSE",
            "conin$",
        ] {
            assert!(names.add(bad).is_err(), "{bad}");
        }
        assert_eq!(names.add(&"n".repeat(256)), Err(InvalidName::Long));
        assert!(names.has_file("bin/infer") && !names.has_file("bin") && !names.has_file("BIN/infer"));
    }
}
