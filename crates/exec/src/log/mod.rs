//! Build logs: which known failures the output of CMake, compilers, linkers, cargo and pip shows.
//!
//! Pure: bytes in, causes out. The failures that are known stand in `findings/logs/*.toml`; each is a pattern for one
//! cleaned line (or a few, joined) with the real output that it was written for. A log is read once from its first line to
//! its last; only lines that hold a literal of a pattern are matched against it, so that time grows with the size of the
//! log and not with the number of patterns.

mod clean;
mod index;
mod literal;
mod signature;
mod tell;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use memchr::memchr;

use crate::diagnose::first_recognised;
use index::SignatureIndex;
use signature::CompiledSignature;
pub use signature::Signature;
pub use tell::{UNRECOGNISED, tell};

/// Bytes of a line, or of a few joined, that are matched against a pattern; command lines are longer, messages are not.
const LONGEST: usize = 16 * 1024;
/// How many lines a pattern is tried on. Where it has not matched by then, its text means something else in this log.
const TRIES: u32 = 10_000;
/// Lines at the end of a log in which a doubtful failure counts.
const AT_THE_END: usize = 6;
/// Characters of a line that are kept as evidence.
const EVIDENCE: usize = 240;
/// Characters of a captured value that are kept.
const VALUE: usize = 160;

/// The failures that are known.
pub struct Signatures {
    list: Vec<CompiledSignature>,
    index: SignatureIndex,
}

/// What a log shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Recognised failures, the root cause first; at most one per id.
    pub causes: Vec<LogCause>,
    /// How many lines there are.
    pub lines: usize,
    /// Without a recognised failure: the first thing that looks like an error.
    pub first_error: Option<String>,
}

/// A failure that was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCause {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// What the pattern captured.
    pub values: BTreeMap<String, String>,
    /// Line of the log, from 1.
    pub line: usize,
    /// The line, cleaned and shortened.
    pub text: String,
    /// The signature's own line, filled.
    pub summary: Option<String>,
    /// The signature's own remedy, filled.
    pub fix: Option<String>,
    /// The backend, where the signature knows it and the finding does not.
    pub backend: Option<Backend>,
}

impl Signatures {
    /// The embedded ones.
    ///
    /// # Panics
    /// If an embedded file is broken, which a test rules out.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Signatures> = OnceLock::new();
        EMBEDDED.get_or_init(|| Self::new(signature::embedded()))
    }

    fn new(list: Vec<Signature>) -> Self {
        let list: Vec<CompiledSignature> = list.into_iter().map(CompiledSignature::new).collect();
        let literals = list
            .iter()
            .enumerate()
            .flat_map(|(at, one)| one.literals.iter().map(move |literal| (literal.as_bytes(), at)));
        let index = SignatureIndex::new(literals);
        Self { list, index }
    }

    /// All of them, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.list.iter().map(|one| &one.signature)
    }

    /// Reads a log. Bytes that are no UTF-8 are no obstacle.
    #[must_use]
    pub fn read(&self, log: &[u8]) -> LogReading {
        let mut search = Search { tries: vec![0; self.list.len()], found: Vec::new() };
        let (mut start, mut number) = (0, 0);
        let mut hits = BTreeSet::new();
        let mut warning = Warning::default();
        while start < log.len() {
            let end = memchr(b'\n', &log[start..]).map_or(log.len(), |length| start + length);
            number += 1;
            let line = clean::plain(&log[start..end]);
            if !warning.covers(&line) {
                hits.clear();
                self.index.scan(&line, &mut hits);
                search.line(&self.list, &hits, log, start..end, number);
            }
            start = end + 1;
        }
        let mut found = search.found;
        if found.iter().any(|(at, _)| self.list[*at].signature.doubtful) && !has_failed(log) {
            let last = number.saturating_sub(AT_THE_END);
            found.retain(|(at, cause)| !self.list[*at].signature.doubtful || cause.line > last);
        }
        let causes = self.rank(found);
        let first_error = if causes.is_empty() { first_error(log) } else { None };
        LogReading { causes, lines: number, first_error }
    }

    /// The first failure of its kind is told; what says only that something failed counts where nothing else is found.
    fn rank(&self, mut found: Vec<(usize, LogCause)>) -> Vec<LogCause> {
        found.sort_by_key(|(at, cause)| (cause.line, *at));
        let is_weak = |at: usize| self.list[at].signature.weak;
        if found.iter().any(|(at, _)| !is_weak(*at)) {
            found.retain(|(at, _)| !is_weak(*at));
        } else {
            found.truncate(1);
        }
        let mut seen = BTreeSet::new();
        found.into_iter().map(|(_, cause)| cause).filter(|cause| seen.insert(cause.id)).collect()
    }
}

/// What was found so far, by signature.
struct Search {
    tries: Vec<u32>,
    found: Vec<(usize, LogCause)>,
}

