//! Finds the line of a log that is most probably its first error, for logs in which no failure is known.

use super::certainty::Certainty;
use super::error_line::{classify, search_terms};
use super::lines::LogLines;
use super::{EVIDENCE, NEAR_THE_END, clean, prefix, shorten};

/// Maximum number of lines that are examined as errors, and as sentences.
const TRIES: u32 = 2_000;
/// Number of lines after an error line that may belong to its message.
const MESSAGE: usize = 8;
/// Number of lines before and after the error that are shown.
const CONTEXT: (usize, usize) = (3, 5);

/// The line that is most probably the first error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGuess {
    /// Line number in the log, from 1.
    pub line: usize,
    /// The message, with the file that it names.
    pub text: String,
    /// Adjacent lines and their numbers, the line itself included.
    pub context: Vec<(usize, String)>,
    /// Words of the message that do not depend on the machine, for a search in issue trackers.
    pub search: String,
    /// Whether the message names a source file, as compilers do.
    pub is_located: bool,
    /// Whether the program prints the line as a warning or as information.
    pub is_doubtful: bool,
}

struct Candidate {
    certainty: Certainty,
    guess: LogGuess,
}

/// Collects the candidates while a log is read.
#[derive(Default)]
pub(super) struct GuessSearch {
    best: Option<Candidate>,
    errors: u32,
    sentences: u32,
}

impl GuessSearch {
    /// Examines a line that no signature matches and that has a word for error, or else words of a sentence about a failure.
    pub(super) fn line(&mut self, lines: &LogLines, at: usize, has_error: bool) {
        let known = self.best.as_ref().map(|best| best.certainty);
        let (tries, needed) = if has_error {
            (&mut self.errors, Certainty::Format)
        } else {
            (&mut self.sentences, Certainty::Sentence)
        };
        if known.is_some_and(|known| known <= needed) || *tries >= TRIES {
            return;
        }
        *tries += 1;
        let message = cleaned(lines, at..at + MESSAGE);
        let Some((certainty, text, is_located)) = classify(&message) else { return };
        if known.is_none_or(|known| certainty < known) {
            let text = shorten(&text, EVIDENCE);
            let search = search_terms(&text);
            let context = context(lines, at);
            let is_doubtful = matches!(certainty, Certainty::Warning | Certainty::Hint);
            let guess = LogGuess { line: lines.number(at), text, context, search, is_located, is_doubtful };
            self.best = Some(Candidate { certainty, guess });
        }
    }

    /// The guess. `success` is the line with which a tool reports success, and `last` the last line of the log.
    pub(super) fn result(self, has_failed: bool, success: Option<usize>, last: usize) -> Option<LogGuess> {
        let is_probable = |best: &Candidate| {
            let line = best.guess.line;
            match best.certainty {
                Certainty::Format => true,
                Certainty::Word | Certainty::Sentence | Certainty::Warning | Certainty::Echo => {
                    has_failed || success.is_none_or(|success| line > success)
                }
                Certainty::Hint => success.is_none() && line + NEAR_THE_END > last,
            }
        };
        Some(self.best.filter(is_probable)?.guess)
    }
}

/// The lines around an error that are not empty, with their numbers.
fn context(lines: &LogLines, at: usize) -> Vec<(usize, String)> {
    let start = at.saturating_sub(CONTEXT.0);
    let texts = cleaned(lines, start..at + CONTEXT.1 + 1);
    let texts = texts
        .iter()
        .enumerate()
        .map(|(place, line)| (lines.number(start + place), shorten(line.trim_end(), EVIDENCE)));
    texts.filter(|(_, line)| !line.trim().is_empty()).collect()
}

/// Cleaned lines.
fn cleaned(lines: &LogLines, range: std::ops::Range<usize>) -> Vec<String> {
    let range = range.start..range.end.min(lines.len());
    range
        .map(|at| {
            let plain = clean::plain(lines.line(at));
            String::from_utf8_lossy(prefix::without_stamps(&plain)).into_owned()
        })
        .collect()
}
