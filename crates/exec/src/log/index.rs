//! Finds which of many literals a line contains, in one pass over its bytes.

use std::collections::BTreeSet;

/// Number of leading bytes by which literals are indexed.
const KEY: usize = 4;

/// Literals indexed by their first bytes.
pub(super) struct SignatureIndex {
    /// Index of the bucket by hash of the first bytes, starting at 1; 0 if the bucket is empty.
    slots: Vec<u16>,
    buckets: Vec<Vec<(Vec<u8>, usize)>>,
}

impl SignatureIndex {
    /// Builds an index of literals, each with the index of its signature. Literals shorter than four bytes are ignored.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a [u8], usize)>) -> Self {
        let mut index = Self { slots: vec![0; 1 << 16], buckets: vec![Vec::new()] };
        for (literal, signature) in literals {
            let Some(key) = literal.first_chunk::<KEY>() else { continue };
            let slot = &mut index.slots[hash(*key)];
            if *slot == 0 {
                *slot = u16::try_from(index.buckets.len()).unwrap_or(u16::MAX);
                index.buckets.push(Vec::new());
            }
            index.buckets[usize::from(*slot)].push((literal.to_vec(), signature));
        }
        index
    }

    /// Adds the signatures whose literals occur in a line to `hits`.
    pub(super) fn scan(&self, line: &[u8], hits: &mut BTreeSet<usize>) {
        for (at, window) in line.windows(KEY).enumerate() {
            let slot = self.slots[hash([window[0], window[1], window[2], window[3]])];
            if slot != 0 {
                let rest = &line[at..];
                let bucket = &self.buckets[usize::from(slot)];
                hits.extend(
                    bucket.iter().filter(|(text, _)| rest.starts_with(text)).map(|(_, signature)| *signature),
                );
            }
        }
    }
}

/// A 16-bit hash of four bytes.
fn hash(key: [u8; KEY]) -> usize {
    (u32::from_le_bytes(key).wrapping_mul(0x9E37_79B1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_literals_of_a_line_are_found() {
        let index = SignatureIndex::new(
            [(&b"cannot find"[..], 0), (b"cannot", 1), (b"find -lcuda", 2), (b"other", 3)].into_iter(),
        );
        let mut hits = BTreeSet::new();
        index.scan(b"ld: cannot find -lcuda", &mut hits);
        assert_eq!(hits.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        let mut hits = BTreeSet::new();
        index.scan(b"can", &mut hits);
        index.scan(b"", &mut hits);
        assert!(hits.is_empty());
    }
}
