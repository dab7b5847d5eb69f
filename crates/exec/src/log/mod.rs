//! Recognises known failures in the output of CMake, compilers, linkers, cargo and pip.
//!
//! Pure: takes bytes and returns causes. The known failures are in `findings/logs/*.toml`. Each is a pattern for one cleaned
//! line, or for a few joined lines, with a sample of real output. A log is read once, and only lines that contain a literal
//! of a pattern are matched against it, so the time depends on the size of the log and not on the number of patterns.

mod clean;
mod findings;
mod index;
mod literal;
mod signature;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use memchr::memchr;

use crate::diagnose::first_recognised;
pub use findings::{UNRECOGNISED, to_findings};
use index::SignatureIndex;
use signature::CompiledSignature;
pub use signature::Signature;

/// Maximum number of bytes of a line that are matched against patterns. Command lines may be longer, but messages are not.
const LONGEST: usize = 16 * 1024;
/// Maximum number of lines on which a pattern is tried. If none of them matches, its literal has another meaning in this log.
const TRIES: u32 = 10_000;
/// Number of lines at the end of a log in which a doubtful failure counts even if no tool reports a failure.
const AT_THE_END: usize = 6;
/// Maximum length of a line that is kept as evidence, in characters.
const EVIDENCE: usize = 240;
/// Maximum length of a captured value, in characters.
const VALUE: usize = 160;

/// The known failures.
pub struct Signatures {
    list: Vec<CompiledSignature>,
    index: SignatureIndex,
}

/// The failures that were recognised in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Recognised failures, root cause first; at most one per id.
    pub causes: Vec<LogCause>,
    /// Number of lines of the log.
    pub lines: usize,
    /// The first line that looks like an error; only if no failure was recognised.
    pub first_error: Option<String>,
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
    /// The backend, if the signature determines it and the finding does not.
    pub backend: Option<Backend>,
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

    fn new(list: Vec<Signature>) -> Self {
        let list: Vec<CompiledSignature> = list.into_iter().map(CompiledSignature::new).collect();
        let literals = list
            .iter()
            .enumerate()
            .flat_map(|(at, one)| one.literals.iter().map(move |literal| (literal.as_bytes(), at)));
        let index = SignatureIndex::new(literals);
        Self { list, index }
    }

    /// All signatures in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.list.iter().map(|one| &one.signature)
    }

    /// Finds the known failures in a log. Invalid UTF-8 is accepted.
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

    /// Sorts the failures by line and keeps the first of each id. Weak signatures, which only report that something failed,
    /// are used only if no other matches.
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

/// The state of a search: the number of tries per signature, and the failures found so far.
struct Search {
    tries: Vec<u32>,
    found: Vec<(usize, LogCause)>,
}

impl Search {
    /// Tries the signatures in `hits` on a line. A line has at most one failure: the first match, even if it was found before.
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
                // A signature that matched before is assumed to match again.
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
    /// Matches the line at `range`, with adjacent lines if the pattern spans several.
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

/// Cleaned lines, joined by spaces.
struct LogWindow {
    text: String,
    /// Offset in `text` and line number of each line.
    starts: Vec<(usize, usize)>,
    /// Offset of the first line in the log.
    start: usize,
}

impl LogWindow {
    /// Joins a line with up to `lines - 1` lines that are not empty on each side, because the literal may be in any line of
    /// the match.
    fn around(log: &[u8], line: std::ops::Range<usize>, number: usize, lines: usize) -> Self {
        let mut parts = vec![(number, line.clone())];
        let (mut first, mut at) = (line.start, number);
        while parts.len() < lines && first > 0 {
            let end = first - 1;
            let start = memchr::memrchr(b'\n', &log[..end]).map_or(0, |found| found + 1);
            at -= 1;
            if is_not_empty(&log[start..end]) {
                parts.insert(0, (at, start..end));
            }
            first = start;
        }
        let (mut next, mut at, before) = (line.end + 1, number, parts.len());
        while parts.len() - before + 1 < lines && next < log.len() {
            let end = memchr(b'\n', &log[next..]).map_or(log.len(), |length| next + length);
            at += 1;
            if is_not_empty(&log[next..end]) {
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

    /// The number and text of the line at an offset of the joined text.
    fn line_at(&self, offset: usize) -> (usize, &str) {
        let at = self.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, number) = self.starts[at];
        let end = self.starts.get(at + 1).map_or(self.text.len(), |(next, _)| next - 1);
        (number, &self.text[start..end])
    }
}

fn is_not_empty(line: &[u8]) -> bool {
    !clean::unprefixed(&clean::plain(line)).is_empty()
}

/// Detects CMake warnings, which are not failures: `CMake Warning …` and the indented text below it.
#[derive(Default)]
struct Warning {
    /// Indentation of the headline while inside a warning.
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

/// Whether a tool reports that a complete command failed.
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

/// Replaces control characters and limits the text to a number of characters.
fn shorten(text: &str, limit: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(limit).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// The first line in a known error format of any tool.
fn first_error(log: &[u8]) -> Option<String> {
    let plain: Vec<Cow<'_, [u8]>> = log.split(|byte| *byte == b'\n').map(clean::plain).collect();
    // Keeps the indentation, by which continuation lines are recognised.
    let lines: Vec<Cow<'_, str>> =
        plain.iter().map(|line| String::from_utf8_lossy(clean::without_stamps(line))).collect();
    first_recognised(&lines).map(|error| shorten(&error.to_string(), EVIDENCE))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