impl Search {
    /// Tries the signatures that a line may fit. A line shows one failure: the first that fits, told already or not.
    fn line(
        &mut self,
        list: &[CompiledSignature],
        hits: &BTreeSet<usize>,
        log: &[u8],
        range: std::ops::Range<usize>,
        number: usize,
    ) {
        for &at in hits {
            let is_known = self.found.iter().any(|(known, _)| *known == at);
            self.tries[at] += 1;
            if self.tries[at] > TRIES {
                // One that fitted before will fit again.
                if is_known {
                    return;
                }
                continue;
            }
            if let Some(cause) = list[at].matches(log, range.clone(), number) {
                if !is_known {
                    self.found.push((at, cause));
                }
                return;
            }
        }
    }
}

impl CompiledSignature {
    /// Matches the line at `range`, with its neighbours where the pattern spans several.
    fn matches(&self, log: &[u8], range: std::ops::Range<usize>, number: usize) -> Option<LogCause> {
        let signature = &self.signature;
        let window = LogWindow::around(log, range, number, signature.lines);
        let captures = self.regex().captures(&window.text)?;
        if let Some(before) = &signature.after
            && memchr::memmem::find(&log[..window.start], before.as_bytes()).is_none()
        {
            return None;
        }
        let names = self.regex().capture_names().flatten();
        let values: BTreeMap<String, String> = names
            .filter_map(|name| Some((name.to_owned(), shorten(captures.name(name)?.as_str().trim(), VALUE))))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let (line, text) = window.line_at(captures.get(0).map_or(0, |whole| whole.start()));
        Some(LogCause {
            id: signature.id,
            line,
            text: shorten(text, EVIDENCE),
            summary: signature.summary.as_ref().and_then(|template| signature::fill(template, &values)),
            fix: signature.fix.as_ref().and_then(|template| signature::fill(template, &values)),
            backend: signature.backend,
            values,
        })
    }
}

/// Cleaned lines, joined by a space, with the place where each begins.
struct LogWindow {
    text: String,
    starts: Vec<(usize, usize)>,
    /// Where it begins in the log.
    start: usize,
}

impl LogWindow {
    /// A line and, of a pattern over several, its neighbours on both sides: the literal may stand in any of them.
    fn around(log: &[u8], line: std::ops::Range<usize>, number: usize, lines: usize) -> Self {
        let mut parts = vec![(number, line.clone())];
        let (mut first, mut at) = (line.start, number);
        while parts.len() < lines && first > 0 {
            let end = first - 1;
            let start = memchr::memrchr(b'\n', &log[..end]).map_or(0, |found| found + 1);
            at -= 1;
            if says_something(&log[start..end]) {
                parts.insert(0, (at, start..end));
            }
            first = start;
        }
        let (mut next, mut at, before) = (line.end + 1, number, parts.len());
        while parts.len() - before + 1 < lines && next < log.len() {
            let end = memchr(b'\n', &log[next..]).map_or(log.len(), |length| next + length);
            at += 1;
            if says_something(&log[next..end]) {
                parts.push((at, next..end));
            }
            next = end + 1;
        }
        let start = parts[0].1.start;
        let mut window = Self { text: String::new(), starts: Vec::new(), start };
        for (number, range) in parts {
            window.push(number, &log[range]);
        }
        window
    }

    fn push(&mut self, number: usize, raw: &[u8]) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), number));
        let plain = clean::plain(raw);
        let bytes = clean::unprefixed(&plain);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]));
    }

    /// The line that holds a byte of the text.
    fn line_at(&self, offset: usize) -> (usize, &str) {
        let at = self.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, number) = self.starts[at];
        let end = self.starts.get(at + 1).map_or(self.text.len(), |(next, _)| next - 1);
        (number, &self.text[start..end])
    }
}

fn says_something(line: &[u8]) -> bool {
    !clean::unprefixed(&clean::plain(line)).is_empty()
}

/// What CMake warns of is no failure: `CMake Warning …` and the indented text below it.
#[derive(Default)]
struct Warning {
    /// Indentation of the headline, inside of a warning.
    indent: Option<usize>,
}

impl Warning {
    fn covers(&mut self, line: &[u8]) -> bool {
        let line = clean::without_stamps(line);
        let text = line.trim_ascii_start();
        let indent = line.len() - text.len();
        if text.starts_with(b"CMake Warning") || text.starts_with(b"CMake Deprecation Warning") {
            self.indent = Some(indent);
        } else if !text.is_empty() && self.indent.is_some_and(|headline| indent <= headline) {
            self.indent = None;
        }
        self.indent.is_some()
    }
}

/// Whether a tool says that the whole of its work failed.
fn has_failed(log: &[u8]) -> bool {
    const WORDS: [&str; 18] = [
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

/// A line without what terminals and renderers would act on, of at most so many characters.
fn shorten(text: &str, limit: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(limit).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// The first line that looks like an error to those who know the forms of all tools.
fn first_error(log: &[u8]) -> Option<String> {
    let plain: Vec<Cow<'_, [u8]>> = log.split(|byte| *byte == b'\n').map(clean::plain).collect();
    // What tools print below a headline is told apart by its indentation, which is kept here.
    let lines: Vec<Cow<'_, str>> =
        plain.iter().map(|line| String::from_utf8_lossy(clean::without_stamps(line))).collect();
    first_recognised(&lines).map(|error| shorten(&error.to_string(), EVIDENCE))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
