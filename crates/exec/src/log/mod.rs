//! Recognises known failures in the output of CMake, compilers, linkers, cargo and pip.
//!
//! Pure: takes bytes and returns causes. The known failures are in `findings/logs/*.toml`. Each is a pattern for one cleaned
//! line, or for a few joined lines, with a sample of real output. A log is read once, and only lines that contain a literal
//! of a pattern are matched against it, so the time depends on the size of the log and not on the number of patterns.

mod clean;
mod findings;
mod guess;
mod index;
mod literal;
mod names;
mod outcome;
mod platform;
mod signature;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use memchr::memchr;

pub use findings::{UNRECOGNISED, to_findings};
use guess::GuessSearch;
pub use guess::LogGuess;
use index::SignatureIndex;
pub use names::NameKind;
use names::NameTable;
use outcome::{IgnoredOutput, has_failed};
pub use platform::LogPlatform;
use platform::PlatformVotes;
use signature::{CompiledSignature, EmbeddedSignatures, KnownSystem, PlatformCue};
pub use signature::{Signature, UnlistedNames};

/// Maximum number of bytes of a line that are matched against patterns. Command lines may be longer, but messages are not.
const LONGEST: usize = 16 * 1024;
/// Maximum number of lines on which a pattern is tried. If none of them matches, its literal has another meaning in this log.
const TRIES: u32 = 10_000;
/// Number of lines at the end of a log in which a doubtful failure counts even if no tool reports a failure.
const AT_THE_END: usize = 6;
/// Maximum number of lines, with empty ones, between the first and the last line that a pattern may span on each side.
const REACH: usize = 24;
/// Minimum length of a line that a terminal or a formatter may have broken, in bytes.
const BROKEN: usize = 60;
/// Text of lines that are messages of their own and do not continue a broken line.
const MESSAGES: [&str; 8] =
    ["error:", "error :", "fatal ", "error C", "error LNK", "warning", "note:", "make"];
/// Number of lines between a doubtful failure and a certain one from which on they are probably unrelated.
const FAR: usize = 20;
/// The findings about the end of a resource. They precede all other failures of a log.
const RESOURCES: [&str; 2] = ["build.out-of-memory", "disk.full"];
/// Maximum length of a line that is kept as evidence, in characters.
const EVIDENCE: usize = 240;
/// Maximum length of a captured value, in characters.
const VALUE: usize = 160;

/// The known failures.
pub struct Signatures {
    list: Vec<CompiledSignature>,
    cues: Vec<PlatformCue>,
    systems: Vec<KnownSystem>,
    names: NameTable,
    /// Row and text of each cue. In the index their numbers follow those of the signatures.
    cue_texts: Vec<(usize, usize)>,
    index: SignatureIndex,
}

/// The failures that were recognised in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Recognised failures, root cause first; at most one per id.
    pub causes: Vec<LogCause>,
    /// Number of lines of the log.
    pub lines: usize,
    /// The line that is most probably the first error: if no failure was recognised, or if it precedes those that may be its
    /// consequences, or beside a failure that only reports that something failed.
    pub guess: Option<LogGuess>,
    /// The machine on which the log was written.
    pub platform: LogPlatform,
}

/// A recognised failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCause {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// The pattern's named captures.
    pub values: BTreeMap<String, String>,
    /// Line number in the log, from 1.
    pub line: usize,
    /// The cleaned and shortened line.
    pub text: String,
    /// The signature's summary with its placeholders filled, if it has one.
    pub summary: Option<String>,
    /// The signature's remedy with its placeholders filled, if it has one.
    pub fix: Option<String>,
    /// The signature's commands.
    pub commands: BTreeMap<String, Vec<String>>,
    /// The backend, if the signature determines it and the finding does not.
    pub backend: Option<Backend>,
    /// Number of lines that report it.
    pub count: usize,
    /// The last of these lines.
    pub last: usize,
    /// Whether it only reports that something failed.
    pub is_weak: bool,
    /// Whether an earlier unrecognised error is the more probable cause.
    pub is_late: bool,
}

