//! Finds the known header or library that a line reports as not found.

use super::names::{NameKind, NameTable};
use super::phrase;

/// Endings of the names of headers.
const HEADERS: [&str; 4] = [".h", ".hpp", ".cuh", ".hh"];
/// Endings of the names of libraries that a loader reads.
const LOADED: [&str; 3] = [".so", ".dll", ".dylib"];

/// A name and what it is the name of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingName<'a> {
    pub(super) kind: NameKind,
    pub(super) name: &'a str,
}

impl MissingName<'_> {
    /// The value that has the name in texts.
    pub(super) fn key(&self) -> &'static str {
        match self.kind {
            NameKind::Header => "header",
            _ => "library",
        }
    }
}

/// The first known name in a line that says that something is missing.
pub(super) fn find<'a>(names: &NameTable, text: &'a str) -> Option<MissingName<'a>> {
    if !phrase::says_missing(text) {
        return None;
    }
    let is_border = |c: char| c.is_whitespace() || "'\"`‘’“”(){}[],;<>=".contains(c);
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(|c| !is_border(c))?;
        let word = &rest[start..];
        let end = word.find(is_border).unwrap_or(word.len());
        let name = word[..end].trim_end_matches([':', '.', '!']);
        let kind = kind(name).filter(|kind| is_known(names, *kind, name));
        if let Some(kind) = kind {
            return Some(MissingName { kind, name });
        }
        rest = &word[end..];
    }
    None
}

/// Whether the table has a row for a name. Findings about Windows are for its libraries only.
fn is_known(names: &NameTable, kind: NameKind, name: &str) -> bool {
    let is_windows = name.to_ascii_lowercase().contains(".dll");
    names.find(kind, name).is_some_and(|row| {
        let id = names.rows[row].id(kind);
        is_windows || !id.is_some_and(|id| id.as_str().starts_with("win."))
    })
}

/// What a word may be the name of.
fn kind(word: &str) -> Option<NameKind> {
    let lower = word.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|end| lower.ends_with(end));
    if ends(&HEADERS) {
        Some(NameKind::Header)
    } else {
        (ends(&LOADED) || lower.contains(".so.")).then_some(NameKind::Loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Signatures;

    #[test]
    fn names_of_missing_files_are_found() {
        let names = &Signatures::embedded().names;
        for (line, expected) in [
            (
                "No library found under: /usr/local/cuda-11.1/lib/libcudart.so.11.1",
                Some((NameKind::Loaded, "/usr/local/cuda-11.1/lib/libcudart.so.11.1")),
            ),
            ("Could not find any cudnn.h matching version ''", Some((NameKind::Header, "cudnn.h"))),
            ("found /usr/include/cudnn.h", None),
            ("cannot load libcudart.so.12: undefined symbol: x", None),
            ("Could not find any engine.h", None),
        ] {
            let expected = expected.map(|(kind, name)| MissingName { kind, name });
            assert_eq!(find(names, line), expected, "{line}");
        }
    }
}
