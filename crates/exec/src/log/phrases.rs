//! Interprets errors that no signature matches: what they are about and what they report of it, in whatever words.
//!
//! Every program words its checks in its own way, but the subjects (`cuDNN`, `the driver`, `Vulkan`) and the complaints (`not
//! found`, `too old`, `was built without`) are few. `findings/logs/phrases.toml` lists both, and the finding for each combination.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use serde::Deserialize;

use super::index::SignatureIndex;
use super::names::{NameKind, NameTable};

/// Maximum number of bytes of a message that are interpreted.
const LONGEST: usize = 2048;

/// The values that texts of findings may use for what a message names.
const SLOTS: [&str; 7] = ["component", "library", "package", "header", "tool", "module", "feature"];

/// What an error reports of a subject. Of several complaints in a message the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Complaint {
    /// Too little memory.
    Memory,
    /// No permission.
    Denied,
    /// Built without it.
    Disabled,
    /// Two versions that do not fit each other.
    Mismatch,
    /// Older than required.
    Old,
    /// Not known to the other side.
    Unsupported,
    /// There or not, but it cannot be loaded or opened.
    Unloadable,
    /// Not there, or not found.
    Missing,
    /// There, but it does not start.
    Failed,
}

/// Words for a complaint.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ComplaintRow {
    kind: Complaint,
    texts: Vec<String>,
}

/// What an error can be about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectRow {
    /// Its names in messages. Case, quotes and punctuation do not matter; `*` at the end stands for the rest of a word.
    pub(super) names: Vec<String>,
    /// The component as users know it, the value `component` in texts.
    component: String,
    /// The backend, if the findings are not specific to one.
    backend: Option<Backend>,
    /// The finding for each complaint.
    pub(super) means: BTreeMap<Complaint, DiagnosticId>,
}

impl SubjectRow {
    fn values(&self) -> BTreeMap<String, String> {
        SLOTS.map(|slot| (slot.to_owned(), self.component.clone())).into()
    }
}

/// The meaning of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhraseMeaning {
    pub(super) id: DiagnosticId,
    pub(super) values: BTreeMap<String, String>,
    pub(super) backend: Option<Backend>,
    /// The row of the name that the message contains, if it has one.
    pub(super) name: Option<usize>,
    /// Whether the message says only that something failed.
    pub(super) is_vague: bool,
}

/// The subjects and complaints, with an index of their words.
pub(super) struct PhraseTable {
    subjects: Vec<SubjectRow>,
    complaints: Vec<ComplaintRow>,
    index: SignatureIndex,
    /// For each number of the index: a subject with the length of its name, or a complaint.
    entries: Vec<PhraseEntry>,
}

#[derive(Clone, Copy)]
enum PhraseEntry {
    Subject { row: usize, length: usize },
    Complaint(usize),
}

impl PhraseTable {
    pub(super) fn new(subjects: Vec<SubjectRow>, complaints: Vec<ComplaintRow>) -> Self {
        let mut texts = Vec::new();
        let mut entries = Vec::new();
        for (row, subject) in subjects.iter().enumerate() {
            for name in &subject.names {
                let text = literal(name);
                entries.push(PhraseEntry::Subject { row, length: text.len() });
                texts.push(text);
            }
        }
        for (row, complaint) in complaints.iter().enumerate() {
            for text in &complaint.texts {
                texts.push(literal(text));
                entries.push(PhraseEntry::Complaint(row));
            }
        }
        let index = SignatureIndex::new(texts.iter().map(String::as_bytes).zip(0..));
        Self { subjects, complaints, index, entries }
    }

    /// The meaning of a message, if it names a subject and a complaint that have a finding together.
    pub(super) fn meaning(&self, message: &str, names: &NameTable) -> Option<PhraseMeaning> {
        let message = without_place(head(message));
        let message = message.as_str();
        let mut hits = Vec::new();
        self.index.scan(normalised(message).as_bytes(), &mut hits);
        hits.sort_unstable();
        hits.dedup();
        let mut subjects = Vec::new();
        let mut kinds = Vec::new();
        for hit in hits {
            match self.entries[hit] {
                PhraseEntry::Subject { row, length } => subjects.push((length, row)),
                PhraseEntry::Complaint(row) => kinds.push(self.complaints[row].kind),
            }
        }
        kinds.sort_unstable();
        let of_subject = kinds.iter().find_map(|kind| {
            let fits = subjects.iter().filter(|(_, row)| self.subjects[*row].means.contains_key(kind));
            let (_, row) = fits.max_by_key(|(length, row)| (*length, std::cmp::Reverse(*row)))?;
            let subject = &self.subjects[*row];
            Some(PhraseMeaning {
                id: subject.means[kind],
                values: subject.values(),
                backend: subject.backend,
                name: None,
                is_vague: *kind == Complaint::Failed,
            })
        });
        of_subject
            .or_else(|| if kinds.contains(&Complaint::Missing) { of_name(message, names) } else { None })
    }
}