impl Signatures {
    /// The embedded signatures.
    ///
    /// # Panics
    /// An embedded file is invalid, which a test rules out.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Signatures> = OnceLock::new();
        EMBEDDED.get_or_init(|| Self::new(signature::embedded()))
    }

    fn new(all: EmbeddedSignatures) -> Self {
        let EmbeddedSignatures { signatures, cues, systems, names } = all;
        let list: Vec<CompiledSignature> = signatures.into_iter().map(CompiledSignature::new).collect();
        let rows = cues.iter().enumerate();
        let cue_texts: Vec<(usize, usize)> =
            rows.flat_map(|(row, cue)| (0..cue.cues.len()).map(move |text| (row, text))).collect();
        let literals = list
            .iter()
            .enumerate()
            .flat_map(|(at, one)| one.literals.iter().map(move |literal| (literal.as_bytes(), at)));
        let texts = cue_texts
            .iter()
            .enumerate()
            .map(|(at, (row, text))| (cues[*row].cues[*text].as_bytes(), list.len() + at));
        let index = SignatureIndex::new(literals.chain(texts));
        Self { list, cues, systems, names: NameTable::new(names), cue_texts, index }
    }

    /// All signatures in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.list.iter().map(|one| &one.signature)
    }

    /// Finds the known failures in a log. Invalid UTF-8 is accepted.
    #[must_use]
    pub fn read(&self, log: &[u8]) -> LogReading {
        let reading = self.read_lines(log, IgnoredOutput::default());
        // Checks of CMake may fail, but a log that consists of one failed check is not about anything else.
        let is_silent = reading.causes.is_empty() && reading.guess.is_none();
        if is_silent && outcome::is_single_check(log) {
            return self.read_lines(log, IgnoredOutput::with_checks());
        }
        reading
    }

    fn read_lines(&self, log: &[u8], mut ignored: IgnoredOutput) -> LogReading {
        let mut search = Search::new(self.list.len());
        let mut votes = PlatformVotes::new(self.cues.len());
        let mut guess = GuessSearch::default();
        let (mut start, mut number) = (0, 0);
        let mut hits = BTreeSet::new();
        while start < log.len() {
            let end = memchr(b'\n', &log[start..]).map_or(log.len(), |length| start + length);
            number += 1;
            let line = clean::plain(&log[start..end]);
            hits.clear();
            votes.add_path(&line, number);
            self.index.scan(&line, &mut hits);
            let cues = hits.split_off(&self.list.len());
            for cue in cues {
                let (row, text) = self.cue_texts[cue - self.list.len()];
                votes.add(row, text, number);
            }
            if !ignored.covers(&line) && !search.line(self, &hits, log, start..end, number) {
                guess.line(log, start, &line, number);
            }
            start = end + 1;
        }
        let mut found = search.found;
        self.drop_harmless(log, number, &mut found);
        let causes = self.rank(found);
        let guess = guess.result(log, || has_failed(log)).filter(|guess| is_needed(guess, &causes));
        LogReading { causes, lines: number, guess, platform: votes.result(&self.cues) }
    }

    /// Drops what a successful build prints as well: doubtful failures that no tool reports as one, and everything before the line
    /// with which a build tool reports success. `lines` is the number of lines.
    fn drop_harmless(&self, log: &[u8], lines: usize, found: &mut Vec<Found>) {
        let is_doubtful = |one: &Found| one.is_status || self.list[one.signature].signature.doubtful;
        if found.is_empty() || has_failed(log) {
            return;
        }
        let end = lines.saturating_sub(AT_THE_END);
        found.retain(|one| {
            let is_last = if one.is_status { one.cause.last >= lines } else { one.cause.line > end };
            !is_doubtful(one) || is_last
        });
        if let Some(success) = outcome::success(log, lines) {
            found.retain(|one| one.cause.last > success);
        }
    }

    /// Sorts the failures by line and keeps the first of each id. Weak signatures, which only report that something failed,
    /// are used only if no other matches. The end of a resource precedes all others: the compilers of a parallel build report
    /// its consequences in any order.
    fn rank(&self, mut found: Vec<Found>) -> Vec<LogCause> {
        let is_resource = |one: &Found| RESOURCES.contains(&one.cause.id.as_str());
        let is_doubtful = |one: &Found| one.is_status || self.list[one.signature].signature.doubtful;
        // A doubtful match far before a certain one is probably the output of an attempt with a fallback.
        let certain = found.iter().filter(|one| !is_doubtful(one)).map(|one| one.cause.line).min();
        let place = |one: &Found| match certain {
            Some(certain) if one.is_status || (is_doubtful(one) && one.cause.line + FAR < certain) => {
                (certain.max(one.cause.line), true)
            }
            _ => (one.cause.line, false),
        };
        found.sort_by_key(|one| (!is_resource(one), place(one), one.signature));
        let is_weak = |one: &Found| self.list[one.signature].signature.weak;
        if found.iter().any(|one| !is_weak(one)) {
            found.retain(|one| !is_weak(one));
        } else {
            found.truncate(1);
        }
        let mut seen = BTreeSet::new();
        found.into_iter().map(|one| one.cause).filter(|cause| seen.insert(cause.id)).collect()
    }
}

