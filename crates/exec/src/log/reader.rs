//! Reads a log part by part, in memory that does not depend on its size.

use super::decode::LogDecoder;
use super::guess::{GuessSearch, LogGuess};
use super::hits::{LineHits, WordKind};
use super::lines::LogLines;
use super::outcome::{self, ErrorText, IgnoredOutput};
use super::platform::PlatformVotes;
use super::search::{ExaminedLine, Search};
use super::{LogCause, LogReading, REACH, Signatures, clean};

/// Maximum number of lines that a compiler prints about an error after its first line.
const CHECK: usize = 8;

/// Reads a log. Each line is examined as soon as the lines that may belong to its message are complete.
pub struct LogReader<'a> {
    decoder: LogDecoder,
    state: ReaderState<'a>,
}

struct ReaderState<'a> {
    all: &'a Signatures,
    lines: LogLines,
    /// The line that is examined next.
    next: usize,
    hits: LineHits,
    /// For each signature: whether the text that must precede it was found.
    preceded: Vec<bool>,
    /// For each context of the grid: the number of lines that show it.
    contexts: Vec<usize>,
    votes: PlatformVotes,
    /// Whether a tool reports that a complete command failed.
    has_failed: bool,
    error_text: ErrorText,
    /// The line up to which the output of a failed check may reach.
    check_end: usize,
    search: LogSearch,
    check: CheckSearch,
}

/// The search for known failures and for the most probable first error.
struct LogSearch {
    ignored: IgnoredOutput,
    known: Search,
    guess: GuessSearch,
}

/// The search in the output of failed checks of CMake, for a log that consists of one check.
enum CheckSearch {
    /// Before the first line that is not empty.
    Undecided,
    /// All lines so far belong to one check.
    Single(Box<LogSearch>),
    /// The log has other lines or more checks.
    Unneeded,
}

impl<'a> LogReader<'a> {
    pub(super) fn new(all: &'a Signatures) -> Self {
        let state = ReaderState {
            all,
            lines: LogLines::default(),
            next: 0,
            hits: LineHits::default(),
            preceded: vec![false; all.list.len()],
            contexts: vec![0; all.grid.contexts()],
            votes: PlatformVotes::new(all.cues.len()),
            has_failed: false,
            error_text: ErrorText::default(),
            check_end: 0,
            search: LogSearch::new(all, IgnoredOutput::default()),
            check: CheckSearch::Undecided,
        };
        Self { decoder: LogDecoder::default(), state }
    }

    /// Reads the next part of the log. A part may end anywhere in a line.
    pub fn push(&mut self, part: &[u8]) {
        /// Number of bytes that are examined at a time.
        const PART: usize = 64 << 10;
        for part in part.chunks(PART) {
            self.decoder.push(part, &mut |text| self.state.push(text));
        }
    }

    /// Ends the log, and returns what was recognised.
    #[must_use]
    pub fn finish(mut self) -> LogReading {
        let state = &mut self.state;
        self.decoder.finish(&mut |text| state.push(text));
        state.lines.finish();
        state.examine_up_to(state.lines.len());
        self.state.result()
    }
}

