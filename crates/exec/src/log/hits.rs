//! What a line of a log contains, sorted by its meaning.

use super::buckets::FoundLiteral;
use super::index::differ_in_numbers;
use super::platform::{NVCC, PlatformVotes};
use super::{Signatures, error_line, outcome, phrase};

/// Number of kinds of words.
const KINDS: usize = 9;

/// What a word shows.
#[derive(Clone, Copy)]
pub(super) enum WordKind {
    /// A tool reports that a command failed.
    Failure,
    /// The line may be an error.
    Error,
    /// Output that may not be a failure follows.
    Headline,
    /// The line may name a file that is compiled only to find out what there is.
    CheckedFile,
    /// The line may say that something failed.
    Phrase,
    /// The line reports an attempt after which the program tries another way.
    Attempt,
    /// The line may have the path of nvcc.
    Compiler,
    /// The line may name the release of the CUDA Toolkit.
    Release,
    /// The line may have a sentence of the grid.
    Sentence,
}

/// What a line contains.
#[derive(Default)]
pub(super) struct LineHits {
    /// The line before this one.
    before: Vec<u8>,
    /// The literals of this line and of the one before it.
    literals: [Vec<FoundLiteral>; 2],
    all: Vec<usize>,
    /// The cues of the line: rows and texts.
    cues: Vec<(usize, usize)>,
    pub(super) signatures: Vec<usize>,
    pub(super) preceding: Vec<usize>,
    /// The contexts that the line shows.
    pub(super) contexts: Vec<usize>,
    words: [bool; KINDS],
}

/// The meaning of the numbers in the index: signatures, cues, kinds of words, and texts that must precede a signature.
#[derive(Clone, Copy)]
pub(super) struct HitNumbers {
    pub(super) signatures: usize,
    pub(super) cues: usize,
}

impl HitNumbers {
    fn words(self) -> usize {
        self.signatures + self.cues
    }

    /// All words with their numbers.
    pub(super) fn all_words<'a>(self) -> impl Iterator<Item = (&'a [u8], usize)> {
        let kinds = [
            &outcome::FAILURES[..],
            &error_line::ERRORS[..],
            &outcome::HEADLINES[..],
            &outcome::CHECKED[..],
            &phrase::TRIGGERS[..],
            &outcome::ATTEMPTS[..],
            &[NVCC][..],
        ];
        let numbered = kinds.into_iter().zip(self.words()..);
        numbered.flat_map(|(words, number)| words.iter().map(move |word| (word.as_bytes(), number)))
    }

    /// The number of the words of a kind.
    pub(super) fn word(self, kind: WordKind) -> usize {
        self.words() + kind as usize
    }

    /// The number of the texts of a context.
    pub(super) fn context(self, context: usize) -> usize {
        self.words() + KINDS + self.signatures + context
    }

    /// The number of the text that must precede a signature.
    pub(super) fn preceding(self, signature: usize) -> usize {
        self.words() + KINDS + signature
    }
}

impl LineHits {
    /// Finds the literals of a line and sorts them by their meaning. Cues of a platform are counted.
    pub(super) fn find(&mut self, all: &Signatures, line: &[u8], number: usize, votes: &mut PlatformVotes) {
        let [literals, before] = &mut self.literals;
        std::mem::swap(literals, before);
        literals.clear();
        if differ_in_numbers(&self.before, line) {
            all.index.literals_like(before, line, literals);
        } else {
            all.index.literals(line, literals);
        }
        self.before.clear();
        self.before.extend_from_slice(line);
        // Lines with the same literals follow each other in long lists of errors.
        if literals != before {
            self.sort(all);
        }
        for &(row, text) in &self.cues {
            votes.add(row, text, number);
        }
    }

    fn sort(&mut self, all: &Signatures) {
        self.clear();
        all.index.numbers(&self.literals[0], &mut self.all);
        // Runs for many lines, and allocates nothing.
        self.all.sort_unstable();
        self.all.dedup();
        let numbers = all.numbers;
        for &hit in &self.all {
            if hit < numbers.signatures {
                self.signatures.push(hit);
            } else if hit < numbers.words() {
                self.cues.push(all.cue_texts[hit - numbers.signatures]);
            } else {
                let word = hit - numbers.words();
                match self.words.get_mut(word) {
                    Some(has) => *has = true,
                    None if word < KINDS + numbers.signatures => self.preceding.push(word - KINDS),
                    None => self.contexts.push(word - KINDS - numbers.signatures),
                }
            }
        }
        if all.is_advice(&self.cues) {
            self.cues.clear();
        }
    }

    /// Whether the line has at least one word of this kind.
    pub(super) fn has(&self, kind: WordKind) -> bool {
        self.words[kind as usize]
    }

    fn clear(&mut self) {
        self.all.clear();
        self.cues.clear();
        self.signatures.clear();
        self.preceding.clear();
        self.contexts.clear();
        self.words = [false; KINDS];
    }
}
