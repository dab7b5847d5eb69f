//! Lines of a log that are matched together.

use super::lines::LogLines;
use super::{LONGEST, REACH, clean, prefix};

/// Minimum length of a line that a terminal or a formatter may have broken, in bytes.
const BROKEN: usize = 60;
/// Text of lines that are messages of their own and do not continue a broken line.
const MESSAGES: [&str; 8] =
    ["error:", "error :", "fatal ", "error C", "error LNK", "warning", "note:", "make"];

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
        let is_message = MESSAGES.iter().any(|word| memchr::memmem::find(text, word.as_bytes()).is_some());
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
