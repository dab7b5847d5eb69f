//! Sentences of any program that name a component and report a problem with it, in the words of `findings/logs/grid.toml`.

use std::collections::{BTreeSet, HashMap};

use gpubuild_core::order::SortIndirect as _;
use serde::Deserialize;

/// Maximum number of words between a component and what is said about it.
const GAP: usize = 4;
/// Maximum number of words between a negation and its verb: `could not be properly initialized`.
const NEGATED: usize = 2;
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
    /// Words that say that what the following verb means did not happen.
    negation: Vec<String>,
    /// Words behind a verb that say the same: `initialization failed`.
    failure: Vec<String>,
    /// Phrases of sentences that report no failure.
    ignored: Vec<String>,
    /// Which backend a log is about, the most specific first.
    context: Vec<GridContext>,
}

/// Text that shows which backend a log is about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridContext {
    pub(super) name: String,
    /// The texts, each with at least four characters.
    pub(super) cues: Vec<String>,
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
    /// Verbs that say it, before or behind the component, with a negation before them.
    #[serde(default)]
    verbs: Vec<String>,
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
    /// What is said before or behind the component.
    Around(usize),
    Verb(usize),
    Negation,
    Failure,
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

/// A meaning of a component and a predicate.
struct GridCell {
    /// The context in which they have it; without one, in all contexts that have no cell of their own.
    context: Option<usize>,
    signature: usize,
}

/// The grid with its phrases by first word, the longest first.
#[derive(Default)]
pub(super) struct Grid {
    phrases: HashMap<String, Vec<(Vec<String>, Meaning)>>,
    /// The meanings of a component and a predicate.
    cells: HashMap<(usize, usize), Vec<GridCell>>,
    contexts: Vec<GridContext>,
    frame: Option<usize>,
    /// Text of which a line with a sentence has at least one.
    pub(super) triggers: BTreeSet<String>,
}

