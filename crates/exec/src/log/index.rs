//! Finds which of many literals a line contains, in one pass over every second of its bytes.

use std::collections::{BTreeMap, HashMap};

use super::buckets::{BucketBuilder, FoundLiteral, KEY, LiteralBuckets};

/// Literals indexed by four of their bytes and by the four bytes after the first of these: one of the two begins at an even offset
/// of the line.
pub(super) struct SignatureIndex {
    pairs: LiteralBuckets,
    /// The literals with digits, by four bytes of which at least one is a digit.
    digits: LiteralBuckets,
    /// The literals, those without digits first.
    texts: Vec<Box<[u8]>>,
    /// Number of literals without digits.
    plain: usize,
    /// The numbers of each literal.
    numbers: Vec<Vec<usize>>,
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
        let (with_digits, plain): (Vec<_>, Vec<_>) =
            numbers.into_iter().partition(|(text, _)| has_digit(text));
        let (plain, all) = (plain.len(), [plain, with_digits].concat());
        let (mut pairs, mut digits) = (BucketBuilder::default(), BucketBuilder::default());
        for (literal, (text, _)) in (0..).zip(&all) {
            let key = |at: usize| [text[at], text[at + 1], text[at + 2], text[at + 3]];
            // The bytes that fewest other literals have.
            let count = |at: usize| counts[&key(at)[..]];
            let offsets = || (0..).zip(0..=text.len() - KEY);
            let first = offsets().take(text.len() - KEY);
            if let Some((offset, at)) = first.min_by_key(|(_, at)| count(*at) + count(at + 1)) {
                pairs.add(key(at), literal, text, offset);
                pairs.add(key(at + 1), literal, text, offset + 1);
            } else {
                let [first, second, third, _] = key(0);
                pairs.add(key(0), literal, text, 0);
                for before in 0..=u8::MAX {
                    pairs.add([before, first, second, third], literal, text, -1);
                }
            }
            let with_digit = offsets().filter(|(_, at)| has_digit(&key(*at)));
            if let Some((offset, at)) = with_digit.min_by_key(|(_, at)| count(*at)) {
                digits.add(key(at), literal, text, offset);
            }
        }
        Self {
            pairs: pairs.build(),
            digits: digits.build(),
            texts: all.iter().map(|(text, _)| (*text).into()).collect(),
            plain,
            numbers: all.into_iter().map(|(_, numbers)| numbers).collect(),
        }
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
            hits.extend_from_slice(&self.numbers[literal.index()]);
        }
    }

    /// Adds the literals that occur in a line to `found`, each at least once.
    pub(super) fn literals(&self, line: &[u8], found: &mut Vec<FoundLiteral>) {
        let mut at = 0;
        // Eight bytes have three keys, most of which no literal has.
        while let Some(bytes) = line[at..].first_chunk::<8>() {
            let key_at = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            // Not `map`, which the compiler does not inline.
            let keys = [key_at(0), key_at(2), key_at(4)];
            if self.pairs.has(keys[0]) | self.pairs.has(keys[1]) | self.pairs.has(keys[2]) {
                for (key, at) in keys.into_iter().zip([at, at + 2, at + 4]) {
                    if self.pairs.has(key) {
                        self.pairs.find(key, line, at, &self.texts, found);
                    }
                }
            }
            at += 6;
        }
        while let Some(key) = line.get(at..).and_then(|rest| rest.first_chunk::<KEY>()) {
            if self.pairs.has(*key) {
                self.pairs.find(*key, line, at, &self.texts, found);
            }
            at += 2;
        }
    }

    /// As `literals`, for a line that differs only in its numbers from the one with the literals `before`.
    pub(super) fn literals_like(&self, before: &[FoundLiteral], line: &[u8], found: &mut Vec<FoundLiteral>) {
        found.extend(before.iter().filter(|literal| literal.index() < self.plain));
        let mut next = 0;
        for digit in (0..line.len()).filter(|at| line[*at].is_ascii_digit()) {
            // The keys that contain it, except those that contain the digit before it.
            for at in next.max((digit + 1).saturating_sub(KEY))..=digit {
                let Some(key) = line[at..].first_chunk::<KEY>() else { break };
                if self.digits.has(*key) {
                    self.digits.find(*key, line, at, &self.texts, found);
                }
            }
            next = digit + 1;
        }
    }
}

