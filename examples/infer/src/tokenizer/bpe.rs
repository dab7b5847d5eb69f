//! Byte-level byte pair encoding: a pattern splits the text into words, bytes become printable characters,
//! and ranked merges join them.

use super::merge::merge;
use super::pre::{Cutter, PreTokenizer};
use super::vocabulary::Vocabulary;
use crate::Error;
use crate::gguf::{self, Gguf, Problem};
use std::collections::HashMap;

/// Ranks of the merges, and the patterns.
#[derive(Debug)]
pub(super) struct Bpe {
    cutter: Cutter,
    whole_words: bool,
    adds_bos: bool,
    /// Rank of `left right`, the two halves joined by a space, as in the file.
    ranks: HashMap<String, f64>,
    byte_to_char: [char; 256],
    char_to_byte: HashMap<char, u8>,
}

/// The printable character for each byte: itself if it is printable Latin-1, else the next character from
/// U+0100 on.
fn byte_alphabet() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let byte = u8::try_from(byte).expect("256 entries");
        match byte {
            0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                let character = char::from_u32(next).expect("below U+0200");
                next += 1;
                character
            }
        }
    })
}

impl Bpe {
    pub(super) fn from_gguf(gguf: &Gguf) -> Result<Self, gguf::Error> {
        const PRE: &str = "tokenizer.ggml.pre";
        const MERGES: &str = "tokenizer.ggml.merges";
        let name = gguf.required(PRE, gguf.string(PRE)?)?;
        let Some(pre) = PreTokenizer::named(name) else {
            let known = PreTokenizer::known();
            let problem = Problem::Unsupported { what: "pre-tokenizer", name: name.to_owned(), known };
            return Err(gguf.key_error(PRE, problem));
        };
        let merges = gguf.required(MERGES, gguf.strings(MERGES)?)?;
        let mut ranks = HashMap::with_capacity(merges.len());
        for (rank, text) in (0_u32..).zip(merges) {
            let halves = text.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty());
            if halves.is_none() {
                let expected = "two tokens with a space in between".to_owned();
                return Err(gguf.key_error(
                    MERGES,
                    Problem::Range { value: format!("entry {rank}, `{text}`,"), expected },
                ));
            }
            ranks.entry(text.to_owned()).or_insert_with(|| f64::from(rank));
        }
        let byte_to_char = byte_alphabet();
        let char_to_byte = (0_u8..=255).map(|byte| (byte_to_char[usize::from(byte)], byte)).collect();
        Ok(Self {
            cutter: pre.cutter(),
            whole_words: pre.whole_words,
            adds_bos: pre.adds_bos,
            ranks,
            byte_to_char,
            char_to_byte,
        })
    }

    pub(super) fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Appends the ids of a text.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let mut key = String::new();
        for word in self.cutter.words(text)? {
            let mapped: String = word.bytes().map(|byte| self.byte_to_char[usize::from(byte)]).collect();
            if let Some(id) = vocabulary.id(&mapped).filter(|_| self.whole_words) {
                ids.push(id);
                continue;
            }
            let ranges = merge(&mapped, |left, right| {
                key.clear();
                key.extend([left, " ", right]);
                self.ranks.get(&key).map(|rank| -rank)
            });
            for range in ranges {
                let symbol = &mapped[range];
                match vocabulary.id(symbol) {
                    Some(id) => ids.push(id),
                    None => self.fall_back(vocabulary, symbol, ids)?,
                }
            }
        }
        Ok(())
    }

    /// Encodes a merged symbol without a token byte by byte.
    fn fall_back(&self, vocabulary: &Vocabulary, symbol: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        for character in symbol.chars() {
            let id = vocabulary.id(character.encode_utf8(&mut [0; 4])).or(vocabulary.unknown());
            ids.push(id.ok_or_else(|| {
                let byte = self.char_to_byte.get(&character).copied().unwrap_or_default();
                Error::message(format!("the vocabulary of this model has no token for byte 0x{byte:02x}"))
            })?);
        }
        Ok(())
    }

    /// The bytes of a token's text.
    pub(super) fn decode(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            match self.char_to_byte.get(&character) {
                Some(byte) => bytes.push(*byte),
                None => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_is_the_published_one() {
        let alphabet = byte_alphabet();
        assert_eq!((alphabet[0], alphabet[32], alphabet[10], alphabet[0xad]), ('Ā', 'Ġ', 'Ċ', '\u{143}'));
        assert_eq!((alphabet[usize::from(b'a')], alphabet[0xff]), ('a', 'ÿ'));
        let distinct: std::collections::HashSet<char> = alphabet.into_iter().collect();
        assert_eq!(distinct.len(), 256);
    }
}
