//! The common interface of findings, refusals and errors: an id, a message, a hint and evidence.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;

use gpubuild_core::backend::edit_distance;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::shell::word;
use serde::{Deserialize, Deserializer, Serialize};

use crate::evidence::Evidence;

/// The stable id of a finding, refusal or error: `family.subject.problem`. Every id has an entry in `findings/`, which
/// `gpubuild explain ID` prints. [`id!`](crate::id) checks this at compile time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DiagnosticId(&'static str);

impl DiagnosticId {
    /// Creates an id.
    ///
    /// # Panics
    /// `findings/` has no entry with this id. In [`id!`](crate::id), this is a compile error.
    #[must_use]
    pub const fn new(id: &'static str) -> Self {
        assert!(gpubuild_findings::position(id).is_some(), "findings/ has no entry with this id");
        Self(id)
    }

    /// Looks up an id by its text. `None` if `findings/` has no entry for it.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        gpubuild_findings::position(text).map(|at| Self(gpubuild_findings::IDS[at]))
    }

    /// The id as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Creates a [`DiagnosticId`] that is checked at compile time: `id!("cuda.toolkit.missing")`.
#[macro_export]
macro_rules! id {
    ($id:literal) => {
        const { $crate::diagnostic::DiagnosticId::new($id) }
    };
}

impl std::ops::Deref for DiagnosticId {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for DiagnosticId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.0)
    }
}

impl fmt::Debug for DiagnosticId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, out)
    }
}

impl PartialEq<str> for DiagnosticId {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for DiagnosticId {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<DiagnosticId> for &str {
    fn eq(&self, other: &DiagnosticId) -> bool {
        *self == other.0
    }
}

impl PartialEq<String> for DiagnosticId {
    fn eq(&self, other: &String) -> bool {
        self.0 == other
    }
}

impl From<DiagnosticId> for String {
    fn from(id: DiagnosticId) -> Self {
        id.0.to_owned()
    }
}

impl<'de> Deserialize<'de> for DiagnosticId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::find(&text).ok_or_else(|| serde::de::Error::custom(format_args!("unknown id `{text}`")))
    }
}

#[cfg(feature = "schema")]
gpubuild_core::string_schema!(DiagnosticId);

/// A finding, refusal or error. `Display` prints the message: the problem and its location, lowercase, without a final period.
pub trait Diagnostic: fmt::Display {
    /// The stable id.
    fn id(&self) -> DiagnosticId;

    /// How to fix the problem, if known.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The observations that the diagnosis is based on.
    fn evidence(&self) -> &[Evidence] {
        &[]
    }
}

/// How to fix an operation on a file or folder that failed with this error of the operating system.
#[must_use]
pub fn file_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => {
            "check the owner and mode of the file and of its folder, or use another folder"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is mounted read-only: use a folder on another one, or mount it writable"
        }
        ErrorKind::StorageFull => {
            "free some space; if `df` shows free space, `df -i` shows whether the inodes are used up"
        }
        ErrorKind::QuotaExceeded => {
            "free some space in your quota, which `quota` shows, or use another folder"
        }
        ErrorKind::FileTooLarge => {
            "raise the limit of the size of files, which `ulimit -f` shows, or use a file system that allows larger files"
        }
        ErrorKind::NotFound => "check the path: a folder in it does not exist, or was removed",
        ErrorKind::NotADirectory => {
            "check the path: a file or a link is in the place of one of its folders; move or remove it"
        }
        ErrorKind::IsADirectory => "there is a folder in the place of the file: move it, or use another path",
        ErrorKind::DirectoryNotEmpty => {
            "another program writes into the folder: end it, and run the command again"
        }
        ErrorKind::InvalidFilename => "use shorter names: most file systems allow 255 bytes for a name",
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => {
            "another program uses the file: end it, and run the command again"
        }
        _ => "the message of the operating system has the cause; check the path and its disk",
    }
}

impl Diagnostic for gpubuild_host::links::LinkRefused {
    fn id(&self) -> DiagnosticId {
        id!("file.link-refused")
    }

    fn hint(&self) -> Option<String> {
        Some(format!(
            "remove the link with `rm {}`; if it came with the sources, do not trust them",
            word(&self.path, "LINK")
        ))
    }
}

/// The general explanation of an error. The message of an actual error has its specific values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorEntry {
    /// The meaning, in one or two sentences.
    pub meaning: String,
    /// The fix, in one sentence.
    pub fix: String,
}

/// The errors in `findings/errors.toml`, by id. Findings have separate entries ([`Findings`](crate::finding::Findings)).
///
/// # Panics
/// The embedded file is invalid; a test rules this out.
#[must_use]
pub fn errors() -> BTreeMap<String, ErrorEntry> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ErrorFile {
        errors: BTreeMap<String, ErrorEntry>,
    }
    let file: ErrorFile = gpubuild_toml::from_static(gpubuild_findings::ERRORS)
        .unwrap_or_else(|error| panic!("findings/errors.toml: {error}"));
    file.errors
}

/// Suggestions for an unknown id, the best first: ids that start with `text`, then ids with a similar spelling.
#[must_use]
pub fn near(text: &str) -> Vec<&'static str> {
    const LIMIT: usize = 8;
    let longest = (text.len() / 4).max(1);
    let mut found: Vec<(usize, &str)> = gpubuild_findings::IDS
        .iter()
        .filter_map(|id| match id.strip_prefix(text) {
            Some(_) => Some((0, *id)),
            None => {
                Some(edit_distance(text, id)).filter(|distance| *distance <= longest).map(|one| (one, *id))
            }
        })
        .collect();
    if found.is_empty() {
        let last = text.rsplit('.').next().filter(|last| last.len() > 3);
        let ids = gpubuild_findings::IDS.iter().filter(|id| last.is_some_and(|last| id.contains(last)));
        found.extend(ids.map(|id| (0, *id)));
    }
    found.sort_indirect();
    found.into_iter().map(|(_, id)| id).take(LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_an_explanation() {
        let errors = errors();
        assert!(errors.len() > 150);
        for (id, entry) in &errors {
            assert!(DiagnosticId::find(id).is_some(), "{id}");
            let sentence =
                entry.meaning.ends_with('.') && entry.meaning.starts_with(|c: char| !c.is_lowercase());
            assert!(sentence, "{id}: {}", entry.meaning);
            assert!(!entry.fix.is_empty() && !entry.fix.ends_with('.'), "{id}: {}", entry.fix);
        }
    }

    #[test]
    fn suggestions_have_the_same_prefix_or_a_similar_spelling() {
        assert_eq!(near("cuda.toolkit.mising")[0], "cuda.toolkit.missing");
        assert_eq!(near("cache.of"), ["cache.off"]);
        assert!(near("probe.").iter().all(|id| id.starts_with("probe.")));
        assert!(near("x.kfd-missing").contains(&"rocm.kfd-missing"));
        assert!(near("something else").is_empty());
    }

    #[test]
    fn only_known_ids_are_found() {
        assert_eq!(DiagnosticId::find("cuda.toolkit.missing"), Some(id!("cuda.toolkit.missing")));
        assert_eq!(DiagnosticId::find("cuda.toolkit.mising"), None);
        let read: Result<DiagnosticId, _> = serde_json::from_str("\"cuda.toolkit.mising\"");
        assert!(read.unwrap_err().to_string().contains("unknown id `cuda.toolkit.mising`"));
    }

    #[test]
    #[should_panic(expected = "no entry with this id")]
    fn an_unknown_id_panics() {
        let _ = DiagnosticId::new("cuda.toolkit.mising");
    }
}