fn has_digit(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
}

/// Whether two lines differ only in their numbers: in digits, and in how many of them follow each other.
pub(super) fn differ_in_numbers<'a>(mut one: &'a [u8], mut other: &'a [u8]) -> bool {
    let mut is_number = false;
    loop {
        let same = same_start(one, other);
        is_number = same.checked_sub(1).map_or(is_number, |last| one[last].is_ascii_digit());
        let rest = [one, other].map(|line| &line[same..]);
        if rest.iter().all(|line| line.is_empty()) {
            return true;
        }
        let behind = rest.map(behind_digits);
        let digits = [0, 1].map(|line| rest[line].len() - behind[line].len());
        let are_numbers = if is_number { digits != [0, 0] } else { !digits.contains(&0) };
        if !are_numbers {
            return false;
        }
        ([one, other], is_number) = (behind, true);
    }
}

/// Number of bytes with which both texts begin.
fn same_start(one: &[u8], other: &[u8]) -> usize {
    let (parts, _) = one.as_chunks::<8>();
    let (parts_of_other, _) = other.as_chunks::<8>();
    for (at, (part, expected)) in parts.iter().zip(parts_of_other).enumerate() {
        let difference = u64::from_le_bytes(*part) ^ u64::from_le_bytes(*expected);
        if difference != 0 {
            return 8 * at + difference.trailing_zeros() as usize / 8;
        }
    }
    let start = 8 * parts.len().min(parts_of_other.len());
    let rest = one[start..].iter().zip(&other[start..]);
    start + rest.take_while(|(byte, expected)| byte == expected).count()
}

/// A text without the digits with which it begins.
fn behind_digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    &text[end.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITERALS: [&[u8]; 10] = [
        b"cannot find",
        b"cannot",
        b"find -lcuda",
        b"other",
        b"uda!",
        b"ld: ",
        b"ld: c",
        b"LNK2001",
        b"12.8 of",
        b"sm_9",
    ];

    fn sorted(index: &SignatureIndex, found: &[FoundLiteral]) -> Vec<usize> {
        let mut hits = Vec::new();
        index.numbers(found, &mut hits);
        hits.sort_unstable();
        hits.dedup();
        hits
    }

    #[test]
    fn all_literals_of_a_line_are_found() {
        let index = SignatureIndex::new(LITERALS.into_iter().zip(0..));
        let scan = |line: &str| {
            let mut found = Vec::new();
            index.literals(line.as_bytes(), &mut found);
            sorted(&index, &found)
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

    #[test]
    fn literals_of_similar_lines_are_the_same_as_without_the_other_line() {
        let index = SignatureIndex::new(LITERALS.into_iter().zip(0..));
        let lines = [
            "a1.obj: LNK2001: cannot find 12.8 of sm_90",
            "a22.obj: LNK2001: cannot find 12.8 of sm_9",
            "a333.obj: LNK2002: cannot find 2.8 of sm_80",
            "a4.obj: LNK20010: cannot find 112.8 of sm_90",
            "a5.obj: LNK2001: cannot find 12.81 of sm_9",
        ];
        for before in lines {
            let mut of_before = Vec::new();
            index.literals(before.as_bytes(), &mut of_before);
            for line in lines {
                assert!(differ_in_numbers(before.as_bytes(), line.as_bytes()), "{before} {line}");
                let (mut found, mut expected) = (Vec::new(), Vec::new());
                index.literals(line.as_bytes(), &mut expected);
                index.literals_like(&of_before, line.as_bytes(), &mut found);
                assert_eq!(sorted(&index, &found), sorted(&index, &expected), "{before} {line}");
            }
        }
    }

    #[test]
    fn lines_with_other_text_differ_in_more_than_numbers() {
        for (one, other, expected) in [
            ("", "", true),
            ("a1", "a22", true),
            ("1", "", false),
            ("a1b", "ab", false),
            ("a1b", "a2c", false),
            ("a12b3", "a1b33", true),
            ("12", "345", true),
            ("a.1", "a1.", false),
        ] {
            assert_eq!(differ_in_numbers(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
            assert_eq!(differ_in_numbers(other.as_bytes(), one.as_bytes()), expected, "{other} {one}");
        }
    }
}
