//! Converts logs in UTF-16, which PowerShell writes with `>`, to UTF-8.

/// Number of bytes at the start of a log that determine its encoding.
const SNIFFED: usize = 256;

/// Converts the parts of a log. A log that is not UTF-16 is unchanged.
#[derive(Default)]
pub(super) struct LogDecoder {
    encoding: Encoding,
    /// Bytes that wait for more: the start of the log, or half of a unit.
    waiting: Vec<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    Unknown,
    Bytes,
    Utf16(ByteOrder),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl LogDecoder {
    /// Converts the next part, and passes it on.
    pub(super) fn push(&mut self, part: &[u8], deliver: &mut impl FnMut(&[u8])) {
        match self.encoding {
            Encoding::Bytes => deliver(part),
            Encoding::Utf16(order) => self.convert(part, order, deliver),
            Encoding::Unknown => {
                self.waiting.extend_from_slice(part);
                if self.waiting.len() >= SNIFFED {
                    self.decide(deliver);
                }
            }
        }
    }

    /// Passes on what still waits.
    pub(super) fn finish(&mut self, deliver: &mut impl FnMut(&[u8])) {
        if self.encoding == Encoding::Unknown {
            self.decide(deliver);
        }
        if self.high.take().is_some() || !self.waiting.is_empty() {
            deliver("\u{fffd}".as_bytes());
        }
    }

    fn decide(&mut self, deliver: &mut impl FnMut(&[u8])) {
        let start = std::mem::take(&mut self.waiting);
        self.encoding = encoding(&start[..start.len().min(SNIFFED)]);
        self.push(&start, deliver);
    }

    fn convert(&mut self, part: &[u8], order: ByteOrder, deliver: &mut impl FnMut(&[u8])) {
        self.waiting.extend_from_slice(part);
        let bytes = std::mem::take(&mut self.waiting);
        let pairs = bytes.chunks_exact(2);
        self.waiting.extend_from_slice(pairs.remainder());
        let units = pairs.map(|pair| match order {
            ByteOrder::Little => u16::from_le_bytes([pair[0], pair[1]]),
            ByteOrder::Big => u16::from_be_bytes([pair[0], pair[1]]),
        });
        let mut units = self.high.take().into_iter().chain(units).peekable();
        let mut text = String::with_capacity(bytes.len());
        while let Some(unit) = units.next() {
            let is_high = (0xd800..0xdc00).contains(&unit);
            let Some(&next) = units.peek().filter(|_| is_high) else {
                if is_high {
                    self.high = Some(unit);
                } else {
                    text.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                continue;
            };
            let pair = char::decode_utf16([unit, next]).next().and_then(Result::ok);
            text.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            if pair.is_some() {
                units.next();
            }
        }
        deliver(text.as_bytes());
    }
}

/// The encoding of a log by its start. A byte order mark counts only if ASCII characters in UTF-16 follow: build output has many.
fn encoding(start: &[u8]) -> Encoding {
    let (order, low) = match start {
        [0xff, 0xfe, ..] => (ByteOrder::Little, 0),
        [0xfe, 0xff, ..] => (ByteOrder::Big, 1),
        _ => return Encoding::Bytes,
    };
    let units = start[2..].chunks_exact(2);
    let count = units.len();
    let ascii = units.filter(|unit| unit[1 - low] == 0 && unit[low].is_ascii() && unit[low] != 0).count();
    if ascii > 0 && ascii * 8 >= count { Encoding::Utf16(order) } else { Encoding::Bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(log: &[u8], size: usize) -> Vec<u8> {
        let (mut decoder, mut text) = (LogDecoder::default(), Vec::new());
        for part in log.chunks(size) {
            decoder.push(part, &mut |part| text.extend_from_slice(part));
        }
        decoder.finish(&mut |part| text.extend_from_slice(part));
        text
    }

    #[test]
    fn utf16_is_converted_in_parts_of_any_size() {
        let text = format!(
            "\u{feff}error C1083: \u{65e0}\u{6cd5}\u{6253}\u{5f00} \u{1f600}\r\n{}",
            "x\n".repeat(300)
        );
        let units: Vec<u16> = text.encode_utf16().chain([0xd800, u16::from(b'!'), 0xdc00, 0xd801]).collect();
        let expected = format!("{text}\u{fffd}!\u{fffd}\u{fffd}");
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for size in [1, 2, 3, 255, 256, 257, 10_000] {
            assert_eq!(String::from_utf8(decode(&little, size)).unwrap(), expected, "{size}");
            assert_eq!(String::from_utf8(decode(&big, size)).unwrap(), expected, "{size}");
        }
        let odd = [little.as_slice(), b"x"].concat();
        assert!(decode(&odd, 7).ends_with("\u{fffd}".as_bytes()));
    }

    #[test]
    fn other_bytes_are_unchanged() {
        for log in
            [&b""[..], b"x", b"\xff\xfe", b"\xff\xfe\0 caf\xe9\nerror", b"\xef\xbb\xbferror", &[0; 1000]]
        {
            for size in [1, 300] {
                assert_eq!(decode(log, size), log);
            }
        }
    }
}
