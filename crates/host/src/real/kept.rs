//! Keeps the beginning and the end of a long output.

/// Size of the beginning that is kept, and of the end, in bytes. Everything is kept of an output of at most twice this size.
const PART: usize = 8 << 20;

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub(super) struct HeadAndTail {
    head: Vec<u8>,
    /// The last bytes after the head, with at most one part of older ones before them.
    tail: Vec<u8>,
    total: u64,
}

impl HeadAndTail {
    /// Size of the complete output in bytes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.add_to(bytes, PART);
    }

    fn add_to(&mut self, bytes: &[u8], part: usize) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(part - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if self.tail.len() >= 2 * part {
            self.tail.drain(..self.tail.len() - part);
        }
    }

    /// The output as text, with a line in place of what was omitted. Invalid UTF-8 is replaced.
    pub(super) fn into_text(self) -> String {
        self.text(PART)
    }

    fn text(mut self, part: usize) -> String {
        self.tail.drain(..self.tail.len().saturating_sub(part));
        let omitted = self.total - (self.head.len() + self.tail.len()) as u64;
        if omitted > 0 {
            self.head.extend_from_slice(format!("\n[{omitted} bytes omitted]\n").as_bytes());
        }
        self.head.append(&mut self.tail);
        String::from_utf8(self.head)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_complete_and_long_output_has_both_ends() {
        let text = |pieces: &[&str]| {
            let mut kept = HeadAndTail::default();
            for piece in pieces {
                kept.add_to(piece.as_bytes(), 4);
            }
            assert_eq!(kept.total(), pieces.concat().len() as u64);
            kept.text(4)
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&["abc"]), "abc");
        assert_eq!(text(&["abcdefgh"]), "abcdefgh");
        assert_eq!(text(&["abc", "def", "gh"]), "abcdefgh");
        assert_eq!(text(&["abcdefghi"]), "abcd\n[1 bytes omitted]\nfghi");
        assert_eq!(text(&["abcd", "0123456789", "0123456789", "wx", "yz"]), "abcd\n[20 bytes omitted]\nwxyz");
    }

    #[test]
    fn memory_does_not_grow_with_the_output() {
        let mut kept = HeadAndTail::default();
        (0..1000).for_each(|_| kept.add_to(b"0123456789", 16));
        assert!(kept.tail.capacity() <= 64, "{}", kept.tail.capacity());
    }
}