/// Whether the most probable first error adds something to the recognised failures.
fn is_needed(guess: &LogGuess, causes: &[LogCause]) -> bool {
    causes
        .first()
        .is_none_or(|first| first.is_weak || (first.is_late && guess.is_located && guess.line < first.line))
}

/// A recognised failure with the index of its signature and the row of its name.
struct Found {
    signature: usize,
    row: Option<usize>,
    cause: LogCause,
    /// Whether all its lines report the result of a check and no error.
    is_status: bool,
}

/// The state of a search: the number of tries per signature, and the failures found so far.
struct Search {
    tries: Vec<u32>,
    found: Vec<Found>,
    /// Whether the current line reports the result of a check, as CMake's graphical interface prints it: without dashes.
    is_status: bool,
    /// For signatures with `after`: the offset up to which the log was searched for that text, and whether it was found.
    before: Vec<(usize, bool)>,
}

impl Search {
    fn new(signatures: usize) -> Self {
        let before = vec![(0, false); signatures];
        Self { tries: vec![0; signatures], found: Vec::new(), is_status: false, before }
    }

    /// Whether the text that must precede the match occurs before an offset. The log is searched once per signature.
    fn follows(&mut self, at: usize, text: &str, log: &[u8], end: usize) -> bool {
        let (searched, found) = &mut self.before[at];
        if !*found && end > *searched {
            let from = searched.saturating_sub(text.len());
            *found = memchr::memmem::find(&log[from..end], text.as_bytes()).is_some();
            *searched = end;
        }
        *found
    }

    /// Tries the signatures in `hits` on a line. A line has at most one failure: the first match, even if it was found before.
    /// If none matches and the line may be broken by a terminal, the line is tried once more together with the next one.
    /// Returns whether a signature matches.
    fn line(
        &mut self,
        all: &Signatures,
        hits: &BTreeSet<usize>,
        log: &[u8],
        range: std::ops::Range<usize>,
        number: usize,
    ) -> bool {
        if hits.is_empty() {
            return false;
        }
        let mut is_refused = false;
        self.is_status = outcome::is_check_result(log, range.clone());
        // CMake prints what it found, and what it does without, as status lines.
        let is_status = clean::without_stamps(&log[range.clone()]).trim_ascii_start().starts_with(b"-- ");
        for &at in hits {
            let one = &all.list[at];
            if is_status && !one.signature.doubtful {
                continue;
            }
            if let Some(after) = &one.signature.after
                && !self.follows(at, after, log, range.start)
            {
                continue;
            }
            self.tries[at] += 1;
            if self.tries[at] > TRIES {
                // A signature that matched before is assumed to match again.
                if let Some(known) = self.found.iter_mut().find(|known| known.signature == at) {
                    known.count(number, self.is_status);
                    return true;
                }
                continue;
            }
            let window = LogWindow::around(log, range.clone(), number, one.signature.lines);
            if self.matches(all, at, &window, number) {
                return true;
            }
            is_refused |= one.signature.lines == 1;
        }
        is_refused && self.broken_line(all, log, range, number)
    }

