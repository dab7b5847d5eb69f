//! Errors in documents.

use std::fmt;
use std::ops::Range;

/// Longest line in bytes that an error shows. A document may be one line of 64 MiB.
const LONGEST: usize = 4096;

/// An error in a document, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlError {
    message: String,
    span: Option<Range<usize>>,
    /// Keys of the value, from the outermost to the innermost.
    keys: Vec<String>,
    /// The line with the error.
    line: Option<SourceLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceLine {
    /// The line, unless it is longer than [`LONGEST`].
    text: Option<String>,
    /// Line number, counted from one.
    number: usize,
    /// Number of characters before the error.
    before: usize,
    /// Number of characters to mark.
    marked: usize,
}

impl TomlError {
    pub(crate) fn new(message: &str, span: Option<Range<usize>>) -> Self {
        Self { message: message.to_owned(), span, keys: Vec::new(), line: None }
    }

    /// The message, without the location.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The byte range in the text, if known.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// Sets the span, unless an inner value has already set it.
    pub(crate) fn at(mut self, span: Option<Range<usize>>) -> Self {
        self.span = self.span.or(span);
        self
    }

    pub(crate) fn below(mut self, key: Option<&str>) -> Self {
        self.keys.splice(0..0, key.map(str::to_owned));
        self
    }

    /// Adds the line of the text that contains the error.
    pub(crate) fn of(mut self, text: &str) -> Self {
        if let Some(span) = &self.span {
            // For an error at the end of the text, show the last line, not the empty line after it.
            let start = span.start.min(text.len());
            let inside = start.min(text.len().saturating_sub(1));
            let head = text.get(..inside).unwrap_or_default();
            let line_start = head.rfind('\n').map_or(0, |at| at + 1);
            let line = text.get(line_start..).unwrap_or_default().split('\n').next().unwrap_or_default();
            let before = text.get(line_start..start).unwrap_or_default().chars().count();
            let length = span.end.saturating_sub(span.start).min(line.len().saturating_sub(before));
            self.line = Some(SourceLine {
                text: (line.len() <= LONGEST).then(|| line.to_owned()),
                number: head.matches('\n').count() + 1,
                before,
                marked: length.max(1),
            });
        }
        self
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(SourceLine { text, number, before, marked }) = &self.line {
            let gutter = number.to_string().len() + 1;
            writeln!(formatter, "TOML parse error at line {number}, column {}", before + 1)?;
            if let Some(text) = text {
                writeln!(formatter, "{:gutter$}|", "")?;
                writeln!(formatter, "{number} | {text}")?;
                writeln!(formatter, "{:gutter$}| {:before$}{}", "", "", "^".repeat(*marked))?;
            }
        }
        write!(formatter, "{}", self.message)?;
        if self.line.is_none() && !self.keys.is_empty() {
            write!(formatter, "\nin `{}`", self.keys.join("."))?;
        }
        Ok(())
    }
}

impl std::error::Error for TomlError {}

impl serde_core::de::Error for TomlError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(&message.to_string(), None)
    }
}