/// The meaning of a message that reports a header, library or package as missing which the table of names has.
fn of_name(message: &str, names: &NameTable) -> Option<PhraseMeaning> {
    let kinds: [(NameKind, DiagnosticId); 3] = [
        (NameKind::Header, gpubuild_detect::id!("build.header-missing")),
        (NameKind::Library, gpubuild_detect::id!("link.library-missing")),
        (NameKind::Package, gpubuild_detect::id!("cmake.package-missing")),
    ];
    message.split_whitespace().find_map(|word| {
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_quoted = word.trim_end_matches(['.', ',', ':', ';']).len() > name.len() + 1;
        let is_name = is_quoted || name.contains(|c: char| c.is_uppercase() || c.is_ascii_digit());
        kinds.iter().find_map(|(kind, general)| {
            let is_possible = match kind {
                NameKind::Header => [".h", ".hpp"].iter().any(|end| name.ends_with(end)),
                NameKind::Library => {
                    [".so", ".dll", ".dylib", ".lib", ".a"].iter().any(|end| name.contains(end))
                }
                _ => is_name && name.len() > 2,
            };
            let row = names.find(*kind, name).filter(|_| is_possible)?;
            let component = names.rows[row].component.clone()?;
            let value = |key: &str, value: &str| (key.to_owned(), value.to_owned());
            let values = ["header", "library", "package", "tool"].map(|key| value(key, name));
            let values = values.into_iter().chain([value("component", &component)]).collect();
            let id = names.rows[row].id(*kind).unwrap_or(*general);
            Some(PhraseMeaning { id, values, backend: None, name: Some(row), is_vague: false })
        })
    })
}

/// The start of a message.
fn head(message: &str) -> &str {
    let end = (0..=message.len().min(LONGEST)).rev().find(|end| message.is_char_boundary(*end));
    &message[..end.unwrap_or(0)]
}

/// The message without words such as `/usr/share/cmake/x.cmake:603:`, which say where it is from and not what it is about.
fn without_place(message: &str) -> String {
    let is_place = |word: &str| {
        let number =
            word.find([':', '(']).is_some_and(|at| word[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
        number && word.contains(['/', '\\', '.'])
    };
    message.split_whitespace().filter(|word| !is_place(word)).collect::<Vec<_>>().join(" ")
}

/// Lowercase words, each with a space before and after it. Apostrophes are removed, and all other punctuation ends a word.
fn normalised(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 2);
    words.push(' ');
    for c in text.chars() {
        match c {
            '\'' | '’' => {}
            _ if c.is_alphanumeric() || c == '+' => words.extend(c.to_lowercase()),
            _ if !words.ends_with(' ') => words.push(' '),
            _ => {}
        }
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

/// The words of a table as they are searched. Scripts without spaces between words are searched in the middle of a text.
fn literal(text: &str) -> String {
    let words = normalised(text);
    if !text.is_ascii() && text.chars().any(|c| c > '\u{2e7f}') {
        return words.trim().to_owned();
    }
    if text.ends_with('*') { words.trim_end().to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_without_case_and_punctuation() {
        assert_eq!(normalised("Couldn't find `libFoo.so.1`!"), " couldnt find libfoo so 1 ");
        assert_eq!(normalised("C++17"), " c++17 ");
        assert_eq!(normalised(""), " ");
        assert_eq!(literal("HIP"), " hip ");
        assert_eq!(literal("initializ*"), " initializ");
        assert_eq!(literal("找不到"), "找不到");
    }

    #[test]
    fn all_words_can_be_searched() {
        let all = super::super::Signatures::embedded();
        for subject in &all.phrases.subjects {
            for name in &subject.names {
                assert!(literal(name).len() >= 4, "{name}");
            }
        }
        for complaint in &all.phrases.complaints {
            for text in &complaint.texts {
                assert!(literal(text).len() >= 4, "{text}");
            }
        }
    }

    #[test]
    fn every_meaning_is_in_the_catalogue() {
        let findings = gpubuild_detect::finding::Findings::embedded();
        let all = super::super::Signatures::embedded();
        let ids = all.phrases.subjects.iter().flat_map(|subject| subject.means.values().copied());
        let missing: Vec<&str> =
            ids.map(DiagnosticId::as_str).filter(|id| findings.get(id).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn subjects_and_complaints_give_findings() {
        let all = super::super::Signatures::embedded();
        let mut wrong = Vec::new();
        for line in
            include_str!("phrases.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (id, message) = line.split_once('\t').unwrap_or_else(|| panic!("no tab in `{line}`"));
            let found = all.phrases.meaning(message, &all.names).map(|meaning| meaning.id);
            if found.is_none_or(|found| found.as_str() != id) {
                wrong.push(format!("{id}: {found:?} for {message}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
