//! The search for known failures while a log is read.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use regex_lite::Regex;

use super::lines::LogLines;
use super::names::NameTable;
use super::signature::{CompiledSignature, Strength, UnlistedNames};
use super::window::LogWindow;
use super::{EVIDENCE, LogCause, Signatures, VALUE, outcome, prefix, shorten};

/// Maximum number of lines on which a pattern is tried. If none of them matches, its literal has another meaning in this log.
const TRIES: u32 = 10_000;
/// Maximum number of lines that are read as sentences. They are guesses, and reading them takes longer than trying a pattern.
const SENTENCES: u32 = 2_000;
/// Maximum number of bytes on which a pattern is tried.
const TRIED_BYTES: usize = 1 << 20;
/// Number of bytes on which all patterns together are tried, after which each has a smaller maximum.
const ALL_TRIED_BYTES: usize = 32 << 20;
const FEW_TRIED_BYTES: usize = 64 << 10;
/// A byte that is only searched for literals takes this fraction of the time of one on which a pattern is tried.
const LITERALS: usize = 8;

/// A recognised failure with the index of its signature and the row of its name.
pub(super) struct Found {
    pub(super) signature: usize,
    row: Option<usize>,
    pub(super) cause: LogCause,
    /// Whether all its lines report the result of a check and no error.
    pub(super) is_status: bool,
    /// Whether a guess is about a line that a program prints as an error.
    pub(super) is_error: bool,
    /// Whether it is at the end of the output of a command, before the next command of a terminal.
    pub(super) ends_command: bool,
}

/// The lines and bytes on which a signature was tried, and its first failure in the list of failures.
#[derive(Clone, Copy, Default)]
pub(super) struct TriedText {
    lines: u32,
    pub(super) bytes: usize,
    found: Option<usize>,
}

/// The state of a search: what the signatures were tried on, and the failures found so far.
pub(super) struct Search {
    pub(super) tried: Vec<TriedText>,
    pub(super) found: Vec<Found>,
    tried_bytes: usize,
    /// Number of lines on which the grid was tried.
    sentences: u32,
    /// Whether the current line reports the result of a check, as CMake's graphical interface prints it: without dashes.
    is_status: bool,
}

/// The line that is examined.
pub(super) struct ExaminedLine<'a> {
    pub(super) lines: &'a LogLines,
    pub(super) at: usize,
    /// The signatures of which the line contains a literal, in their order.
    pub(super) signatures: &'a [usize],
    /// For each signature: whether the text that must precede it was found.
    pub(super) preceded: &'a [bool],
    /// If the line is text of an error of CMake: the indentation of its headline.
    pub(super) headline: Option<usize>,
    /// Whether it is an error in a file that is compiled only to find out what there is.
    pub(super) is_failed_check: bool,
}

impl Search {
    pub(super) fn new(signatures: usize) -> Self {
        Self {
            tried: vec![TriedText::default(); signatures],
            found: Vec::new(),
            tried_bytes: 0,
            sentences: 0,
            is_status: false,
        }
    }

    /// Tries signatures on a line. A line has at most one failure: the first match, even if it was found before. If none matches
    /// and the line may be broken by a terminal, the line is tried once more together with the next one. Returns whether a
    /// signature matches.
    pub(super) fn line(&mut self, all: &Signatures, line: &ExaminedLine<'_>) -> bool {
        if line.signatures.is_empty() {
            return self.wrapped_line(all, line);
        }
        let number = line.lines.number(line.at);
        let mut is_refused = false;
        let mut single = None;
        let text = prefix::without_stamps(line.lines.line(line.at));
        self.is_status = line.is_failed_check || outcome::is_check_result(line.lines, line.at, text);
        // CMake prints what it found, and what it does without, as status lines.
        let is_status = text.trim_ascii_start().starts_with(b"-- ");
        for &at in line.signatures {
            let one = &all.list[at];
            let is_early = one.signature.after.is_some() && !line.preceded[at];
            if is_early || (is_status && !one.signature.doubtful) {
                continue;
            }
            self.tried[at].lines += 1;
            if self.is_exhausted(at) {
                // A signature that matched before is assumed to match again.
                if let Some(known) = self.tried[at].found {
                    self.found[known].count(number, self.is_status);
                    return true;
                }
                continue;
            }
            let around = |count| LogWindow::around(line.lines, line.at, count);
            let is_match = match one.signature.lines {
                1 => self.matches(all, at, single.get_or_insert_with(|| around(1)), line.lines, line.at),
                count => self.matches(all, at, &around(count), line.lines, line.at),
            };
            if is_match {
                return true;
            }
            is_refused |= one.signature.lines == 1;
        }
        (is_refused && !is_status && self.broken_line(all, line.lines, line.at))
            || self.wrapped_line(all, line)
    }