    /// Tries the signatures on a line that is joined with the next one. Literals may be broken too.
    fn broken_line(
        &mut self,
        all: &Signatures,
        log: &[u8],
        range: std::ops::Range<usize>,
        number: usize,
    ) -> bool {
        let mut hits = BTreeSet::new();
        LogWindow::broken(log, range, number).iter().any(|window| {
            hits.clear();
            all.index.scan(window.text.as_bytes(), &mut hits);
            let fit = |at: &usize| {
                all.list.get(*at).is_some_and(|one| one.signature.lines == 1 && one.signature.after.is_none())
            };
            hits.iter().filter(|at| fit(at)).any(|&at| self.matches(all, at, window, number))
        })
    }

    /// Tries one signature on a window, and counts or adds the failure.
    fn matches(&mut self, all: &Signatures, at: usize, window: &LogWindow, number: usize) -> bool {
        let one = &all.list[at];
        let has_names = one.signature.names.is_some();
        if !has_names && let Some(known) = self.found.iter_mut().find(|known| known.signature == at) {
            let is_match = one.regex().is_match(&window.text);
            if is_match {
                known.count(number, self.is_status);
            }
            return is_match;
        }
        let Some((row, cause)) = one.matches(&all.names, window) else { return false };
        match self.found.iter_mut().find(|known| known.signature == at && known.row == row) {
            Some(known) => known.count(number, self.is_status),
            None => self.found.push(Found { signature: at, row, cause, is_status: self.is_status }),
        }
        true
    }
}

impl Found {
    /// Counts one more line. An error replaces the result of a check.
    fn count(&mut self, line: usize, is_status: bool) {
        self.cause.count += 1;
        self.cause.last = line;
        if self.is_status && !is_status {
            self.cause.line = line;
            self.is_status = false;
        }
    }
}

impl CompiledSignature {
    /// Matches the lines of a window. Returns the row of the captured name and the failure.
    fn matches(&self, names: &NameTable, window: &LogWindow) -> Option<(Option<usize>, LogCause)> {
        let signature = &self.signature;
        let captures = self.regex().captures(&window.text)?;
        let groups = self.regex().capture_names().flatten();
        let mut values: BTreeMap<String, String> = groups
            .filter_map(|name| Some((name.to_owned(), shorten(captures.name(name)?.as_str().trim(), VALUE))))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let row = signature
            .names
            .and_then(|kind| names.find(kind, &format!("{}{}", signature.prefix, values.get("name")?)));
        if signature.unlisted == UnlistedNames::Ignored && row.is_none() {
            return None;
        }
        let of_row = row.map(|row| &names.rows[row]);
        if let Some(component) = of_row.and_then(|row| row.component.as_ref()) {
            values.insert("component".to_owned(), component.clone());
        }
        let (line, text) = window.line_at(captures.get(0).map_or(0, |whole| whole.start()));
        let own_id = of_row.zip(signature.names).and_then(|(row, kind)| row.id(kind));
        let is_same = own_id.is_none_or(|id| id == signature.id);
        // Texts of the signature are for its own id only.
        let filled = |of_row: Option<&String>, of_component: &Option<String>, own: &Option<String>| {
            let known = of_component.as_ref().filter(|_| is_same && values.contains_key("component"));
            let template = of_row.or(known).or(own.as_ref().filter(|_| is_same))?;
            signature::fill(template, &values)
        };
        let summary = of_row.and_then(|row| row.summary.as_ref());
        let summary = filled(summary, &signature.component_summary, &signature.summary);
        let fix = of_row.and_then(|row| row.fix.as_ref());
        let fix = filled(fix, &signature.component_fix, &signature.fix);
        let commands = of_row.map(|row| &row.commands).filter(|commands| !commands.is_empty() || !is_same);
        let cause = LogCause {
            id: own_id.unwrap_or(signature.id),
            line,
            text: shorten(text, EVIDENCE),
            summary,
            fix,
            commands: commands.unwrap_or(&signature.commands).clone(),
            backend: signature.backend,
            count: 1,
            last: line,
            is_weak: signature.weak,
            is_late: signature.late && row.is_none(),
            values,
        };
        Some((row, cause))
    }
}

