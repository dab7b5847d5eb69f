//! Converts text to token ids and back, as the model was trained to see it.
//!
//! Two families: `SentencePiece` with scores (`spm`) and byte-level byte pair encoding with merge ranks
//! (`bpe`). Files that request anything unknown are rejected: a guess would give text that looks right but is
//! not.

mod bpe;
mod merge;
mod pre;
mod spm;
mod stream;
mod vocabulary;

pub use stream::TextStream;
pub use vocabulary::{TokenKind, Vocabulary};

use crate::Error;
use crate::gguf::{Gguf, Problem};
use bpe::Bpe;
use spm::SentencePiece;

/// Whether text like `<s>` in a prompt is parsed as the token of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// Parsed as the token.
    Parse,
    /// Ordinary text.
    Plain,
}

#[derive(Debug)]
enum Family {
    SentencePiece(SentencePiece),
    Bpe(Box<Bpe>),
}

/// The tokenizer of a model.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    family: Family,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
    ends: Vec<u32>,
}

/// Tokens that end a turn; older files have no id for them, or mark them as text.
const END_NAMES: [&str; 10] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<EOT>",
    "<｜end▁of▁sentence｜>",
];

impl Tokenizer {
    /// Reads the tokenizer of a file.
    ///
    /// # Errors
    /// A key is missing, has the wrong type or length, or requests something unknown.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        const MODEL: &str = "tokenizer.ggml.model";
        let model = gguf.required(MODEL, gguf.string(MODEL)?)?;
        let vocabulary = Vocabulary::from_gguf(gguf)?;
        let (family, default_bos) = match model {
            "llama" => (Family::SentencePiece(SentencePiece::from_gguf(gguf, &vocabulary)?), true),
            "gpt2" => {
                let bpe = Bpe::from_gguf(gguf)?;
                let default_bos = bpe.adds_bos();
                (Family::Bpe(Box::new(bpe)), default_bos)
            }
            other => {
                let problem = Problem::Unsupported {
                    what: "tokenizer",
                    name: other.to_owned(),
                    known: "llama, gpt2".to_owned(),
                };
                return Err(gguf.key_error(MODEL, problem).into());
            }
        };
        let id = |key: &str| vocabulary.id_of_key(gguf, key);
        let bos = id("tokenizer.ggml.bos_token_id")?;
        let eos = id("tokenizer.ggml.eos_token_id")?;
        let mut ends = Vec::new();
        for key in ["eos", "eot", "eom"] {
            ends.extend(id(&format!("tokenizer.ggml.{key}_token_id"))?);
        }
        for key in ["unknown", "padding", "separator"] {
            id(&format!("tokenizer.ggml.{key}_token_id"))?;
        }
        for name in END_NAMES {
            let special =
                |id: &u32| matches!(vocabulary.kind(*id), TokenKind::Control | TokenKind::UserDefined);
            ends.extend(vocabulary.id(name).filter(special));
        }
        ends.sort_unstable();
        ends.dedup();
        let adds_bos = gguf.boolean("tokenizer.ggml.add_bos_token")?.unwrap_or(default_bos);
        Ok(Self { vocabulary, family, bos, eos, adds_bos, ends })
    }

    /// The tokens of this model.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The token that starts a text, even if this model does not use it.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token that must start every text of this model.
    #[must_use]
    pub fn start(&self) -> Option<u32> {
        self.bos.filter(|_| self.adds_bos)
    }

    /// The ids of a prompt: those of the text, after the token that starts every text of this model.
    ///
    /// # Errors
    /// Same as [`Tokenizer::encode`].
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids: Vec<u32> = self.start().into_iter().collect();
        let body = self.encode(text, Specials::Parse)?;
        // Keeps a start token that the text has already, as with many chat templates; two start tokens
        // confuse models.
        if body.first() == ids.first() {
            ids.clear();
        }
        ids.extend(body);
        Ok(ids)
    }

    /// The ids of a text.
    ///
    /// # Errors
    /// The vocabulary has no token for a byte of it.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        let mut after_special = true;
        for piece in self.vocabulary.split_specials(text, specials) {
            match piece {
                vocabulary::Piece::Special(id) => {
                    ids.push(id);
                    after_special = true;
                }
                vocabulary::Piece::Text(text) => {
                    match &self.family {
                        Family::SentencePiece(family) => {
                            family.encode(&self.vocabulary, text, after_special, &mut ids)?;
                        }
                        Family::Bpe(family) => family.encode(&self.vocabulary, text, &mut ids)?,
                    }
                    after_special = false;
                }
            }
        }
        Ok(ids)
    }

    /// The bytes of a token; empty for control tokens and ids outside the vocabulary.
    #[must_use]
    pub fn bytes(&self, id: u32) -> Vec<u8> {
        let Some(text) = self.vocabulary.text(id) else { return Vec::new() };
        match (self.vocabulary.kind(id), &self.family) {
            (TokenKind::Control | TokenKind::Unused, _) => Vec::new(),
            (TokenKind::Unknown, _) => "\u{FFFD}".as_bytes().to_vec(),
            (TokenKind::Byte, _) => {
                spm::byte_of(text).map_or_else(|| text.as_bytes().to_vec(), |byte| vec![byte])
            }
            (_, Family::SentencePiece(_)) => text.replace(spm::SPACE, " ").into_bytes(),
            (TokenKind::UserDefined, Family::Bpe(_)) => text.as_bytes().to_vec(),
            (TokenKind::Normal, Family::Bpe(family)) => family.decode(text),
        }
    }

    /// True if a token ends the text.
    #[must_use]
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// A stream for the text after a prompt. After an empty prompt, the space that `SentencePiece` puts
    /// before the first word is not part of the text.
    #[must_use]
    pub fn stream(&self, prompt: &str) -> TextStream {
        let adds_space = matches!(&self.family, Family::SentencePiece(family) if family.adds_space());
        TextStream::new(prompt.is_empty() && adds_space)
    }
}
