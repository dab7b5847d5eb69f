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
    /// Where the bucket of a hash starts in `places`.
    slots: Vec<u32>,
    /// The places of all buckets, one bucket after the other.
    places: Vec<LiteralPlace>,
    /// The literals, each with its numbers.
    literals: Vec<(Box<[u8]>, Vec<usize>)>,
}

/// A literal in a bucket.
#[derive(Clone, Copy)]
struct LiteralPlace {
    key: u32,
    literal: u32,
    /// Number of bytes from the start of the literal to its key. A literal of four bytes may start one byte after its key.
    offset: i32,
    /// Whether it is the last of its bucket.
    is_last: bool,
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
        let mut places = Vec::new();
        for (literal, text) in (0..).zip(numbers.keys()) {
            let mut add = |bytes: [u8; KEY], offset: i32| {
                places.push(LiteralPlace { key: key(bytes), literal, offset, is_last: false });
            };
            let key = |at: usize| [text[at], text[at + 1], text[at + 2], text[at + 3]];
            // The bytes that fewest other literals have.
            let all = (0..).take(text.len() - KEY);
            let rarest = all.zip(0..).min_by_key(|(_, at)| counts[&key(*at)[..]] + counts[&key(at + 1)[..]]);
            if let Some((offset, at)) = rarest {
                add(key(at), offset);
                add(key(at + 1), offset + 1);
            } else {
                let [first, second, third, _] = key(0);
                add(key(0), 0);
                for before in 0..=u8::MAX {
                    add([before, first, second, third], -1);
                }
            }
        }
        let literals = numbers.into_iter().map(|(text, numbers)| (text.into(), numbers)).collect();
        Self::with_places(places, literals)
    }

    fn with_places(mut places: Vec<LiteralPlace>, literals: Vec<(Box<[u8]>, Vec<usize>)>) -> Self {
        places.sort_by_key(|place| hash(place.key));
        let mut index =
            Self { filter: Box::new([0; WORDS]), slots: vec![0; 1 << BITS], places: Vec::new(), literals };
        for bucket in places.chunk_by_mut(|one, other| hash(one.key) == hash(other.key)) {
            let [.., last] = bucket else { continue };
            last.is_last = true;
            let hash = hash(last.key);
            index.filter[hash / 64] |= 1 << (hash % 64);
            index.slots[hash] = u32::try_from(index.places.len()).unwrap_or(u32::MAX);
            index.places.extend_from_slice(bucket);
        }
        index
    }

    /// Adds the numbers of the literals that occur in a line to `hits`, each at least once.
    pub(super) fn scan(&self, line: &[u8], hits: &mut Vec<usize>) {
        let mut found = Vec::new();
        self.literals(line, &mut found);
        self.numbers(&found, hits);
    }

    /// Adds the numbers of literals to `hits`.
    pub(super) fn numbers(&self, found: &[FoundLiteral], hits: &mut Vec<usize>) {
        for literal in found {
            hits.extend_from_slice(&self.literals[literal.0 as usize].1);
        }
    }

    /// Adds the literals that occur in a line to `found`, each at least once.
    pub(super) fn literals(&self, line: &[u8], found: &mut Vec<FoundLiteral>) {
        let mut at = 0;
        // Eight bytes have three keys, most of which no literal has.
        while let Some(bytes) = line[at..].first_chunk::<8>() {
            let key_at = |at: usize| key([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            // Not `map`, which the compiler does not inline.
            let keys = [key_at(0), key_at(2), key_at(4)];
            if self.has(keys[0]) | self.has(keys[1]) | self.has(keys[2]) {
                for (key, at) in keys.into_iter().zip([at, at + 2, at + 4]) {
                    self.verify(line, at, key, found);
                }
            }
            at += 6;
        }
        while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk::<KEY>()) {
            self.verify(line, at, key(*bytes), found);
            at += 2;
        }
    }

    /// Whether a literal may have a key.
    fn has(&self, key: u32) -> bool {
        let hash = hash(key);
        self.filter[hash / 64] & (1 << (hash % 64)) != 0
    }

    /// Compares the literals of a key with the line. `at` is the offset of the key.
    #[inline]
    fn verify(&self, line: &[u8], at: usize, key: u32, found: &mut Vec<FoundLiteral>) {
        if !self.has(key) {
            return;
        }
        for place in &self.places[self.slots[hash(key)] as usize..] {
            if place.key == key {
                let text = &self.literals[place.literal as usize].0;
                let start = at.checked_add_signed(-(place.offset as isize));
                if start.and_then(|start| line.get(start..)).is_some_and(|rest| starts_with(rest, text)) {
                    found.push(FoundLiteral(place.literal));
                }
            }
            if place.is_last {
                break;
            }
        }
    }
}

/// A literal that a line contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundLiteral(u32);

/// As the method of slices, which calls a function: too slow for the short texts of ten literals in each line.
fn starts_with(line: &[u8], text: &[u8]) -> bool {
    const PART: usize = 8;
    let Some(line) = line.get(..text.len()) else { return false };
    let (Some(end), Some(end_of_text)) = (line.last_chunk::<PART>(), text.last_chunk::<PART>()) else {
        return line.iter().zip(text).all(|(byte, expected)| byte == expected);
    };
    let (parts, _) = line.as_chunks::<PART>();
    let (parts_of_text, _) = text.as_chunks::<PART>();
    end == end_of_text && parts.iter().zip(parts_of_text).all(|(part, expected)| part == expected)
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
