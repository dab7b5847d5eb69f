//! The lines of a log around the one that is examined.

use memchr::memchr;

use super::LONGEST;
use super::clean::LineCleaner;

/// Minimum number of bytes before the line that is examined, so that the end of the log is complete.
const BEFORE: usize = 4096;

/// A part of a log that advances through it. A line that is longer than the limit is stored without its escape sequences, and cut.
#[derive(Default)]
pub(super) struct LogLines {
    /// The lines, each with a line break after it, and the beginning of the line that is not complete.
    bytes: Vec<u8>,
    /// The offset of the line break of each line.
    ends: Vec<usize>,
    /// Number of lines before the first one.
    dropped: usize,
    /// The visible text of the line that is not complete, if it is long.
    long: Option<LineCleaner>,
}

impl LogLines {
    /// Appends a part of the log.
    pub(super) fn push(&mut self, mut part: &[u8]) {
        while let Some(end) = memchr(b'\n', part) {
            self.extend(&part[..end]);
            self.end_line();
            part = &part[end + 1..];
        }
        self.extend(part);
    }

    /// Ends the last line, which may lack a line break.
    pub(super) fn finish(&mut self) {
        if self.long.is_some() || self.open() < self.bytes.len() {
            self.end_line();
        }
    }

    fn extend(&mut self, part: &[u8]) {
        let open = self.open();
        if let Some(long) = &mut self.long {
            long.push(part);
        } else if self.bytes.len() - open + part.len() > LONGEST {
            let mut long = LineCleaner::default();
            long.push(&self.bytes[open..]);
            long.push(part);
            self.bytes.truncate(open);
            self.long = Some(long);
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        if let Some(long) = self.long.take() {
            self.bytes.extend_from_slice(&long.finish());
        }
        self.ends.push(self.bytes.len());
        self.bytes.push(b'\n');
    }

    /// The offset of the line that is not complete.
    fn open(&self) -> usize {
        self.ends.last().map_or(0, |end| end + 1)
    }

    /// Number of complete lines.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A line without its line break.
    pub(super) fn line(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.ends[at]]
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before] + 1)
    }

    /// The number of a line in the log, from 1.
    pub(super) fn number(&self, at: usize) -> usize {
        self.dropped + at + 1
    }

    /// Drops lines that are at least `reach` lines before line `next`, and returns how many. Does nothing until that halves the
    /// part, so that each line is moved about once.
    pub(super) fn drop_before(&mut self, next: usize, reach: usize) -> usize {
        let limit = self.bytes.len().saturating_sub(BEFORE);
        let count = self.ends.partition_point(|end| *end < limit).min(next.saturating_sub(reach));
        let start = self.start(count);
        if start <= self.bytes.len() / 2 {
            return 0;
        }
        self.bytes.drain(..start);
        self.ends.drain(..count);
        for end in &mut self.ends {
            *end -= start;
        }
        self.dropped += count;
        count
    }

    /// All bytes of the part.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
impl LogLines {
    /// Number of bytes in memory.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_the_size_of_the_parts() {
        let progress = format!("{}\rvisible\u{1b}[0m", "x".repeat(LONGEST));
        let log = format!("a\n\n{progress}\r\nb\0c\n{}", "y".repeat(LONGEST + 1));
        let read = |size: usize| {
            let mut lines = LogLines::default();
            log.as_bytes().chunks(size).for_each(|part| lines.push(part));
            lines.finish();
            (0..lines.len()).map(|at| lines.line(at).to_vec()).collect::<Vec<_>>()
        };
        let all = read(log.len());
        assert_eq!(all.len(), 5);
        assert_eq!(all[2], b"visible");
        assert_eq!(all[4].len(), LONGEST);
        for size in [1, 2, 3, 1000, LONGEST, LONGEST + 1] {
            assert!(read(size) == all, "{size}");
        }
    }

    #[test]
    fn dropped_lines_keep_the_numbers_of_the_others() {
        let mut lines = LogLines::default();
        let mut next = 0;
        for number in 1..=50_000 {
            lines.push(format!("line {number}\n").as_bytes());
            next = lines.len() - 1;
            next -= lines.drop_before(next, 24);
            assert_eq!(lines.number(next), number);
            assert_eq!(lines.line(next), format!("line {number}").as_bytes());
        }
        assert!(next >= 24);
        assert!(lines.bytes().len() >= BEFORE);
        assert!(lines.capacity() <= 1 << 16, "{}", lines.capacity());
    }
}
