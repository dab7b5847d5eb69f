//! The tokens of a model and their kinds.

use super::Specials;
use crate::gguf::{self, Gguf, Problem, Value};
use std::collections::HashMap;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Text.
    Normal,
    /// Represents text without a token.
    Unknown,
    /// Controls the model and is not text: `<s>`.
    Control,
    /// Text that is never split.
    UserDefined,
    /// Reserved.
    Unused,
    /// One byte: `<0x0A>`.
    Byte,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text to be split into tokens.
    Text(&'a str),
    /// A special token in the text.
    Special(u32),
}

/// All tokens by id and by text.
#[derive(Debug)]
pub struct Vocabulary {
    tokens: Vec<String>,
    kinds: Vec<TokenKind>,
    index: HashMap<String, u32>,
    /// Control, unknown and user-defined tokens, longest first.
    specials: Vec<u32>,
    unknown: Option<u32>,
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";

impl Vocabulary {
    pub(super) fn from_gguf(gguf: &Gguf) -> Result<Self, gguf::Error> {
        let tokens = gguf.required(TOKENS, gguf.strings(TOKENS)?)?;
        if tokens.is_empty() || i32::try_from(tokens.len()).is_err() {
            let value = format!("{} tokens", tokens.len());
            return Err(
                gguf.key_error(TOKENS, Problem::Range { value, expected: "1 to 2147483647".to_owned() })
            );
        }
        let tokens: Vec<String> = tokens.into_iter().map(str::to_owned).collect();
        let kinds = Self::kinds(gguf, tokens.len())?;
        let mut index = HashMap::with_capacity(tokens.len());
        for (id, token) in (0_u32..).zip(&tokens) {
            index.entry(token.clone()).or_insert(id);
        }
        let special = |id: &u32| {
            let kind = kinds[*id as usize];
            matches!(kind, TokenKind::Control | TokenKind::UserDefined | TokenKind::Unknown)
                && !tokens[*id as usize].is_empty()
        };
        let count = u32::try_from(tokens.len()).expect("checked above");
        let mut specials: Vec<u32> = (0..count).filter(special).collect();
        specials.sort_by_key(|id| std::cmp::Reverse(tokens[*id as usize].len()));
        let mut vocabulary = Self { tokens, kinds, index, specials, unknown: None };
        vocabulary.unknown = vocabulary.id_of_key(gguf, "tokenizer.ggml.unknown_token_id")?;
        if vocabulary.unknown.is_none() {
            vocabulary.unknown = (0..count).find(|id| vocabulary.kind(*id) == TokenKind::Unknown);
        }
        Ok(vocabulary)
    }

    fn kinds(gguf: &Gguf, count: usize) -> Result<Vec<TokenKind>, gguf::Error> {
        let numbers = gguf.array(TYPES, "an array of integers", |value| match value {
            Value::Integer(number) => Some(number),
            _ => None,
        })?;
        let Some(numbers) = numbers else { return Ok(vec![TokenKind::Normal; count]) };
        if numbers.len() != count {
            let problem = Problem::Length { expected: count as u64, found: numbers.len() as u64 };
            return Err(gguf.key_error(TYPES, problem));
        }
        let kind = |number: i128| {
            Ok(match number {
                1 => TokenKind::Normal,
                2 => TokenKind::Unknown,
                3 => TokenKind::Control,
                4 => TokenKind::UserDefined,
                5 => TokenKind::Unused,
                6 => TokenKind::Byte,
                other => {
                    let problem = Problem::Range {
                        value: other.to_string(),
                        expected: "a token type, 1 to 6".to_owned(),
                    };
                    return Err(gguf.key_error(TYPES, problem));
                }
            })
        };
        numbers.into_iter().map(kind).collect()
    }

    /// The token id in a key, if the file has the key.
    pub(super) fn id_of_key(&self, gguf: &Gguf, key: &str) -> Result<Option<u32>, gguf::Error> {
        match gguf.integer(key)? {
            Some(id) if id as usize >= self.tokens.len() => {
                let expected = format!("an id of a vocabulary of {} tokens", self.tokens.len());
                Err(gguf.key_error(key, Problem::Range { value: id.to_string(), expected }))
            }
            other => Ok(other),
        }
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Never true: an empty vocabulary is rejected when it is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The id of a token.
    #[must_use]
    pub fn id(&self, text: &str) -> Option<u32> {
        self.index.get(text).copied()
    }

    /// The text of a token, as in the file.
    #[must_use]
    pub fn text(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// The kind of a token; ids outside the vocabulary are unused.
    #[must_use]
    pub fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// The token for unknown text.
    #[must_use]
    pub fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// Splits a text at special tokens; the longest name wins.
    pub(super) fn split_specials<'a>(&self, text: &'a str, specials: Specials) -> Vec<Piece<'a>> {
        let mut pieces = vec![Piece::Text(text)];
        for id in &self.specials {
            // User-defined tokens are text and are recognised in plain text too.
            if specials == Specials::Plain && self.kind(*id) != TokenKind::UserDefined {
                continue;
            }
            let name = &self.tokens[*id as usize];
            if !text.contains(name.as_str()) {
                continue;
            }
            pieces = pieces.into_iter().flat_map(|piece| Self::split_at(piece, name, *id)).collect();
        }
        pieces.retain(|piece| *piece != Piece::Text(""));
        pieces
    }

    fn split_at<'a>(piece: Piece<'a>, name: &str, id: u32) -> Vec<Piece<'a>> {
        let Piece::Text(text) = piece else { return vec![piece] };
        let mut pieces = Vec::new();
        for part in text.split(name) {
            pieces.extend([Piece::Text(part), Piece::Special(id)]);
        }
        pieces.pop();
        pieces
    }
}
