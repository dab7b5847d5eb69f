//! Sentences of any program that name a component and report a problem with it, in the words of `findings/logs/grid.toml`.

use std::collections::{BTreeSet, HashMap};

use gpubuild_core::order::SortIndirect as _;
use serde::Deserialize;

/// Maximum number of words between a component and what is said about it.
const GAP: usize = 4;
/// Maximum number of words of a sentence.
const WORDS: usize = 60;
/// Ends of sentences. They are followed by a space.
const ENDS: [char; 4] = ['.', ';', '!', '?'];

/// The words of the grid.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridWords {
    component: Vec<GridComponent>,
    predicate: Vec<GridPredicate>,
    /// Words before a component that is missing if one of the words `found` follows.
    no: Vec<String>,
    found: Vec<String>,
    /// Phrases of sentences that report no failure.
    ignored: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GridComponent {
    name: String,
    words: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GridPredicate {
    name: String,
    /// Phrases before the component.
    before: Vec<String>,
    /// Phrases behind it.
    after: Vec<String>,
    /// Whether `no … found` says the same.
    #[serde(default)]
    frame: bool,
}

/// What a phrase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Component(usize),
    Before(usize),
    After(usize),
    No,
    Found,
    Ignored,
}

/// A phrase in a sentence: its first word and the word behind it.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    meaning: Meaning,
}

/// The grid with its phrases by first word, the longest first.
#[derive(Default)]
pub(super) struct Grid {
    phrases: HashMap<String, Vec<(Vec<String>, Meaning)>>,
    /// The signature of a component and a predicate.
    cells: HashMap<(usize, usize), usize>,
    frame: Option<usize>,
    /// Text of which a line with a sentence has at least one.
    pub(super) triggers: BTreeSet<String>,
}

impl Grid {
    /// `cells` are the names of component and predicate, and the number of the signature.
    ///
    /// # Panics
    /// A name is unknown, which a test rules out.
    pub(super) fn new<'a>(words: &GridWords, cells: impl Iterator<Item = (&'a [String; 2], usize)>) -> Self {
        let mut grid = Self { frame: words.predicate.iter().position(|one| one.frame), ..Self::default() };
        for (at, component) in words.component.iter().enumerate() {
            grid.add(&component.words, Meaning::Component(at));
        }
        for (at, predicate) in words.predicate.iter().enumerate() {
            grid.add(&predicate.before, Meaning::Before(at));
            grid.add(&predicate.after, Meaning::After(at));
        }
        grid.add(&words.no, Meaning::No);
        grid.add(&words.found, Meaning::Found);
        grid.add(&words.ignored, Meaning::Ignored);
        for phrases in grid.phrases.values_mut() {
            phrases.sort_indirect_by_key(|(words, _)| std::cmp::Reverse(words.len()));
        }
        for ([component, predicate], signature) in cells {
            let row = words.component.iter().position(|one| one.name == *component);
            let column = words.predicate.iter().position(|one| one.name == *predicate);
            let cell = row.zip(column).unwrap_or_else(|| panic!("no cell `{component}`, `{predicate}`"));
            grid.cells.insert(cell, signature);
        }
        grid
    }

    fn add(&mut self, phrases: &[String], meaning: Meaning) {
        for phrase in phrases {
            let words: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
            // The first letter may be a capital.
            if matches!(meaning, Meaning::Before(_) | Meaning::After(_) | Meaning::Found) {
                self.triggers.insert(phrase.chars().skip(1).collect());
            }
            self.phrases.entry(words[0].clone()).or_default().push((words, meaning));
        }
    }

    /// The signature of the first sentence of a line that names a component and reports a problem with it.
    pub(super) fn find(&self, line: &str) -> Option<usize> {
        if line.starts_with("-- ") || line.starts_with("checking ") {
            return None;
        }
        let mut start = 0;
        for (end, mark) in line.match_indices(ENDS) {
            if line[end + mark.len()..].starts_with(' ') {
                if let Some(cell) = self.sentence(&line[start..end]) {
                    return Some(cell);
                }
                start = end + mark.len();
            }
        }
        self.sentence(&line[start..])
    }

    fn sentence(&self, text: &str) -> Option<usize> {
        let words: Vec<String> = text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect();
        if words.len() > WORDS {
            return None;
        }
        let places = self.places(&words);
        if places.iter().any(|place| place.meaning == Meaning::Ignored) {
            return None;
        }
        let mut best: Option<(usize, usize)> = None;
        for component in &places {
            let Meaning::Component(row) = component.meaning else { continue };
            for other in &places {
                let Some((gap, column)) = self.predicate(component, other, &places, words.len()) else {
                    continue;
                };
                let Some(&cell) = self.cells.get(&(row, column)) else { continue };
                if best.is_none_or(|(least, _)| gap < least) {
                    best = Some((gap, cell));
                }
            }
        }
        best.map(|(_, cell)| cell)
    }

    /// What `other` says about a component, and the number of words between them.
    fn predicate(
        &self,
        component: &Place,
        other: &Place,
        places: &[Place],
        words: usize,
    ) -> Option<(usize, usize)> {
        let before = component.start.checked_sub(other.end).filter(|gap| *gap <= GAP);
        let after = other.start.checked_sub(component.end).filter(|gap| *gap <= GAP);
        match other.meaning {
            Meaning::Before(column) => Some((before?, column)),
            Meaning::After(column) => Some((after?, column)),
            Meaning::No => {
                let is_found = |place: &Place| {
                    place.meaning == Meaning::Found
                        && place.start.checked_sub(component.end).is_some_and(|gap| gap <= GAP)
                };
                let is_complete = component.end == words || places.iter().any(is_found);
                before.filter(|gap| is_complete && *gap < GAP - 1).zip(self.frame)
            }
            _ => None,
        }
    }

    /// The phrases of a sentence. Of overlapping ones with the same kind of meaning the first and longest counts.
    fn places(&self, words: &[String]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for start in 0..words.len() {
            let Some(phrases) = self.phrases.get(&words[start]) else { continue };
            for (phrase, meaning) in phrases {
                let kind = std::mem::discriminant(meaning);
                let is_covered =
                    |place: &Place| std::mem::discriminant(&place.meaning) == kind && place.end > start;
                if words[start..].starts_with(phrase) && !places.iter().any(is_covered) {
                    places.push(Place { start, end: start + phrase.len(), meaning: *meaning });
                }
            }
        }
        places
    }
}

/// A word in lower case, without punctuation and without the folder of a file.
fn word(text: &str) -> String {
    let text = text.trim_matches(|c: char| ".,:;!?()[]{}<>\"'`*=|“”‘’".contains(c)).to_lowercase();
    if text.starts_with("/dev/") {
        return text;
    }
    text.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
