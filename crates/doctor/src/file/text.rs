//! Source text with line numbers, and scripts assembled from several lines of a file.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft, Severity};

/// The lines of a file, under the name that the user gave.
#[derive(Debug, Clone)]
pub struct SourceText {
    name: String,
    lines: Vec<String>,
}

impl SourceText {
    /// Splits a text into lines.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect() }
    }

    /// Line `number` (counted from one) without surrounding white space; empty if the file has no such line.
    #[must_use]
    pub fn line(&self, number: usize) -> &str {
        number.checked_sub(1).and_then(|index| self.lines.get(index)).map_or("", |line| line.trim())
    }

    /// Whether the path of the file contains a folder.
    #[must_use]
    pub fn is_in_folder(&self, folder: &str) -> bool {
        let mut parts: Vec<&str> = self.name.split(['/', '\\']).collect();
        parts.pop();
        parts.contains(&folder)
    }

    /// Whether any line contains a text.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// Whether a line that is not a comment contains a text.
    #[must_use]
    pub fn has_code(&self, text: &str) -> bool {
        self.lines.iter().any(|line| !line.trim_start().starts_with('#') && line.contains(text))
    }

    /// The lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// Evidence with the place `Dockerfile:12` and the text of that line.
    #[must_use]
    pub fn evidence(&self, number: usize) -> Evidence {
        Evidence::file(format!("{}:{number}", self.name), sanitize(self.line(number)))
    }

    /// A finding draft with a line as its evidence.
    #[must_use]
    pub fn draft(&self, id: DiagnosticId, severity: Severity, number: usize) -> FindingDraft {
        FindingDraft::new(id)
            .severity(severity)
            .value("line", number.to_string())
            .value("file", sanitize(&self.name))
            .evidence(self.evidence(number))
    }

    /// The line with `old` replaced by `new`. A match as a whole word is preferred. `None` if the line does not contain `old`.
    #[must_use]
    pub fn corrected(&self, number: usize, old: &str, new: &str) -> Option<String> {
        let line = self.line(number);
        let at = find_word(line, old).or_else(|| line.find(old))?;
        Some(sanitize(&format!("{}{new}{}", &line[..at], &line[at + old.len()..])))
    }
}

/// The byte offset of the first occurrence of `word` as a whole word.
#[must_use]
pub fn find_word(line: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    line.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !line[..*at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// Whether a file name has this extension, ignoring case.
#[must_use]
pub fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(start, end)| !start.is_empty() && end.eq_ignore_ascii_case(extension))
}

/// A text made safe for messages: one line of at most 200 characters, without control characters.
#[must_use]
pub fn sanitize(text: &str) -> String {
    const LENGTH: usize = 200;
    let mut line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LENGTH + 1).collect();
    if line.chars().count() > LENGTH {
        line = line.chars().take(LENGTH - 1).collect();
        line.push('…');
    }
    line
}

/// A script assembled from several lines of a file, with a map from offsets to line numbers.
#[derive(Debug, Clone, Default)]
pub struct ScriptText {
    text: String,
    /// Pairs of offset in the text and line number, sorted.
    marks: Vec<(usize, usize)>,
}

impl ScriptText {
    /// A script that comes from a single line.
    #[must_use]
    pub fn of_line(number: usize, text: &str) -> Self {
        let mut script = Self::default();
        script.push(number, text);
        script
    }

    /// Appends text from a line, without a line break.
    pub fn push(&mut self, number: usize, text: &str) {
        self.marks.push((self.text.len(), number));
        self.text.push_str(text);
    }

    /// Appends a complete line and a line break.
    pub fn push_line(&mut self, number: usize, text: &str) {
        self.push(number, text);
        self.text.push('\n');
    }

    /// The text of the script.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line number in the file of a byte offset in the text.
    #[must_use]
    pub fn line_at(&self, offset: usize) -> usize {
        let next = self.marks.partition_point(|(start, _)| *start <= offset);
        next.checked_sub(1).map_or(0, |index| self.marks[index].1)
    }

    /// The pieces of the script with their line numbers.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, usize)> {
        let ends = self.marks.iter().skip(1).map(|(start, _)| *start).chain([self.text.len()]);
        self.marks.iter().zip(ends).map(|((start, line), end)| (&self.text[*start..end], *line))
    }

    /// The part of the script between two byte offsets, with its line numbers.
    #[must_use]
    pub fn part(&self, start: usize, end: usize) -> Self {
        let mut part = Self { text: self.text[start..end].to_owned(), marks: vec![(0, self.line_at(start))] };
        let first = self.marks.partition_point(|(at, _)| *at <= start);
        let inside = self.marks[first..].iter().take_while(|(at, _)| *at < end);
        part.marks.extend(inside.map(|(at, line)| (at - start, *line)));
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_offsets_map_to_line_numbers() {
        let mut script = ScriptText::default();
        script.push(3, "a b ");
        script.push(5, "c");
        script.push_line(6, " d");
        script.push(9, "e");
        assert_eq!(script.text(), "a b c d\ne");
        assert_eq!([0, 3, 4, 5, 7, 8].map(|at| script.line_at(at)), [3, 3, 5, 6, 6, 9]);
        let part = script.part(2, 7);
        assert_eq!((part.text(), part.line_at(0), part.line_at(2), part.line_at(4)), ("b c d", 3, 5, 6));
    }

    #[test]
    fn whole_words_are_replaced_first() {
        let source = SourceText::new("Dockerfile", "RUN apt install cuda-keyring cuda\n");
        let line = source.corrected(1, "cuda", "cuda-toolkit");
        assert_eq!(line.as_deref(), Some("RUN apt install cuda-keyring cuda-toolkit"));
        assert_eq!(source.corrected(1, "nvcc", "x"), None);
        assert_eq!(source.corrected(7, "nvcc", "x"), None);
    }

    #[test]
    fn sanitized_text_is_one_short_line() {
        assert_eq!(sanitize("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(sanitize(&"x".repeat(5000)).chars().count(), 200);
    }
}