/// Cleaned lines, joined by spaces.
struct LogWindow {
    text: String,
    /// Offset in `text` and line number of each line.
    starts: Vec<(usize, usize)>,
}

impl LogWindow {
    /// Joins a line with up to `lines - 1` lines that are not empty on each side, because the literal may be in any line of
    /// the match.
    fn around(log: &[u8], line: std::ops::Range<usize>, number: usize, lines: usize) -> Self {
        let mut parts = vec![(number, line.clone())];
        let (mut first, mut at) = (line.start, number);
        while parts.len() < lines && first > 0 && number - at < REACH {
            let end = first - 1;
            let start = memchr::memrchr(b'\n', &log[..end]).map_or(0, |found| found + 1);
            at -= 1;
            if is_not_empty(&log[start..end]) {
                parts.insert(0, (at, start..end));
            }
            first = start;
        }
        let (mut next, mut at, before) = (line.end + 1, number, parts.len());
        while parts.len() - before + 1 < lines && next < log.len() && at - number < REACH {
            let end = memchr(b'\n', &log[next..]).map_or(log.len(), |length| next + length);
            at += 1;
            if is_not_empty(&log[next..end]) {
                parts.push((at, next..end));
            }
            next = end + 1;
        }
        let mut window = Self { text: String::new(), starts: Vec::new() };
        for (number, range) in parts {
            window.push(number, &log[range], " ");
        }
        window
    }

    /// A line that a terminal or a formatter may have broken, joined with the next one: directly, and with a space.
    fn broken(log: &[u8], line: std::ops::Range<usize>, number: usize) -> Vec<Self> {
        let next = line.end + 1;
        if line.len() < BROKEN || next >= log.len() {
            return Vec::new();
        }
        let end = memchr(b'\n', &log[next..]).map_or(log.len(), |length| next + length);
        let text = clean::plain(&log[next..end]);
        let text = clean::unprefixed(&text);
        let is_message = MESSAGES.iter().any(|word| memchr::memmem::find(text, word.as_bytes()).is_some());
        if text.is_empty() || is_message {
            return Vec::new();
        }
        let joined = |separator: &str| {
            let mut window = Self { text: String::new(), starts: Vec::new() };
            window.push(number, &log[line.clone()], "");
            window.push(number + 1, &log[next..end], separator);
            window
        };
        vec![joined(""), joined(" ")]
    }

    fn push(&mut self, number: usize, raw: &[u8], separator: &str) {
        if !self.text.is_empty() {
            self.text.push_str(separator);
        }
        self.starts.push((self.text.len(), number));
        let plain = clean::plain(raw);
        let bytes = clean::unprefixed(&plain);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]));
    }

    /// The number and text of the line at an offset of the joined text.
    fn line_at(&self, offset: usize) -> (usize, &str) {
        let at = self.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, number) = self.starts[at];
        let end = self.starts.get(at + 1).map_or(self.text.len(), |(next, _)| *next);
        (number, self.text[start..end].trim_end())
    }
}

fn is_not_empty(line: &[u8]) -> bool {
    !clean::unprefixed(&clean::plain(line)).is_empty()
}

/// Replaces control characters and limits the text to a number of characters.
fn shorten(text: &str, limit: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(limit).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
