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
        let mut search = Search::new(self.list.len());
        let mut votes = PlatformVotes::new(self.cues.len());
        let mut guess = GuessSearch::default();
        let (mut start, mut number) = (0, 0);
        let mut hits = BTreeSet::new();
        let mut ignored = IgnoredOutput::default();
        while start < log.len() {
            let end = memchr(b'\n', &log[start..]).map_or(log.len(), |length| start + length);
            number += 1;
            let line = clean::plain(&log[start..end]);
            hits.clear();
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
        let is_doubtful = |one: &Found| self.list[one.signature].signature.doubtful;
        if found.iter().any(is_doubtful) && !has_failed(log) {
            let last = number.saturating_sub(AT_THE_END);
            found.retain(|one| !is_doubtful(one) || one.cause.line > last);
        }
        let causes = self.rank(found);
        let guess = guess.result(log, || has_failed(log)).filter(|guess| is_needed(guess, &causes));
        LogReading { causes, lines: number, guess, platform: votes.result(&self.cues) }
    }

    /// Sorts the failures by line and keeps the first of each id. Weak signatures, which only report that something failed,
    /// are used only if no other matches. The end of a resource precedes all others: the compilers of a parallel build report
    /// its consequences in any order.
    fn rank(&self, mut found: Vec<Found>) -> Vec<LogCause> {
        let is_resource = |one: &Found| RESOURCES.contains(&one.cause.id.as_str());
        let is_doubtful = |one: &Found| self.list[one.signature].signature.doubtful;
        // A doubtful match far before a certain one is probably the output of an attempt with a fallback.
        let certain = found.iter().filter(|one| !is_doubtful(one)).map(|one| one.cause.line).min();
        let place = |one: &Found| match certain {
            Some(certain) if is_doubtful(one) && one.cause.line + FAR < certain => (certain, true),
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
}

/// The state of a search: the number of tries per signature, and the failures found so far.
struct Search {
    tries: Vec<u32>,
    found: Vec<Found>,
    /// For signatures with `after`: the offset up to which the log was searched for that text, and whether it was found.
    before: Vec<(usize, bool)>,
}

impl Search {
    fn new(signatures: usize) -> Self {
        Self { tries: vec![0; signatures], found: Vec::new(), before: vec![(0, false); signatures] }
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
                    known.count(number);
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
                known.count(number);
            }
            return is_match;
        }
        let Some((row, cause)) = one.matches(&all.names, window) else { return false };
        match self.found.iter_mut().find(|known| known.signature == at && known.row == row) {
            Some(known) => known.count(number),
            None => self.found.push(Found { signature: at, row, cause }),
        }
        true
    }
}

impl Found {
    fn count(&mut self, line: usize) {
        self.cause.count += 1;
        self.cause.last = line;
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

/// Detects output that is not a failure: `CMake Warning …` with the indented text below it, and what compilers print in checks
/// of CMake that may fail.
#[derive(Default)]
struct IgnoredOutput {
    /// Indentation of the headline while inside a warning.
    indent: Option<usize>,
    /// Whether the output of a failed check follows.
    is_check: bool,
}

impl IgnoredOutput {
    fn covers(&mut self, line: &[u8]) -> bool {
        let line = clean::without_stamps(line);
        let text = line.trim_ascii_start();
        let indent = line.len() - text.len();
        if text.starts_with(b"CMake Warning") || text.starts_with(b"CMake Deprecation Warning") {
            self.indent = Some(indent);
        } else if !text.is_empty() && self.indent.is_some_and(|headline| indent <= headline) {
            self.indent = None;
        }
        let is_headline = text.starts_with(b"Determining if ") || text.starts_with(b"Performing C");
        if is_headline {
            self.is_check = memchr::memmem::find(text, b"failed with the following output").is_some();
        } else if self.is_check {
            let ends: [&[u8]; 4] = [b"Source file was:", b"-- ", b"CMake Error", b"Checking whether "];
            self.is_check = !ends.iter().any(|end| text.starts_with(end));
        }
        self.indent.is_some() || self.is_check
    }
}

/// Whether a tool reports that a complete command failed.
fn has_failed(log: &[u8]) -> bool {
    const WORDS: [&str; 24] = [
        "terminate called after",
        "(core dumped)",
        "RuntimeError: ",
        "Traceback (most recent call last)",
        "panicked at ",
        "returned non-zero exit status",
        "CMake Error",
        "errors occurred!",
        "build stopped: ",
        ": *** ",
        "FAILED: ",
        "Build FAILED",
        "BUILD FAILED",
        "error: could not compile",
        "error: failed to run custom build command",
        "error: command ",
        "error: subprocess-exited-with-error",
        "ERROR: Failed building wheel",
        "Failed to build",
        "exited with code 1",
        "exit code: 1",
        "did not complete successfully",
        "returned a non-zero code",
        "compilation terminated.",
    ];
    WORDS.iter().any(|word| memchr::memmem::find(log, word.as_bytes()).is_some())
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
