//! `SentencePiece` with scores and byte fallback, as in Llama 1 and 2 and derived models.

use super::merge::merge;
use super::vocabulary::Vocabulary;
use crate::Error;
use crate::gguf::{self, Gguf, Problem, Value};

/// Represents a space inside tokens.
pub(super) const SPACE: char = '\u{2581}';

/// Scores of the tokens.
#[derive(Debug)]
pub(super) struct SentencePiece {
    scores: Vec<f64>,
    add_space: bool,
}

impl SentencePiece {
    pub(super) fn from_gguf(gguf: &Gguf, vocabulary: &Vocabulary) -> Result<Self, gguf::Error> {
        const SCORES: &str = "tokenizer.ggml.scores";
        let scores = gguf.array(SCORES, "an array of real numbers", |value| match value {
            Value::Real(score) => Some(score),
            _ => None,
        })?;
        let scores = gguf.required(SCORES, scores)?;
        if scores.len() != vocabulary.len() {
            let problem = Problem::Length { expected: vocabulary.len() as u64, found: scores.len() as u64 };
            return Err(gguf.key_error(SCORES, problem));
        }
        let add_space = gguf.boolean("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(Self { scores, add_space })
    }

    pub(super) fn adds_space(&self) -> bool {
        self.add_space
    }

    /// Appends the ids of a text. `at_start`: it is at the start, or after a special token.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        at_start: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let mut escaped = String::with_capacity(text.len() + 3);
        if self.add_space && at_start {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(|character| if character == ' ' { SPACE } else { character }));
        let mut both = String::new();
        let ranges = merge(&escaped, |left, right| {
            both.clear();
            both.push_str(left);
            both.push_str(right);
            vocabulary.id(&both).map(|id| self.scores[id as usize])
        });
        for range in ranges {
            let symbol = &escaped[range];
            match vocabulary.id(symbol) {
                Some(id) => ids.push(id),
                None => fall_back(vocabulary, symbol, ids)?,
            }
        }
        Ok(())
    }
}

/// Encodes a symbol without a token byte by byte, or as the unknown token.
fn fall_back(vocabulary: &Vocabulary, symbol: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
    let bytes: Option<Vec<u32>> =
        symbol.bytes().map(|byte| vocabulary.id(&format!("<0x{byte:02X}>"))).collect();
    match (bytes, vocabulary.unknown()) {
        (Some(bytes), _) => ids.extend(bytes),
        (None, Some(unknown)) => ids.push(unknown),
        (None, None) => {
            return Err(Error::message(format!("the vocabulary of this model has no token for `{symbol}`")));
        }
    }
    Ok(())
}

/// The byte that a token such as `<0x0A>` represents.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}
