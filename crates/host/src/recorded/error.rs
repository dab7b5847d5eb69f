//! The error for an invalid recording.

use std::fmt::Write as _;
use std::ops::Range;

/// Longest line in bytes that an error shows.
const LONGEST: usize = 4096;

/// An error in a recording. The message shows the line with a caret, and a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct RecordingError {
    /// The name of the file, as passed to the parser.
    pub file: String,
    /// The problem, in one line.
    pub what: String,
    /// The position, if known.
    pub place: Option<RecordingPlace>,
    /// How to fix the problem.
    pub hint: String,
}

/// A position in a text, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingPlace {
    /// Line number, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// Number of characters to mark; at least one.
    pub width: usize,
    /// The complete line. Empty if it is longer than 4 KiB.
    pub text: String,
}

impl RecordingError {
    pub(super) fn new(
        file: &str,
        text: &str,
        span: Option<Range<usize>>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            what: what.into(),
            place: span.map(|span| RecordingPlace::of(text, &span)),
            hint: hint.into(),
        }
    }

    fn render(&self) -> String {
        let mut text = self.what.clone();
        match &self.place {
            Some(place) if place.text.is_empty() => {
                let _ = write!(text, "\n--> {}:{}:{}", self.file, place.line, place.column);
            }
            Some(place) => {
                let number = place.line.to_string();
                let margin = " ".repeat(number.len());
                let carets = "^".repeat(place.width);
                let indent = " ".repeat(place.column - 1);
                let _ = write!(text, "\n{margin}--> {}:{}:{}", self.file, place.line, place.column);
                let _ = write!(text, "\n{margin} |\n{number} | {}\n{margin} | {indent}{carets}", place.text);
            }
            None => {
                let _ = write!(text, "\n--> {}", self.file);
            }
        }
        let _ = write!(text, "\nhint: {}", self.hint);
        text
    }
}

impl RecordingPlace {
    /// The position of a byte range. For a range over several lines, only the first line is used.
    fn of(text: &str, span: &Range<usize>) -> Self {
        let boundary = |at: usize| {
            let at = at.min(text.len());
            (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
        };
        let (mut start, end) = (boundary(span.start), boundary(span.end.max(span.start)));
        // An error at the end of the text refers to its last line, not to the empty one after it.
        if start == text.len() && text.ends_with('\n') {
            start -= 1;
        }
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = &text[line_start..line_end];
        let marked = &text[start..end.clamp(start, line_end)];
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: marked.trim_end().chars().count().max(1),
            // Replace tabs, so that the caret is below the right column.
            text: if line.len() > LONGEST {
                String::new()
            } else {
                line.trim_end_matches('\r').replace('\t', " ")
            },
        }
    }
}
