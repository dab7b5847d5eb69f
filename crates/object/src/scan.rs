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
    let finders: Vec<Finder<'_>> = texts.iter().map(Finder::new).collect();
    let overlap = texts.iter().map(|text| text.len()).max().unwrap_or_default().saturating_sub(1);
    // The end of the piece before and the piece, and where they start in the file.
    let (mut buffer, mut start) = (Vec::new(), 0);
    loop {
        let searched = buffer.len();
        if file.take(piece as u64).read_to_end(&mut buffer)? == 0 {
            return Ok(());
        }
        for (index, (finder, text)) in finders.iter().zip(texts).enumerate() {
            let new = finder.find_iter(&buffer).filter(|at| at + text.len() > searched);
            new.for_each(|at| found(index, start + at as u64));
        }
        let done = buffer.len().saturating_sub(overlap);
        buffer.drain(..done);
        start += done as u64;
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
