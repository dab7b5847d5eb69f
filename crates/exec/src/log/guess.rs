//! Finds the line of a log that is most probably its first error, and what the errors mean, for logs in which no failure is known.

use super::error_line::{Certainty, classify, is_aside, search_terms};
use super::lines::LogLines;
use super::phrases::PhraseMeaning;
use super::{AT_THE_END, EVIDENCE, LogCause, Signatures, clean, outcome, prefix, shorten};

/// Maximum number of lines that are examined as errors.
const TRIES: u32 = 2_000;
/// Number of lines after an error line that may belong to its message.
const MESSAGE: usize = 8;
/// Number of lines at the end of a log that are interpreted even if they do not have the format of an error.
const LAST: usize = 24;
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
}

struct Candidate {
    certainty: Certainty,
    guess: LogGuess,
}

/// An error whose words have a meaning.
struct Interpreted {
    certainty: Certainty,
    line: usize,
    text: String,
    meaning: PhraseMeaning,
}

/// Collects the candidates while a log is read.
#[derive(Default)]
pub(super) struct GuessSearch {
    best: Option<Candidate>,
    interpreted: Option<Interpreted>,
    tries: u32,
}

impl GuessSearch {
    /// Examines a line with a word for error that no signature matches.
    pub(super) fn line(&mut self, all: &Signatures, lines: &LogLines, at: usize) {
        if self.is_final() || self.tries >= TRIES {
            return;
        }
        self.tries += 1;
        let message = cleaned(lines, at..at + MESSAGE);
        let Some((certainty, text, is_located)) = classify(&message) else { return };
        self.interpret(all, lines.number(at), certainty, &text, &message);
        if self.best.as_ref().is_none_or(|best| certainty < best.certainty) {
            let text = shorten(&text, EVIDENCE);
            let search = search_terms(&text);
            let context = context(lines, at);
            let guess = LogGuess { line: lines.number(at), text, context, search, is_located };
            self.best = Some(Candidate { certainty, guess });
        }
    }

    /// Whether no later line can be a better guess, and none can be interpreted: a line of the sources that does not compile is the
    /// cause of what follows.
    fn is_final(&self) -> bool {
        let best = self.best.as_ref().filter(|best| best.certainty == Certainty::Format);
        best.is_some_and(|best| best.guess.is_located || self.interpreted.is_some())
    }

    fn interpret(
        &mut self,
        all: &Signatures,
        line: usize,
        certainty: Certainty,
        text: &str,
        message: &[String],
    ) {
        let is_better = self.interpreted.as_ref().is_none_or(|known| certainty < known.certainty);
        // CMake prints what is optional with two dashes.
        let is_status = message.first().is_some_and(|line| line.trim_start().starts_with("-- "));
        if certainty == Certainty::Echo || !is_better || is_status {
            return;
        }
        let meaning = |text: &str| all.phrases.meaning(text, &all.names);
        let next = message.get(1).map(|next| format!("{text} {next}"));
        let found = meaning(text).or_else(|| meaning(&next?));
        if let Some(meaning) = found {
            let text = shorten(text, EVIDENCE);
            self.interpreted = Some(Interpreted { certainty, line, text, meaning });
        }
    }

    /// Interprets the last lines of a log, which need not have the format of an error, and returns what the errors mean. `lines`
    /// has at least the end of the log.
    pub(super) fn meaning(
        &mut self,
        all: &Signatures,
        lines: &LogLines,
        has_failed: bool,
    ) -> Option<LogCause> {
        let last = lines.number(lines.len()) - 1;
        if outcome::success(lines.bytes(), last).is_some() {
            return None;
        }
        let is_end = |line: usize| line + LAST > last;
        self.interpreted
            .take_if(|known| !has_failed && known.certainty == Certainty::Word && !is_end(known.line));
        if self.interpreted.is_none() && !self.is_final() {
            self.interpreted = interpret_end(all, lines);
        }
        self.interpreted.take().map(|known| known.cause(all))
    }

    /// The guess. A line that only repeats a failure counts only if a tool reports that a command failed, or at the end of the log.
    pub(super) fn result(self, has_failed: bool, last: usize) -> Option<LogGuess> {
        let is_certain = |best: &Candidate| {
            let is_end = best.guess.line + AT_THE_END > last;
            has_failed || best.certainty == Certainty::Format || (best.certainty == Certainty::Word && is_end)
        };
        Some(self.best.filter(is_certain)?.guess)
    }
}

impl Interpreted {
    fn cause(self, all: &Signatures) -> LogCause {
        let PhraseMeaning { id, values, backend, name, .. } = self.meaning;
        let row = name.map(|row| &all.names.rows[row]);
        let of_row = row.map(|row| &row.commands).filter(|commands| !commands.is_empty());
        let commands = of_row.or_else(|| all.commands.get(id.as_str()));
        LogCause {
            id,
            values,
            line: self.line,
            text: self.text,
            summary: None,
            fix: None,
            commands: commands.cloned().unwrap_or_default(),
            backend,
            count: 1,
            last: self.line,
            is_weak: false,
            is_late: false,
        }
    }
}

/// Interprets the last lines of a log, except warnings and the output of checks.
fn interpret_end(all: &Signatures, lines: &LogLines) -> Option<Interpreted> {
    let mut ignored = outcome::IgnoredOutput::default();
    let found = (lines.len().saturating_sub(LAST)..lines.len()).filter_map(|at| {
        let text = cleaned(lines, at..at + 1).pop()?;
        if ignored.covers(text.as_bytes()) || outcome::is_failed_check(text.as_bytes()) {
            return None;
        }
        let text = String::from_utf8_lossy(prefix::unprefixed(text.as_bytes())).into_owned();
        let meaning = all.phrases.meaning(&text, &all.names).filter(|_| !is_aside(&text))?;
        // Only an error says by its format that a name in it is missing.
        if meaning.name.is_some() {
            return None;
        }
        let text = shorten(&text, EVIDENCE);
        Some(Interpreted { certainty: Certainty::Echo, line: lines.number(at), text, meaning })
    });
    // What only says that something failed is often a consequence.
    found.min_by_key(|found| found.meaning.is_vague)
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
