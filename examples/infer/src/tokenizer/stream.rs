//! Converts bytes of tokens to text, token by token; a character that is split over tokens is held back until
//! it is complete.

/// Converts bytes to text incrementally.
#[derive(Debug, Default)]
pub struct TextStream {
    pending: Vec<u8>,
    skip_space: bool,
}

impl TextStream {
    /// A new stream; `skip_space` drops one space at its very start.
    pub(super) fn new(skip_space: bool) -> Self {
        Self { pending: Vec::new(), skip_space }
    }

    /// Adds the bytes of a token and returns the text that is complete. Invalid bytes become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let bytes = match bytes {
            [] => return String::new(),
            [b' ', rest @ ..] if self.skip_space => rest,
            all => all,
        };
        self.skip_space = false;
        self.pending.extend(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(all) => {
                    text.push_str(all);
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let (valid, rest) = self.pending.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    let broken = error.error_len();
                    let rest = rest[broken.unwrap_or(0)..].to_vec();
                    self.pending = rest;
                    if broken.is_none() {
                        return text;
                    }
                    text.push('\u{FFFD}');
                }
            }
        }
    }

    /// The rest at the end: empty, or U+FFFD for an incomplete character.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::TextStream;

    #[test]
    fn split_characters_are_held_back() {
        let mut stream = TextStream::new(false);
        assert_eq!(stream.push(&[b'a', 0xe2, 0x82]), "a");
        assert_eq!(stream.push(&[0xac, b'b']), "€b");
        assert_eq!(stream.push(&[0xff, b'c', 0xe2]), "\u{FFFD}c");
        assert_eq!(stream.push(b"x"), "\u{FFFD}x");
        assert_eq!(stream.push(&[0xf0, 0x9f]), "");
        assert_eq!(stream.finish(), "\u{FFFD}");
    }

    #[test]
    fn first_space_is_dropped_once() {
        let mut stream = TextStream::new(true);
        assert_eq!(stream.push(b""), "");
        assert_eq!(stream.push(b" Once"), "Once");
        assert_eq!(stream.push(b" upon"), " upon");
    }
}
