//! Which of many literals a line holds, in one pass over its bytes.

use std::collections::BTreeSet;

/// Bytes by which a literal is found before it is compared.
const KEY: usize = 4;

/// Literals by their first bytes.
pub(super) struct SignatureIndex {
    /// By hash of four bytes: the bucket, from 1; 0 for none.
    slots: Vec<u16>,
    buckets: Vec<Vec<(Vec<u8>, usize)>>,
}

impl SignatureIndex {
    /// An index of literals of at least four bytes, each with what it stands for.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a [u8], usize)>) -> Self {
        let mut index = Self { slots: vec![0; 1 << 16], buckets: vec![Vec::new()] };
        for (literal, place) in literals {
            let Some(key) = literal.first_chunk::<KEY>() else { continue };
            let slot = &mut index.slots[hash(*key)];
            if *slot == 0 {
                *slot = u16::try_from(index.buckets.len()).unwrap_or(u16::MAX);
                index.buckets.push(Vec::new());
            }
            index.buckets[usize::from(*slot)].push((literal.to_vec(), place));
        }
        index
    }

    /// Adds what the literals that a line holds stand for.
    pub(super) fn scan(&self, line: &[u8], hits: &mut BTreeSet<usize>) {
        for (at, window) in line.windows(KEY).enumerate() {
            let slot = self.slots[hash([window[0], window[1], window[2], window[3]])];
            if slot != 0 {
                let rest = &line[at..];
                let bucket = &self.buckets[usize::from(slot)];
                hits.extend(
                    bucket.iter().filter(|(text, _)| rest.starts_with(text)).map(|(_, place)| *place),
                );
            }
        }
    }
}

/// Four bytes as a number of 16 bits.
fn hash(key: [u8; KEY]) -> usize {
    (u32::from_le_bytes(key).wrapping_mul(0x9E37_79B1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_literal_of_a_line_is_found() {
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