impl Grid {
    /// `cells` are the names of component and predicate with that of a context, and the number of the signature.
    ///
    /// # Panics
    /// A name is unknown, which a test rules out.
    pub(super) fn new<'a>(
        words: &GridWords,
        cells: impl Iterator<Item = (&'a [String; 2], Option<&'a String>, usize)>,
    ) -> Self {
        let frame = words.predicate.iter().position(|one| one.frame);
        let mut grid = Self { frame, contexts: words.context.clone(), ..Self::default() };
        for (at, component) in words.component.iter().enumerate() {
            grid.add(&component.words, Meaning::Component(at));
        }
        for (at, predicate) in words.predicate.iter().enumerate() {
            grid.add(&predicate.before, Meaning::Before(at));
            grid.add(&predicate.after, Meaning::After(at));
            grid.add(&predicate.verbs, Meaning::Verb(at));
        }
        grid.add(&words.negation, Meaning::Negation);
        grid.add(&words.failure, Meaning::Failure);
        grid.add(&words.no, Meaning::No);
        let firsts =
            words.component.iter().flat_map(|one| &one.words).filter_map(|one| one.split(' ').next());
        for first in firsts.collect::<BTreeSet<_>>() {
            let forms = words.no.iter().flat_map(|no| triggers(first).map(|form| format!("{no} {form}")));
            grid.triggers.extend(forms.chain(triggers(first).map(|form| format!("No {form}"))));
        }
        grid.add(&words.found, Meaning::Found);
        grid.add(&words.ignored, Meaning::Ignored);
        for phrases in grid.phrases.values_mut() {
            phrases.sort_indirect_by_key(|(words, _)| std::cmp::Reverse(words.len()));
        }
        for ([component, predicate], context, signature) in cells {
            let row = words.component.iter().position(|one| one.name == *component);
            let column = words.predicate.iter().position(|one| one.name == *predicate);
            let cell = row.zip(column).unwrap_or_else(|| panic!("no cell `{component}`, `{predicate}`"));
            let place = |name: &String| {
                let place = words.context.iter().position(|one| one.name == *name);
                place.unwrap_or_else(|| panic!("no context `{name}`"))
            };
            let cell = grid.cells.entry(cell).or_default();
            cell.push(GridCell { context: context.map(place), signature });
        }
        grid
    }

    /// The number of contexts.
    pub(super) fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// The texts of the contexts, each with the number of its context.
    pub(super) fn cues(&self) -> impl Iterator<Item = (&str, usize)> {
        let contexts = self.contexts.iter().enumerate();
        contexts.flat_map(|(at, context)| context.cues.iter().map(move |cue| (cue.as_str(), at)))
    }

    /// The signature of the cell of a guess in a log: that of the context with most lines, or the one without a context.
    /// `None` if the sentence means nothing there.
    pub(super) fn in_context(&self, guess: usize, lines: &[usize]) -> Option<usize> {
        let cell = self.cells.values().find(|cell| cell.iter().any(|one| one.signature == guess))?;
        let most = lines.iter().copied().max().filter(|most| *most > 0);
        let context = lines.iter().position(|count| Some(*count) == most);
        let of = |wanted| cell.iter().find(|one| one.context == wanted).map(|one| one.signature);
        context.and_then(|context| of(Some(context))).or_else(|| of(None))
    }

    fn add(&mut self, phrases: &[String], meaning: Meaning) {
        for phrase in phrases {
            let words: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
            if matches!(meaning, Meaning::Before(_) | Meaning::After(_) | Meaning::Verb(_) | Meaning::Found) {
                self.triggers.extend(triggers(phrase));
            }
            self.phrases.entry(words[0].clone()).or_default().push((words, meaning));
        }
    }

    /// A signature of the first sentence of a line that names a component and reports a problem with it.
    pub(super) fn find(&self, line: &str) -> Option<usize> {
        if ["-- ", "checking ", "Could NOT find "].iter().any(|start| line.starts_with(start)) {
            return None;
        }
        divided(line, &ENDS).into_iter().find_map(|sentence| self.sentence(sentence))
    }

    /// A signature of a sentence, unless one of its parts says that nothing failed.
    fn sentence(&self, text: &str) -> Option<usize> {
        let words: Vec<String> = text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect();
        if self.places(&words).iter().any(|place| place.meaning == Meaning::Ignored) {
            return None;
        }
        divided(text, &[',']).into_iter().find_map(|part| self.part(part))
    }

    fn part(&self, text: &str) -> Option<usize> {
        let plain: Vec<String> = text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect();
        if plain.len() > WORDS {
            return None;
        }
        // Names such as `NoSuitableAdapterFound` are sentences too.
        self.cell(&plain).or_else(|| {
            let parts = text.split([' ', '(', '\t']).flat_map(parts).filter(|word| !word.is_empty());
            let parts: Vec<String> = parts.collect();
            (parts != plain && parts.len() <= WORDS).then(|| self.cell(&parts))?
        })
    }

    /// A signature of the component and the predicate that are nearest to each other.
    fn cell(&self, words: &[String]) -> Option<usize> {
        let places = self.places(words);
        let mut best: Option<(usize, usize)> = None;
        for component in &places {
            let Meaning::Component(row) = component.meaning else { continue };
            for other in &places {
                let Some((gap, column)) = self.predicate(component, other, &places, words.len()) else {
                    continue;
                };
                let Some(cell) = self.cells.get(&(row, column)).and_then(|cell| cell.first()) else {
                    continue;
                };
                if best.is_none_or(|(least, _)| gap < least) {
                    best = Some((gap, cell.signature));
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
            Meaning::Around(column) => Some((before.or(after)?, column)),
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
        places.extend(negated(&places));
        places
    }
}

/// The parts of a text that end with one of some marks and a space.
fn divided<'a>(text: &'a str, ends: &[char]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (end, mark) in text.match_indices(ends) {
        let next = end + mark.len();
        if text[next..].starts_with(' ') {
            parts.push(&text[start..end]);
            start = next;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The verbs that have a negation before them or a failure behind them, each with that word.
fn negated(places: &[Place]) -> Vec<Place> {
    let of = |verb: &Place| {
        let Meaning::Verb(column) = verb.meaning else { return None };
        let is_near = |place: &&Place| {
            place.meaning == Meaning::Negation
                && verb.start.checked_sub(place.end).is_some_and(|gap| gap <= NEGATED)
        };
        let is_failure = |place: &&Place| place.meaning == Meaning::Failure && place.start == verb.end;
        let (start, end) = match places.iter().rfind(is_near) {
            Some(negation) => (negation.start, verb.end),
            None => (verb.start, places.iter().find(is_failure)?.end),
        };
        Some(Place { start, end, meaning: Meaning::Around(column) })
    };
    places.iter().filter_map(of).collect()
}

/// Texts of which a line with a phrase has at least one: the first letter may be a capital, or all.
fn triggers(phrase: &str) -> [String; 3] {
    let rest: String = phrase.chars().skip(1).collect();
    let first: String = phrase.chars().take(1).collect();
    [phrase.to_owned(), format!("{}{rest}", first.to_uppercase()), phrase.to_uppercase()]
}

/// A word in lower case, without punctuation and without the folder of a file.
fn word(text: &str) -> String {
    let is_tag = text.starts_with('[') && text.ends_with(']'); // `[vo/gpu]` names a part of the program
    let text = text.trim_matches(|c: char| ".,:;!?()[]{}<>\"'`*=|“”‘’".contains(c));
    // `NVIDIA/AMD` is a choice and no file.
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
    let is_choice = text.split_once('/').is_some_and(|(one, other)| is_name(one) && is_name(other));
    let text = text.to_lowercase();
    if is_choice || is_tag || text.starts_with("/dev/") {
        return text;
    }
    text.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

/// The words of a name of a type or an exception: `NoSuitableAdapterFound`, `wgpu::AdapterNotFound`.
fn parts(text: &str) -> Vec<String> {
    let name = text.trim_matches(|c: char| !c.is_alphanumeric());
    let name = name.rsplit("::").next().unwrap_or(name);
    let is_name = name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
    if !is_name || !name.contains(char::is_lowercase) {
        return vec![word(text)];
    }
    let mut parts: Vec<String> = Vec::new();
    let mut is_lower = false;
    for letter in name.chars() {
        match parts.last_mut() {
            Some(part) if !is_lower || !letter.is_uppercase() => part.extend(letter.to_lowercase()),
            _ => parts.push(letter.to_lowercase().collect()),
        }
        is_lower = letter.is_lowercase();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_exceptions_are_divided_into_words() {
        for (text, expected) in [
            ("NoSuitableAdapterFound", &["no", "suitable", "adapter", "found"][..]),
            ("wgpu::AdapterNotFound,", &["adapter", "not", "found"]),
            ("cudaGetDeviceCount", &["cudagetdevicecount"]),
            ("VK_ERROR_DEVICE_LOST", &["vk_error_device_lost"]),
            ("GPU", &["gpu"]),
            ("/usr/lib/Found", &["found"]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
