//! Finds which of many literals a line contains, in one pass over every second of its bytes.

use std::collections::{BTreeMap, HashMap};

/// Number of bytes by which literals are indexed.
const KEY: usize = 4;
/// Number of bits of a hash.
const BITS: u32 = 18;
/// Number of these bits that select a bucket. Fewer buckets fit into a faster cache, and most have one place or none.
const BUCKET_BITS: u32 = 16;

/// Number of words of the filter, with one bit per hash.
const WORDS: usize = 1 << (BITS - 6);
/// Maximum number of bytes of a window.
const WINDOW: usize = 8;

/// Literals indexed by four of their bytes and by the four bytes after the first of these: one of the two begins at an even offset
/// of the line.
pub(super) struct SignatureIndex {
    /// Whether a literal has a key with a hash. Small enough for the fastest cache.
    filter: Box<[u64; WORDS]>,
    /// Where each bucket starts in `places`, and the end of the last one.
    starts: Vec<u32>,
    /// The places of all buckets, one bucket after the other.
    places: Vec<LiteralPlace>,
    /// The literals, each with its numbers.
    literals: Vec<(Box<[u8]>, Vec<usize>)>,
}

/// A literal in a bucket.
#[derive(Clone, Copy)]
struct LiteralPlace {
    /// Bytes of the literal around its key. A line with others is excluded without a look at the text of the literal.
    window: u64,
    /// The bits of `window` that count.
    mask: u64,
    literal: u32,
    /// Number of bytes from the start of the literal to its key. A literal of four bytes may start one byte after its key.
    offset: i16,
    /// Number of bytes from the start of the window to the key.
    before: i8,
    /// Whether the window has all bytes of the literal.
    is_complete: bool,
}

impl LiteralPlace {
    /// `offset` is the number of bytes from the start of the literal to its key.
    fn new(literal: u32, text: &[u8], offset: i16) -> Self {
        let last = i16::try_from(text.len().saturating_sub(WINDOW)).unwrap_or(i16::MAX);
        let start = offset.clamp(0, last);
        let bytes = &text[start.unsigned_abs().into()..];
        let bytes = &bytes[..bytes.len().min(WINDOW)];
        Self {
            window: padded(bytes),
            mask: u64::MAX >> (8 * (WINDOW - bytes.len())),
            literal,
            offset,
            before: i8::try_from(offset - start).unwrap_or(i8::MAX),
            is_complete: bytes.len() == text.len(),
        }
    }
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
            let mut add = |bytes: [u8; KEY], offset: i16| {
                places.push((hash(key(bytes)), LiteralPlace::new(literal, text, offset)));
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

    /// `places` have the hashes of their keys.
    fn with_places(mut places: Vec<(usize, LiteralPlace)>, literals: Vec<(Box<[u8]>, Vec<usize>)>) -> Self {
        places.sort_by_key(|(hash, _)| *hash);
        let mut filter = Box::<[u64; WORDS]>::try_from(vec![0; WORDS]).expect("as many words");
        let mut starts = Vec::new();
        for (at, (hash, _)) in (0..).zip(&places) {
            filter[hash / 64] |= 1 << (hash % 64);
            // This bucket, and the empty ones before it.
            starts.resize(starts.len().max(bucket(*hash) + 1), at);
        }
        starts.resize((1 << BUCKET_BITS) + 1, u32::try_from(places.len()).unwrap_or(u32::MAX));
        Self { filter, starts, places: places.into_iter().map(|(_, place)| place).collect(), literals }
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
            let hashes = [hash(key_at(0)), hash(key_at(2)), hash(key_at(4))];
            if self.has(hashes[0]) | self.has(hashes[1]) | self.has(hashes[2]) {
                for (hash, at) in hashes.into_iter().zip([at, at + 2, at + 4]) {
                    if self.has(hash) {
                        self.verify(line, at, hash, found);
                    }
                }
            }
            at += 6;
        }
        while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk::<KEY>()) {
            let hash = hash(key(*bytes));
            if self.has(hash) {
                self.verify(line, at, hash, found);
            }
            at += 2;
        }
    }

    /// Whether a literal may have a key with this hash.
    fn has(&self, hash: usize) -> bool {
        self.filter[hash / 64] & (1 << (hash % 64)) != 0
    }

    /// Compares the literals in the bucket of a hash with the line. `at` is the offset of the key.
    fn verify(&self, line: &[u8], at: usize, hash: usize, found: &mut Vec<FoundLiteral>) {
        let bucket = bucket(hash);
        let places = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        for place in &self.places[places] {
            // Before the start of the line, this is a number behind its end.
            let window = line.get(at.wrapping_add_signed(-isize::from(place.before))..);
            let is_candidate =
                window.is_some_and(|window| (first_bytes(window) ^ place.window) & place.mask == 0);
            if !is_candidate {
                continue;
            }
            let text = &self.literals[place.literal as usize].0;
            let start = at.wrapping_add_signed(-isize::from(place.offset));
            if place.is_complete || line.get(start..).is_some_and(|rest| starts_with(rest, text)) {
                found.push(FoundLiteral(place.literal));
            }
        }
    }
}

/// A literal that a line contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundLiteral(u32);

/// The first eight bytes of a text, with zeros behind its end.
fn first_bytes(text: &[u8]) -> u64 {
    text.first_chunk::<WINDOW>().map_or_else(|| padded(text), |bytes| u64::from_le_bytes(*bytes))
}

/// At most eight bytes, with zeros behind them.
#[cold]
fn padded(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

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

/// The bucket of a hash.
fn bucket(hash: usize) -> usize {
    hash >> (BITS - BUCKET_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_literals_of_a_line_are_found() {
        let literals = [&b"cannot find"[..], b"cannot", b"find -lcuda", b"other", b"uda!", b"ld: ", b"ld: c"];
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
            assert_eq!(scan(&format!("{before}ld: cannot find -lcuda!")), [0, 1, 2, 4, 5, 6], "{before}");
            assert_eq!(scan(&format!("{before}ld: ")), [5], "{before}");
            assert_eq!(scan(&format!("{before}cannot")), [1], "{before}");
            assert_eq!(scan(&format!("{before}cannot fin")), [1], "{before}");
        }
        assert_eq!(scan("can"), [0; 0]);
        assert_eq!(scan(""), [0; 0]);
    }
}
