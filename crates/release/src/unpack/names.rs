//! Which names an archive may have for its files: those that mean one and the same file on every platform. Pure.

use std::collections::BTreeMap;

use crate::manifest::is_inner_path;

/// The longest part of a path, in bytes: the limit of most file systems.
const LONGEST_PART: usize = 255;
/// Most files of a variant.
pub const MOST_FILES: usize = 100_000;

/// Names that Windows keeps for devices, with and without something behind a dot.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitName {
    /// It is not a path below the folder, or not on every platform.
    #[error("its path is not safe on every platform")]
    Outside,
    /// Windows means a device with it.
    #[error("Windows takes `{0}` for a device")]
    Device(String),
    /// No file system takes it.
    #[error("a name in it is longer than {LONGEST_PART} bytes")]
    Long,
    /// It was there before.
    #[error("there is a file of this name already")]
    Twice,
    /// Where case does not count it is another one's name.
    #[error("it is `{0}` where case does not count")]
    Case(String),
    /// One is a file and a folder.
    #[error("`{0}` is a file and a folder")]
    Both(String),
    /// There are too many.
    #[error("there are more than {MOST_FILES} files")]
    Many,
}

/// A name that was seen, in its own spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownName {
    spelling: String,
    is_file: bool,
}

/// The names of all files of a variant and the folders above them, by what they are without case.
#[derive(Debug, Clone, Default)]
pub struct Names {
    known: BTreeMap<String, KnownName>,
    files: usize,
}

impl Names {
    /// Takes a further file.
    ///
    /// # Errors
    /// Its name is unfit, or does not stand beside the others.
    pub fn take(&mut self, path: &str) -> Result<(), UnfitName> {
        if !is_inner_path(path) {
            return Err(UnfitName::Outside);
        }
        for part in path.split('/') {
            if part.len() > LONGEST_PART {
                return Err(UnfitName::Long);
            }
            if is_device(part) {
                return Err(UnfitName::Device(part.to_owned()));
            }
        }
        if self.files == MOST_FILES {
            return Err(UnfitName::Many);
        }
        for (at, _) in path.match_indices('/') {
            self.see(&path[..at], false)?;
        }
        self.see(path, true)?;
        self.files += 1;
        Ok(())
    }

    /// How many files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    /// Whether a file of this name was taken.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        self.known.get(&path.to_lowercase()).is_some_and(|known| known.is_file && known.spelling == path)
    }

    fn see(&mut self, spelling: &str, is_file: bool) -> Result<(), UnfitName> {
        let Some(known) = self.known.get(&spelling.to_lowercase()) else {
            let known = KnownName { spelling: spelling.to_owned(), is_file };
            self.known.insert(spelling.to_lowercase(), known);
            return Ok(());
        };
        match known {
            known if known.spelling != spelling => Err(UnfitName::Case(known.spelling.clone())),
            known if known.is_file != is_file => Err(UnfitName::Both(spelling.to_owned())),
            _ if is_file => Err(UnfitName::Twice),
            _ => Ok(()),
        }
    }
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = |word: &str| {
        stem.strip_prefix(word).is_some_and(|rest| {
            let mut rest = rest.chars();
            matches!((rest.next(), rest.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
        })
    };
    DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_one_file_everywhere() {
        let mut names = Names::default();
        for good in ["bin/infer", "lib/libx.so.1", "lib/sub/a b", "é", "lib/.hidden", "console/comx", "aux1"]
        {
            assert_eq!(names.take(good), Ok(()), "{good}");
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
            "conin$",
        ] {
            assert!(names.take(bad).is_err(), "{bad}");
        }
        assert_eq!(names.take(&"n".repeat(256)), Err(UnfitName::Long));
        assert!(names.has_file("bin/infer") && !names.has_file("bin") && !names.has_file("BIN/infer"));
    }
}
