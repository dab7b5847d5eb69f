//! Splits a stream of bytes into lines.

/// Maximum length of a line in bytes; the rest is discarded.
pub const LONGEST_LINE: usize = 1 << 20;

/// Collects bytes and emits complete lines. A line ends with `\n`, `\r\n`, or a single `\r` as in progress displays.
#[derive(Debug, Default)]
pub struct LineSplitter {
    pending: Vec<u8>,
    after_return: AfterReturn,
}

/// State after a `\r`, which determines how a following `\n` is treated.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AfterReturn {
    /// The last byte was not `\r`.
    #[default]
    No,
    /// The `\r` ended a line with text; a `\n` is ignored.
    LineEnded,
    /// The `\r` followed no text; a `\n` ends an empty line.
    LineEmpty,
}

impl LineSplitter {
    /// Adds bytes and calls `on_line` for each completed line.
    pub fn feed(&mut self, bytes: &[u8], mut on_line: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match piece.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                _ => (piece, None),
            };
            if !text.is_empty() {
                self.after_return = AfterReturn::No;
                let room = LONGEST_LINE.saturating_sub(self.pending.len());
                self.pending.extend_from_slice(&text[..text.len().min(room)]);
            }
            match end {
                Some(b'\n') if self.after_return == AfterReturn::LineEnded => {
                    self.after_return = AfterReturn::No;
                }
                Some(b'\n') => {
                    self.after_return = AfterReturn::No;
                    self.emit(&mut on_line);
                }
                Some(_) if self.pending.is_empty() => {
                    self.after_return = match self.after_return {
                        AfterReturn::No => AfterReturn::LineEmpty,
                        unchanged => unchanged,
                    };
                }
                Some(_) => {
                    self.after_return = AfterReturn::LineEnded;
                    self.emit(&mut on_line);
                }
                None => {}
            }
        }
    }

    /// Emits the last line if the stream ended without a line break.
    pub fn finish(&mut self, mut on_line: impl FnMut(&str)) {
        if !self.pending.is_empty() {
            self.emit(&mut on_line);
        }
    }

    fn emit(&mut self, on_line: &mut impl FnMut(&str)) {
        on_line(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the input in two parts, split at every position. The lines must always be the same.
    fn check(input: &[u8], expected: &[&str]) {
        for cut in 0..=input.len() {
            let mut lines = Vec::new();
            let mut splitter = LineSplitter::default();
            splitter.feed(&input[..cut], |line| lines.push(line.to_owned()));
            splitter.feed(&input[cut..], |line| lines.push(line.to_owned()));
            splitter.finish(|line| lines.push(line.to_owned()));
            assert_eq!(lines, expected, "{input:?} cut at {cut}");
        }
    }

    #[test]
    fn every_kind_of_line_break_ends_a_line() {
        check(b"", &[]);
        check(b"one", &["one"]);
        check(b"one\ntwo\n", &["one", "two"]);
        check(b"one\r\ntwo\r\n", &["one", "two"]);
        check(b"10%\r20%\r100%\ndone\n", &["10%", "20%", "100%", "done"]);
        check(b"a\n\nb\r\n\r\nc", &["a", "", "b", "", "c"]);
        check(b"\r\r\rx\n", &["x"]);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        check(b"caf\xe9\nok\n", &["caf\u{fffd}", "ok"]);
    }

    #[test]
    fn a_huge_line_is_truncated_and_the_next_one_is_complete() {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for _ in 0..3 {
            splitter.feed(&vec![b'x'; LONGEST_LINE / 2 + 1], |line| lines.push(line.len()));
        }
        splitter.feed(b"\nnext\n", |line| lines.push(line.len()));
        assert_eq!(lines, [LONGEST_LINE, 4]);
    }
}
