//! Removes escape sequences and overwritten text from lines of a log.

use std::borrow::Cow;

use super::{LONGEST, error_list};

const ESCAPE: u8 = 0x1b;

/// Returns the line without escape sequences and zero bytes. If carriage returns overwrite parts of it, returns the text that stays
/// visible. A row of Visual Studio's Error List gets the format of the compiler.
pub(super) fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(row) = error_list::row(line) {
        return Cow::Owned(row);
    }
    if memchr::memchr3(ESCAPE, b'\r', 0, line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut cleaner = LineCleaner::default();
    cleaner.push(line);
    Cow::Owned(cleaner.finish())
}

/// Collects the visible text of one line from its parts, up to the maximum length.
#[derive(Default)]
pub(super) struct LineCleaner {
    text: Vec<u8>,
    sequence: Sequence,
    /// The length of the text at the last carriage return, as long as only spaces follow: they overwrite nothing.
    returned: Option<usize>,
}

/// Position inside an escape sequence.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    #[default]
    Outside,
    /// After the escape character.
    Start,
    /// `ESC [ …` up to a letter: colours.
    Control,
    /// `ESC ] …` up to a bell character or another escape sequence: titles and links.
    Title,
    /// Before its last character.
    Last,
}

impl LineCleaner {
    /// Appends a part of the line.
    pub(super) fn push(&mut self, mut part: &[u8]) {
        while let Some((&byte, rest)) = part.split_first() {
            if self.sequence != Sequence::Outside {
                self.sequence = self.sequence.after(byte);
                part = rest;
                continue;
            }
            let special = memchr::memchr3(ESCAPE, b'\r', 0, part).unwrap_or(part.len());
            self.visible(&part[..special]);
            part = &part[special..];
            match part.first() {
                Some(&ESCAPE) => {
                    self.overwrite();
                    self.sequence = Sequence::Start;
                    part = &part[1..];
                }
                Some(b'\r') => self.returned = Some(self.text.len()),
                _ => {}
            }
            part = without_invisible(part);
        }
    }

    /// Appends visible text.
    fn visible(&mut self, text: &[u8]) {
        if self.returned.is_some() && !text.trim_ascii().is_empty() {
            self.overwrite();
        }
        let room = (LONGEST + self.returned.unwrap_or(0)).saturating_sub(self.text.len());
        self.text.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// Removes the text before the last carriage return.
    fn overwrite(&mut self) {
        if let Some(start) = self.returned.take() {
            self.text.drain(..start);
        }
    }

    /// The visible text.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.truncate(LONGEST);
        self.text
    }
}

/// Removes carriage returns and zero bytes from the start of a text. Files may begin with millions of them, so many are compared at once.
fn without_invisible(mut text: &[u8]) -> &[u8] {
    const MANY: [[u8; 512]; 2] = [[b'\r'; 512], [0; 512]];
    for same in &MANY {
        while let Some(rest) = text.strip_prefix(same) {
            text = rest;
        }
    }
    let end = text.iter().position(|byte| !matches!(byte, b'\r' | 0));
    &text[end.unwrap_or(text.len())..]
}

impl Sequence {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start, b'[') => Self::Control,
            (Self::Start, b']') => Self::Title,
            (Self::Start, b'(' | b')') | (Self::Title, ESCAPE) => Self::Last,
            (Self::Control, 0x40..=0x7e)
            | (Self::Title, 0x07)
            | (Self::Start | Self::Last | Self::Outside, _) => Self::Outside,
            (Self::Control | Self::Title, _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(plain(line.as_bytes()).trim_ascii()), expected, "{line:?}");
    }

    #[test]
    fn terminal_sequences_are_removed() {
        check(
            "\u{1b}[01m\u{1b}[Ka.c:3:5:\u{1b}[m\u{1b}[K \u{1b}[01;31merror:\u{1b}[0m no",
            "a.c:3:5: error: no",
        );
        check("ld: cannot find -lcuda\r", "ld: cannot find -lcuda");
        check("\rDownloading 10%\rDownloading 100%\rerror: no\r", "error: no");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\ text", "link text");
        check("\u{1b}]0;title\u{7}text\u{1b}(B", "text");
        check("cut \u{1b}[", "cut");
        check("text\r \r\t", "text");
        check("first\r \rsecond\r \u{1b}[Kthird", "third");
        check("te\0xt\0", "text");
        // Every carriage return once searched the rest of the line.
        check(&format!("{}error: no", "\r".repeat(1 << 20)), "error: no");
        check(&format!("error: no{}", "\r ".repeat(1 << 20)), "error: no");
    }
}
