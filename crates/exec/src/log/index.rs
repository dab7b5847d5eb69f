//! Finds which of many literals a line contains, in one pass over every second of its bytes.

/// Number of bytes by which literals are indexed.
const KEY: usize = 4;
/// Number of bits of a hash.
const BITS: u32 = 17;

/// Literals indexed by their first four bytes and by the four bytes after the first, one of which begins at an even offset.
pub(super) struct SignatureIndex {
    /// One bit per hash: whether its bucket has literals. Small enough for the fastest cache.
    filter: Vec<u64>,
    /// Number of the bucket by hash, starting at 1; 0 if the bucket is empty.
    slots: Vec<u16>,
    buckets: Vec<Vec<IndexedLiteral>>,
}

struct IndexedLiteral {
    text: Box<[u8]>,
    /// Number of bytes from the start of the literal to its key. A literal of four bytes may start one byte after its key.
    offset: isize,
    number: usize,
}

impl SignatureIndex {
    /// Builds an index of literals, each with a number. Literals shorter than four bytes are ignored.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a [u8], usize)>) -> Self {
        let mut index =
            Self { filter: vec![0; 1 << (BITS - 6)], slots: vec![0; 1 << BITS], buckets: vec![Vec::new()] };
        for (text, number) in literals {
            let Some(first) = text.first_chunk::<KEY>() else { continue };
            index.add(*first, text, 0, number);
            if let Some(second) = text[1..].first_chunk::<KEY>() {
                index.add(*second, text, 1, number);
            } else {
                for before in 0..=u8::MAX {
                    index.add([before, first[0], first[1], first[2]], text, -1, number);
                }
            }
        }
        index
    }

    fn add(&mut self, key: [u8; KEY], text: &[u8], offset: isize, number: usize) {
        let hash = hash(key);
        self.filter[hash / 64] |= 1 << (hash % 64);
        let slot = &mut self.slots[hash];
        if *slot == 0 {
            *slot = u16::try_from(self.buckets.len()).unwrap_or(u16::MAX);
            self.buckets.push(Vec::new());
        }
        let bucket = &mut self.buckets[usize::from(*slot)];
        bucket.push(IndexedLiteral { text: text.into(), offset, number });
    }

    /// Adds the numbers of the literals that occur in a line to `hits`, each at least once.
    pub(super) fn scan(&self, line: &[u8], hits: &mut Vec<usize>) {
        for (half, window) in line.windows(KEY).step_by(2).enumerate() {
            let hash = hash([window[0], window[1], window[2], window[3]]);
            if self.filter[hash / 64] & (1 << (hash % 64)) != 0 {
                self.verify(line, half * 2, hash, hits);
            }
        }
    }

    fn verify(&self, line: &[u8], at: usize, hash: usize, hits: &mut Vec<usize>) {
        for literal in &self.buckets[usize::from(self.slots[hash])] {
            let start = at.checked_add_signed(-literal.offset);
            if start.and_then(|start| line.get(start..)).is_some_and(|rest| rest.starts_with(&literal.text)) {
                hits.push(literal.number);
            }
        }
    }
}

/// A hash of four bytes.
fn hash(key: [u8; KEY]) -> usize {
    (u32::from_le_bytes(key).wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_literals_of_a_line_are_found() {
        let literals = [&b"cannot find"[..], b"cannot", b"find -lcuda", b"other", b"uda!", b"ld: "];
        let index = SignatureIndex::new(literals.into_iter().zip(0..));
        let scan = |line: &str| {
            let mut hits = Vec::new();
            index.scan(line.as_bytes(), &mut hits);
            hits.sort_unstable();
            hits.dedup();
            hits
        };
        // At even and odd offsets, and at the end of lines of even and odd length.
        for before in ["", "x", "xy"] {
            assert_eq!(scan(&format!("{before}ld: cannot find -lcuda!")), [0, 1, 2, 4, 5], "{before}");
            assert_eq!(scan(&format!("{before}ld: ")), [5], "{before}");
            assert_eq!(scan(&format!("{before}cannot")), [1], "{before}");
        }
        assert_eq!(scan("can"), [0; 0]);
        assert_eq!(scan(""), [0; 0]);
    }
}
