//! Searches files for byte strings piece by piece, because libraries can be several gigabytes large.

use std::io::{self, Read as _};

use gpubuild_host::{HostPath, ReadFiles};
use memchr::memmem::Finder;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Calls `found` with the index of a text and its offset for each occurrence of the texts in a file.
///
/// # Errors
/// The file cannot be read.
pub fn scan(
    host: &dyn ReadFiles,
    path: &HostPath,
    texts: &[&[u8]],
    found: impl FnMut(usize, u64),
) -> io::Result<()> {
    scan_pieces(&mut host.open(path)?, texts, PIECE, found)
}

fn scan_pieces(
    file: &mut dyn io::Read,
    texts: &[&[u8]],
    piece: usize,
    mut found: impl FnMut(usize, u64),
) -> io::Result<()> {
    let (mut search, mut bytes) = (PieceSearch::new(texts), Vec::new());
    loop {
        bytes.clear();
        if file.take(piece as u64).read_to_end(&mut bytes)? == 0 {
            return Ok(());
        }
        search.add(&bytes, &mut found);
    }
}

/// A search for byte strings in data that arrives in pieces.
#[derive(Debug)]
pub struct PieceSearch<'t> {
    finders: Vec<Finder<'t>>,
    /// The most bytes of an occurrence that can be in the pieces so far.
    overlap: usize,
    /// The end of the pieces so far, and where it starts.
    end: (Vec<u8>, u64),
}

impl<'t> PieceSearch<'t> {
    /// A search for these texts.
    #[must_use]
    pub fn new(texts: &[&'t [u8]]) -> Self {
        let overlap = texts.iter().map(|text| text.len()).max().unwrap_or_default().saturating_sub(1);
        let finders = texts.iter().map(|text| Finder::new(*text)).collect();
        Self { finders, overlap, end: (Vec::new(), 0) }
    }

    /// Searches the next piece. Calls `found` with the index of a text and its offset in all pieces for each occurrence.
    pub fn add(&mut self, piece: &[u8], found: &mut impl FnMut(usize, u64)) {
        let (buffer, start) = &mut self.end;
        let searched = buffer.len();
        buffer.extend_from_slice(piece);
        for (index, finder) in self.finders.iter().enumerate() {
            let new = finder.find_iter(buffer).filter(|at| at + finder.needle().len() > searched);
            new.for_each(|at| found(index, *start + at as u64));
        }
        let done = buffer.len().saturating_sub(self.overlap);
        buffer.drain(..done);
        *start += done as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_once_wherever_pieces_end() {
        let content = b"abc--abcabc-bc";
        for piece in 1..=content.len() + 1 {
            let mut hits = Vec::new();
            scan_pieces(&mut &content[..], &[b"abc", b"bc"], piece, |text, at| hits.push((text, at)))
                .unwrap();
            hits.sort_unstable();
            assert_eq!(hits, [(0, 0), (0, 5), (0, 8), (1, 1), (1, 6), (1, 9), (1, 12)], "{piece}");
        }
    }
}
