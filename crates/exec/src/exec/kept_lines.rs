//! The lines of a program, of which only the first and the last ones are kept if there are too many.

use std::collections::VecDeque;

/// Size in bytes of the first lines that are kept, and of the last ones. A complete build of llama.cpp prints less than 1 MiB.
const PART: usize = 4 << 20;
/// The memory that a line takes beside its text, in bytes.
const OVERHEAD: usize = 48;

/// The first and the last lines of a program.
#[derive(Debug, Default)]
pub(super) struct KeptLines {
    first: Vec<String>,
    /// Size of `first`; no line is added to it after one that did not fit.
    first_size: usize,
    last: VecDeque<String>,
    last_size: usize,
    omitted: u64,
    omitted_bytes: u64,
}

impl KeptLines {
    pub(super) fn push(&mut self, line: &str) {
        self.push_to(line, PART);
    }

    fn push_to(&mut self, line: &str, part: usize) {
        let size = line.len() + OVERHEAD;
        if self.last.is_empty() && self.omitted == 0 && self.first_size + size <= part {
            self.first_size += size;
            self.first.push(line.to_owned());
            return;
        }
        self.last_size += size;
        self.last.push_back(line.to_owned());
        while self.last_size > part
            && let Some(oldest) = self.last.pop_front()
        {
            self.last_size -= oldest.len() + OVERHEAD;
            self.omitted += 1;
            self.omitted_bytes += oldest.len() as u64 + 1;
        }
    }

    /// Moves the lines to `lines`, with a line in place of those that were omitted.
    pub(super) fn move_to(self, lines: &mut Vec<String>) {
        lines.extend(self.first);
        if self.omitted > 0 {
            let (count, bytes) = (self.omitted, self.omitted_bytes);
            lines.push(format!("[gpubuild omitted {count} lines ({bytes} bytes) of this log]"));
        }
        lines.extend(self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are kept if each part has room for two lines of one character.
    fn kept(all: &[&str]) -> Vec<String> {
        let mut kept = KeptLines::default();
        for line in all {
            kept.push_to(line, 2 * (OVERHEAD + 1));
        }
        let mut lines = Vec::new();
        kept.move_to(&mut lines);
        lines
    }

    #[test]
    fn the_first_and_last_lines_are_kept_and_the_gap_is_named() {
        assert_eq!(kept(&["a", "b", "c", "d"]), ["a", "b", "c", "d"]);
        let gap = "[gpubuild omitted 2 lines (4 bytes) of this log]";
        assert_eq!(kept(&["a", "b", "c", "d", "e", "f"]), ["a", "b", gap, "e", "f"]);
        let long = "x".repeat(200);
        let gap = "[gpubuild omitted 1 lines (201 bytes) of this log]";
        assert_eq!(kept(&["a", &long, "c"]), ["a", gap, "c"]);
    }
}