    /// Looks for a sentence about a component in a line that no signature matches.
    pub(super) fn sentence(&mut self, all: &Signatures, lines: &LogLines, at: usize) {
        self.sentences += 1;
        if self.sentences > SENTENCES {
            return;
        }
        if outcome::is_debug(lines.line(at)) {
            return;
        }
        let window = LogWindow::around(lines, at, 1);
        let Some(cell) = all.grid.find(&window.text) else { return };
        let number = lines.number(at);
        if let Some(known) = self.tried[cell].found {
            self.found[known].count(number, false);
            return;
        }
        let Some((row, cause)) = all.list[cell].cause(&all.names, window.line_at(0), BTreeMap::new()) else {
            return;
        };
        self.tried[cell].found = Some(self.found.len());
        let is_error = outcome::is_error(window.text.as_bytes(), lines.line(at));
        let ends_command = outcome::ends_command(lines, at);
        self.found.push(Found { signature: cell, row, cause, is_status: false, is_error, ends_command });
    }

    fn is_exhausted(&mut self, signature: usize) -> bool {
        let limit = if self.tried_bytes > ALL_TRIED_BYTES { FEW_TRIED_BYTES } else { TRIED_BYTES };
        let tried = &mut self.tried[signature];
        tried.lines = tried.lines.min(TRIES + 1);
        tried.lines > TRIES || tried.bytes > limit
    }

    /// Tries the signatures on a line that is joined with the next one. Literals may be broken too.
    fn broken_line(&mut self, all: &Signatures, lines: &LogLines, at: usize) -> bool {
        let mut hits = Vec::new();
        LogWindow::broken(lines, at).iter().any(|window| {
            hits.clear();
            all.index.scan(window.text.as_bytes(), &mut hits);
            hits.sort_indirect();
            hits.dedup();
            let fit = |at: &usize| {
                all.list.get(*at).is_some_and(|one| one.signature.lines == 1 && one.signature.after.is_none())
            };
            hits.iter()
                .filter(|signature| fit(signature))
                .any(|&one| !self.is_exhausted(one) && self.matches(all, one, window, lines, at))
        })
    }

    /// Tries the signatures on a paragraph of CMake that begins with a line. Line breaks may be inside of literals.
    fn wrapped_line(&mut self, all: &Signatures, line: &ExaminedLine<'_>) -> bool {
        let window = line.headline.and_then(|headline| LogWindow::wrapped(line.lines, line.at, headline));
        let Some(window) = window else { return false };
        let mut hits = Vec::new();
        all.index.scan(window.text.as_bytes(), &mut hits);
        hits.sort_indirect();
        hits.dedup();
        let number = line.lines.number(line.at);
        hits.into_iter().any(|one| {
            let signature = all.list.get(one);
            let fits = signature.is_some_and(|signature| {
                let regex = signature.signature.after.is_none().then(|| signature.regex_for(&window.text));
                let found = regex.flatten().and_then(|regex| regex.find(&window.text));
                found.is_some_and(|found| window.line_at(found.start()).0 == number)
            });
            fits && !self.is_exhausted(one) && self.matches(all, one, &window, line.lines, line.at)
        })
    }

    fn count_tried(&mut self, signature: usize, bytes: usize) {
        self.tried[signature].bytes += bytes;
        self.tried_bytes += bytes;
    }

