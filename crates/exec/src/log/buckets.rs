//! A hash table of literals by four of their bytes.

/// Number of bytes of a key.
pub(super) const KEY: usize = 4;
/// Number of bits of a hash.
const BITS: u32 = 18;
/// Number of these bits that select a bucket. Fewer buckets fit into a faster cache, and most have one place or none.
const BUCKET_BITS: u32 = 16;

/// Number of words of the filter, with one bit per hash.
const WORDS: usize = 1 << (BITS - 6);
/// Maximum number of bytes of a window.
const WINDOW: usize = 8;

/// Keys of literals and where they are in the literals.
pub(super) struct LiteralBuckets {
    /// Whether there is a key with a hash. Small enough for the fastest cache.
    filter: Box<[u64; WORDS]>,
    /// Where each bucket starts in `places`, and the end of the last one.
    starts: Vec<u32>,
    /// The places of all buckets, one bucket after the other.
    places: Vec<LiteralPlace>,
}

/// The place of a key in a literal.
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

/// Collects keys.
#[derive(Default)]
pub(super) struct BucketBuilder {
    /// Places with the hashes of their keys.
    places: Vec<(usize, LiteralPlace)>,
}

impl BucketBuilder {
    /// Adds a key of a literal. `offset` is the number of bytes from the start of the literal to the key.
    pub(super) fn add(&mut self, bytes: [u8; KEY], literal: u32, text: &[u8], offset: i16) {
        self.places.push((hash(bytes), LiteralPlace::new(literal, text, offset)));
    }

    pub(super) fn build(mut self) -> LiteralBuckets {
        self.places.sort_by_key(|(hash, _)| *hash);
        let mut filter = Box::<[u64; WORDS]>::try_from(vec![0; WORDS]).expect("as many words");
        let mut starts = Vec::new();
        for (at, (hash, _)) in (0..).zip(&self.places) {
            filter[hash / 64] |= 1 << (hash % 64);
            // This bucket, and the empty ones before it.
            starts.resize(starts.len().max(bucket(*hash) + 1), at);
        }
        starts.resize((1 << BUCKET_BITS) + 1, u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let places = self.places.into_iter().map(|(_, place)| place).collect();
        LiteralBuckets { filter, starts, places }
    }
}

impl LiteralBuckets {
    /// Whether there may be a key.
    #[inline]
    pub(super) fn has(&self, key: [u8; KEY]) -> bool {
        let hash = hash(key);
        self.filter[hash / 64] & (1 << (hash % 64)) != 0
    }

    /// Adds the literals with a key that a line has around it to `found`. `at` is the offset of the key in the line.
    pub(super) fn find(
        &self,
        key: [u8; KEY],
        line: &[u8],
        at: usize,
        texts: &[Box<[u8]>],
        found: &mut Vec<FoundLiteral>,
    ) {
        let bucket = bucket(hash(key));
        let places = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        for place in &self.places[places] {
            if place.occurs(line, at, texts) {
                found.push(FoundLiteral(place.literal));
            }
        }
    }
}

/// The index of a literal that a line contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundLiteral(u32);

impl FoundLiteral {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl LiteralPlace {
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

    #[inline]
    fn occurs(&self, line: &[u8], at: usize, texts: &[Box<[u8]>]) -> bool {
        // Before the start of the line, this is a number behind its end.
        let window = line.get(at.wrapping_add_signed(-isize::from(self.before))..);
        let is_candidate = window.is_some_and(|window| (first_bytes(window) ^ self.window) & self.mask == 0);
        if !is_candidate || self.is_complete {
            return is_candidate;
        }
        let start = at.wrapping_add_signed(-isize::from(self.offset));
        line.get(start..).is_some_and(|rest| starts_with(rest, &texts[self.literal as usize]))
    }
}

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

/// A hash of a key.
fn hash(key: [u8; KEY]) -> usize {
    (u32::from_le_bytes(key).wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

/// The bucket of a hash.
fn bucket(hash: usize) -> usize {
    hash >> (BITS - BUCKET_BITS)
}