impl ReaderState<'_> {
    fn push(&mut self, text: &[u8]) {
        self.lines.push(text);
        self.examine_up_to(self.lines.len().saturating_sub(REACH));
        self.next -= self.lines.drop_before(self.next, REACH);
    }

    fn examine_up_to(&mut self, end: usize) {
        while self.next < end {
            self.examine(self.next);
            self.next += 1;
        }
    }

    fn examine(&mut self, at: usize) {
        let raw = self.lines.line(at);
        let line = clean::plain(raw);
        let number = self.lines.number(at);
        self.votes.add_path(&line, number);
        self.hits.find(self.all, &line, number, &mut self.votes);
        if self.hits.has(WordKind::Compiler) {
            self.votes.add_compiler(&line);
        }
        if self.hits.has(WordKind::Release) {
            self.votes.add_release(&line);
        }
        let is_failed_check = self.hits.has(WordKind::CheckedFile)
            && self.hits.has(WordKind::Error)
            && outcome::is_failed_check(&line);
        if is_failed_check {
            self.check_end = number + CHECK;
        }
        if self.hits.has(WordKind::Failure) {
            self.has_failed |= number > self.check_end || !outcome::is_end_of_check(&line);
        }
        let is_text = self.hits.has(WordKind::Failure) || self.error_text.is_active();
        let headline = if is_text { self.error_text.headline_of(&line) } else { None };
        if !matches!(self.check, CheckSearch::Unneeded) {
            self.check.line(self.all, raw.trim_ascii());
        }
        let hits = &self.hits;
        let examined = ExaminedLine {
            lines: &self.lines,
            at,
            signatures: &hits.signatures,
            preceded: &self.preceded,
            headline,
            is_failed_check,
        };
        self.search.line(self.all, &line, &examined, hits);
        if let CheckSearch::Single(search) = &mut self.check {
            search.line(self.all, &line, &examined, hits);
        }
        for &context in &hits.contexts {
            self.contexts[context] += 1;
        }
        for &signature in &hits.preceding {
            self.preceded[signature] = true;
        }
    }

    fn result(self) -> LogReading {
        let last = self.lines.number(self.lines.len()) - 1;
        let platform = self.votes.result(&self.all.cues);
        let success = outcome::success(self.lines.bytes(), last);
        let result = |search: LogSearch| {
            let mut found = search.known.found;
            if !self.has_failed {
                self.all.drop_harmless(success, last, &mut found);
            }
            self.all.in_context(&self.contexts, &mut found);
            let mut causes = self.all.rank(found);
            let guess = search.guess.result(self.has_failed, success, last);
            if causes.is_empty() {
                causes.extend(guess.as_ref().and_then(|guess| self.all.missing(guess)));
            }
            for cause in &mut causes {
                cause.complete(&self.all.cuda, &platform);
            }
            let guess = guess.filter(|guess| is_needed(guess, &causes));
            LogReading { causes, lines: last, guess, platform: platform.clone() }
        };
        let reading = result(self.search);
        // Checks of CMake may fail, but a log that consists of one failed check is not about anything else.
        match self.check {
            CheckSearch::Single(search) if reading.causes.is_empty() && reading.guess.is_none() => {
                result(*search)
            }
            _ => reading,
        }
    }
}

/// Whether the most probable first error adds something to the recognised failures.
fn is_needed(guess: &LogGuess, causes: &[LogCause]) -> bool {
    causes.first().is_none_or(|first| {
        (first.is_weak && !guess.is_doubtful)
            || (first.is_late && guess.is_located && guess.line < first.line)
    })
}

impl LogSearch {
    fn new(all: &Signatures, ignored: IgnoredOutput) -> Self {
        Self { ignored, known: Search::new(all.list.len()), guess: GuessSearch::default() }
    }

    fn line(&mut self, all: &Signatures, line: &[u8], examined: &ExaminedLine<'_>, hits: &LineHits) {
        let is_ignored =
            (hits.has(WordKind::Headline) || self.ignored.is_active()) && self.ignored.covers(line);
        if is_ignored || hits.has(WordKind::Attempt) || self.known.line(all, examined) {
            return;
        }
        if hits.has(WordKind::Sentence) {
            self.known.sentence(all, examined.lines, examined.at);
        }
        let has_error = hits.has(WordKind::Error);
        if has_error || hits.has(WordKind::Phrase) {
            self.guess.line(examined.lines, examined.at, has_error);
        }
    }
}

impl CheckSearch {
    /// Decides whether the log still consists of one check.
    fn line(&mut self, all: &Signatures, line: &[u8]) {
        let is_headline = outcome::is_check_headline(line);
        match self {
            Self::Undecided if is_headline => {
                *self = Self::Single(Box::new(LogSearch::new(all, IgnoredOutput::with_checks())));
            }
            Self::Undecided if line.is_empty() => {}
            Self::Single(_) if !is_headline => {}
            _ => *self = Self::Unneeded,
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
