//! Lines of a log that are matched together.

use super::lines::LogLines;
use super::{LONGEST, REACH, clean, prefix, text};

/// Minimum length of a line that a terminal or a formatter may have broken, in bytes.
const BROKEN: usize = 60;
/// Text of lines that are messages of their own and do not continue a broken line.
const MESSAGES: [&str; 8] =
    ["error:", "error :", "fatal ", "error C", "error LNK", "warning", "note:", "make"];

/// Length from which on CMake breaks a line of a message, without the indentation of the headline.
const WRAPPED: usize = 77;
/// Maximum number of lines of a paragraph of CMake that are joined.
const PARAGRAPH: usize = 8;

/// Cleaned lines, joined by spaces.
pub(super) struct LogWindow {
    pub(super) text: String,
    /// Offset in `text` and line number of each line.
    starts: Vec<(usize, usize)>,
}

impl LogWindow {
    /// Joins a line with up to `count - 1` lines that are not empty on each side, because the literal may be in any line of
    /// the match.
    pub(super) fn around(lines: &LogLines, at: usize, count: usize) -> Self {
        let is_full = |line: &usize| !prefix::unprefixed(&clean::plain(lines.line(*line))).is_empty();
        let before = (at.saturating_sub(REACH)..at).rev().filter(is_full).take(count - 1);
        let mut parts: Vec<usize> = before.collect();
        parts.reverse();
        parts.push(at);
        let after = at + 1..lines.len().min(at + 1 + REACH);
        parts.extend(after.filter(is_full).take(count - 1));
        let mut window = Self { text: String::new(), starts: Vec::new() };
        for line in parts {
            window.push(lines, line, " ");
        }
        window
    }

    /// A line that a terminal or a formatter may have broken, joined with the next one: directly, and with a space.
    pub(super) fn broken(lines: &LogLines, at: usize) -> Vec<Self> {
        if lines.line(at).len() < BROKEN || at + 1 >= lines.len() {
            return Vec::new();
        }
        let text = clean::plain(lines.line(at + 1));
        let text = prefix::unprefixed(&text);
        let is_message = MESSAGES.iter().any(|word| text::find(text, word.as_bytes()).is_some());
        if text.is_empty() || is_message {
            return Vec::new();
        }
        let joined = |separator: &str| {
            let mut window = Self { text: String::new(), starts: Vec::new() };
            window.push(lines, at, "");
            window.push(lines, at + 1, separator);
            window
        };
        vec![joined(""), joined(" ")]
    }

    /// A line of a message of CMake, joined with the lines that continue its paragraph. `headline` is the indentation of the
    /// headline. `None` if the next line does not continue this one.
    pub(super) fn wrapped(lines: &LogLines, at: usize, headline: usize) -> Option<Self> {
        let text = |at: usize| {
            let plain = clean::plain(lines.line(at)).into_owned();
            String::from_utf8_lossy(prefix::without_stamps(&plain)).trim_end().to_owned()
        };
        let mut last = text(at);
        let mut end = at + 1;
        while end < lines.len().min(at + PARAGRAPH) {
            let next = text(end);
            let words = next.trim_start();
            let word = words.split(' ').next().unwrap_or_default();
            let is_text = next.len() - words.len() == headline + 2;
            if !is_text || last.chars().count() - headline + 1 + word.chars().count() <= WRAPPED {
                break;
            }
            last = next;
            end += 1;
        }
        if end == at + 1 {
            return None;
        }
        let mut window = Self { text: String::new(), starts: Vec::new() };
        for line in at..end {
            window.push(lines, line, " ");
        }
        Some(window)
    }

    fn push(&mut self, lines: &LogLines, at: usize, separator: &str) {
        if !self.text.is_empty() {
            self.text.push_str(separator);
        }
        self.starts.push((self.text.len(), lines.number(at)));
        let plain = clean::plain(lines.line(at));
        let bytes = prefix::unprefixed(&plain);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]));
    }

    /// The number and text of the line at an offset of the joined text.
    pub(super) fn line_at(&self, offset: usize) -> (usize, &str) {
        let at = self.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, number) = self.starts[at];
        let end = self.starts.get(at + 1).map_or(self.text.len(), |(next, _)| *next);
        (number, self.text[start..end].trim_end())
    }
}
