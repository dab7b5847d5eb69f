//! What a line of a log contains, sorted by its meaning.

use gpubuild_core::order::SortIndirect as _;

use super::platform::PlatformVotes;
use super::{Signatures, error_line, outcome};

/// What a line contains.
#[derive(Default)]
pub(super) struct LineHits {
    all: Vec<usize>,
    pub(super) signatures: Vec<usize>,
    pub(super) preceding: Vec<usize>,
    pub(super) has_failure: bool,
    pub(super) has_error: bool,
    pub(super) has_headline: bool,
}

/// The meaning of the numbers in the index: signatures, cues, three kinds of words, and texts that must precede a signature.
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
        let kinds = [&outcome::FAILURES[..], &error_line::ERRORS[..], &outcome::HEADLINES[..]];
        let numbered = kinds.into_iter().zip(self.words()..);
        numbered.flat_map(|(words, number)| words.iter().map(move |word| (word.as_bytes(), number)))
    }

    /// The number of the text that must precede a signature.
    pub(super) fn preceding(self, signature: usize) -> usize {
        self.words() + 3 + signature
    }
}

impl LineHits {
    /// Finds the literals of a line and sorts them by their meaning. Cues of a platform are counted.
    pub(super) fn find(&mut self, all: &Signatures, line: &[u8], number: usize, votes: &mut PlatformVotes) {
        self.clear();
        all.index.scan(line, &mut self.all);
        self.all.sort_indirect();
        self.all.dedup();
        let numbers = all.numbers;
        for &hit in &self.all {
            if hit < numbers.signatures {
                self.signatures.push(hit);
            } else if hit < numbers.words() {
                let (row, text) = all.cue_texts[hit - numbers.signatures];
                votes.add(row, text, number);
            } else {
                match hit - numbers.words() {
                    0 => self.has_failure = true,
                    1 => self.has_error = true,
                    2 => self.has_headline = true,
                    preceding => self.preceding.push(preceding - 3),
                }
            }
        }
    }

    fn clear(&mut self) {
        self.all.clear();
        self.signatures.clear();
        self.preceding.clear();
        self.has_failure = false;
        self.has_error = false;
        self.has_headline = false;
    }
}
