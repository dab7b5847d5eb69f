//! Finds which of many literals a line contains, in one pass over every second of its bytes.

use std::collections::{BTreeMap, HashMap};

/// Number of bytes by which literals are indexed.
const KEY: usize = 4;
/// Number of bits of a hash.
const BITS: u32 = 17;

/// Number of words of the filter, with one bit per hash.
const WORDS: usize = 1 << (BITS - 6);

/// Literals indexed by four of their bytes and by the four bytes after the first of these: one of the two begins at an even offset
/// of the line.
pub(super) struct SignatureIndex {
    /// Whether the bucket of a hash has literals. Small enough for the fastest cache.
    filter: Box<[u64; WORDS]>,
    /// Number of the bucket by hash, starting at 1; 0 if the bucket is empty.
    slots: Vec<u16>,
    buckets: Vec<Vec<LiteralPlace>>,
    /// The literals, each with its numbers.
    literals: Vec<(Box<[u8]>, Vec<usize>)>,
}

/// A literal in a bucket.
#[derive(Clone, Copy)]
struct LiteralPlace {
    key: u32,
    literal: usize,
    /// Number of bytes from the start of the literal to its key. A literal of four bytes may start one byte after its key.
    offset: isize,
}

impl SignatureIndex {
    /// Builds an index of literals, each with a number. Literals shorter than four bytes are ignored.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a [u8], usize)>) -> Self {
        let mut numbers: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (text, number) in literals.filter(|(text, _)| text.len() >= KEY) {
            numbers.entry(text).or_default().push(number);
        }
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        for key in numbers.keys().flat_map(|text| text.windows(KEY)) {
            *counts.entry(key).or_default() += 1;
        }
        let mut index = Self {
            filter: Box::new([0; WORDS]),
            slots: vec![0; 1 << BITS],
            buckets: vec![Vec::new()],
            literals: Vec::new(),
        };
        for (literal, text) in numbers.keys().enumerate() {
            let key = |at: usize| [text[at], text[at + 1], text[at + 2], text[at + 3]];
            // The bytes that fewest other literals have.
            let rarest =
                (0..text.len() - KEY).min_by_key(|at| counts[&key(*at)[..]] + counts[&key(at + 1)[..]]);
            if let Some(at) = rarest {
                index.add(key(at), literal, at.cast_signed());
                index.add(key(at + 1), literal, at.cast_signed() + 1);
            } else {
                let [first, second, third, _] = key(0);
                index.add(key(0), literal, 0);
                for before in 0..=u8::MAX {
                    index.add([before, first, second, third], literal, -1);
                }
            }
        }
        index.literals = numbers.into_iter().map(|(text, numbers)| (text.into(), numbers)).collect();
        index
    }

    fn add(&mut self, key: [u8; KEY], literal: usize, offset: isize) {
        let key = self::key(key);
        let hash = hash(key);
        self.filter[hash / 64] |= 1 << (hash % 64);
        let slot = &mut self.slots[hash];
        if *slot == 0 {
            *slot = u16::try_from(self.buckets.len()).unwrap_or(u16::MAX);
            self.buckets.push(Vec::new());
        }
        self.buckets[usize::from(*slot)].push(LiteralPlace { key, literal, offset });
    }

    /// Adds the numbers of the literals that occur in a line to `hits`, each at least once.
    pub(super) fn scan(&self, line: &[u8], hits: &mut Vec<usize>) {
        let mut at = 0;
        // Eight bytes have three keys, most of which no literal has.
        while let Some(bytes) = line[at..].first_chunk::<8>() {
            let key_at = |at: usize| key([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            // Not `map`, which the compiler does not inline.
            let keys = [key_at(0), key_at(2), key_at(4)];
            if self.has(keys[0]) | self.has(keys[1]) | self.has(keys[2]) {
                for (key, at) in keys.into_iter().zip([at, at + 2, at + 4]) {
                    self.verify(line, at, key, hits);
                }
            }
            at += 6;
        }
        while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk::<KEY>()) {
            self.verify(line, at, key(*bytes), hits);
            at += 2;
        }
    }

    /// Whether a literal may have a key.
    fn has(&self, key: u32) -> bool {
        let hash = hash(key);
        self.filter[hash / 64] & (1 << (hash % 64)) != 0
    }

    /// Compares the literals of a key with the line. `at` is the offset of the key.
    fn verify(&self, line: &[u8], at: usize, key: u32, hits: &mut Vec<usize>) {
        if !self.has(key) {
            return;
        }
        for place in &self.buckets[usize::from(self.slots[hash(key)])] {
            if place.key != key {
                continue;
            }
            let (text, numbers) = &self.literals[place.literal];
            let start = at.checked_add_signed(-place.offset);
            if start.and_then(|start| line.get(start..)).is_some_and(|rest| rest.starts_with(text)) {
                hits.extend_from_slice(numbers);
            }
        }
    }
}

fn key(bytes: [u8; KEY]) -> u32 {
    u32::from_le_bytes(bytes)
}

/// A hash of four bytes.
fn hash(key: u32) -> usize {
    (key.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
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