    /// Tries one signature on the window around the line `at`, and counts or adds the failure.
    fn matches(
        &mut self,
        all: &Signatures,
        signature: usize,
        window: &LogWindow,
        lines: &LogLines,
        at: usize,
    ) -> bool {
        let one = &all.list[signature];
        let number = lines.number(at);
        self.count_tried(signature, window.text.len() / LITERALS);
        let Some(regex) = one.regex_for(&window.text) else { return false };
        self.count_tried(signature, window.text.len());
        if one.signature.names.is_none()
            && let Some(known) = self.tried[signature].found
        {
            let is_match = regex.is_match(&window.text);
            if is_match {
                self.found[known].count(number, self.is_status);
            }
            return is_match;
        }
        let Some((row, cause)) = one.matches(regex, &all.names, window) else { return false };
        // The line may have been joined with the one before it.
        if outcome::is_attempt(cause.text.as_bytes()) {
            return true;
        }
        if let Some(known) =
            self.found.iter_mut().find(|known| known.signature == signature && known.row == row)
        {
            known.count(number, self.is_status);
        } else {
            self.tried[signature].found.get_or_insert(self.found.len());
            let is_status = self.is_status;
            let is_error = outcome::is_exception(window.text.as_bytes());
            let ends_command = outcome::ends_command(lines, at);
            self.found.push(Found { signature, row, cause, is_status, is_error, ends_command });
        }
        true
    }
}

impl Found {
    /// Replaces a guess by another one about the same line.
    pub(super) fn become_guess(&mut self, at: usize, one: &CompiledSignature) {
        let signature = &one.signature;
        self.signature = at;
        self.cause.id = signature.id;
        self.cause.summary.clone_from(&signature.summary);
        self.cause.fix.clone_from(&signature.fix);
        self.cause.fix_of_release = None;
        self.cause.commands.clone_from(&signature.commands);
        self.cause.backend = signature.backend;
    }

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

/// A version or number at the end of a sentence without its full stop. Patterns for versions such as `[\d.]+` match it.
fn without_full_stop(value: &str) -> &str {
    let is_number = value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number { value.trim_end_matches('.') } else { value }
}

impl CompiledSignature {
    /// Matches the lines of a window. Returns the row of the captured name and the failure.
    fn matches(
        &self,
        regex: &Regex,
        names: &NameTable,
        window: &LogWindow,
    ) -> Option<(Option<usize>, LogCause)> {
        let captures = regex.captures(&window.text)?;
        let groups = regex.capture_names().flatten();
        let values: BTreeMap<String, String> = groups
            .filter_map(|name| {
                let value = without_full_stop(captures.name(name)?.as_str().trim());
                Some((name.to_owned(), shorten(value, VALUE)))
            })
            .filter(|(_, value)| !value.is_empty())
            .collect_map();
        let start = captures.get(0).map_or(0, |whole| whole.start());
        self.cause(names, window.line_at(start), values)
    }

    /// The failure with the values of a match in a line.
    pub(super) fn cause(
        &self,
        names: &NameTable,
        (line, text): (usize, &str),
        mut values: BTreeMap<String, String>,
    ) -> Option<(Option<usize>, LogCause)> {
        let signature = &self.signature;
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
        let own_id = of_row.zip(signature.names).and_then(|(row, kind)| row.id(kind));
        let is_same = own_id.is_none_or(|id| id == signature.id);
        // Texts of the signature are for its own id only.
        let chosen = |of_row: Option<&String>, of_component: &Option<String>, own: &Option<String>| {
            let known = of_component.as_ref().filter(|_| is_same && values.contains_key("component"));
            of_row.or(known).or(own.as_ref().filter(|_| is_same)).cloned()
        };
        let summary = of_row.and_then(|row| row.summary.as_ref());
        let summary = chosen(summary, &signature.component_summary, &signature.summary);
        let fix = of_row.and_then(|row| row.fix.as_ref());
        let fix = chosen(fix, &signature.component_fix, &signature.fix);
        let commands = of_row
            .zip(signature.names)
            .map(|(row, kind)| row.commands(kind))
            .filter(|commands| !commands.is_empty() || !is_same);
        let cause = LogCause {
            id: own_id.unwrap_or(signature.id),
            line,
            text: shorten(text, EVIDENCE),
            summary,
            fix,
            fix_of_release: of_row.and_then(|row| row.fix_of_release.clone()),
            commands: commands.unwrap_or(&signature.commands).clone(),
            backend: signature.backend,
            count: 1,
            last: line,
            is_weak: signature.strength() >= Strength::Weak,
            is_late: signature.late && row.is_none(),
            values,
        };
        Some((row, cause))
    }
}
