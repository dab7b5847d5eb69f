//! Writes small random models of every architecture to files, to compare forward passes, including those of
//! other programs.

use super::architecture::Architecture;
use super::rope::{Rope, Scaling};
use super::tensors::{self, OUTPUT, OUTPUT_NORM, ROPE_FREQS, Role, Spec};
use super::{Config, noise};
use crate::Error;
use crate::gguf::{TensorType, Writer};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Parameters of a random model. [`Recipe::new`] returns a small one that supports every weight type.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Architecture of the model.
    pub architecture: &'static Architecture,
    /// Type of the matrices.
    pub kind: TensorType,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Use the embedding table as the output matrix too.
    pub tied: bool,
    /// Include the biases that are optional in the architecture.
    pub biases: bool,
    /// Include divisors of the frequencies as in Llama 3.
    pub rope_factors: bool,
    /// How positions beyond the trained context are scaled.
    pub scaling: Scaling,
    /// Elements of a head that are rotated; 0 = all.
    pub n_rot: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Layers.
    pub n_layer: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key and value heads.
    pub n_head_kv: u32,
    /// Width of a head.
    pub d_head: u32,
    /// Width of the feed-forward part.
    pub n_ff: u32,
    /// Tokens of the vocabulary, at least 259.
    pub n_vocab: u32,
    /// Longest text.
    pub n_ctx: u32,
}

/// Tokens of the vocabulary that are not words: unknown, start, end, and all bytes.
const NOT_WORDS: u32 = 3 + 256;
const EPS: f32 = 1e-5;
const BASE: f32 = 10_000.0;
/// The last norm multiplies by about this, so that differences between logits are far larger than rounding
/// errors.
const LOGITS: f32 = 4.0;

impl Recipe {
    /// Two layers of four heads, of which two share keys; all widths are multiples of every block size.
    #[must_use]
    pub fn new(architecture: &'static Architecture, kind: TensorType, seed: u64) -> Self {
        Self {
            architecture,
            kind,
            seed,
            tied: false,
            biases: false,
            rope_factors: false,
            scaling: Scaling::None,
            n_rot: 0,
            n_embd: 256,
            n_layer: 2,
            n_head: 4,
            n_head_kv: 2,
            d_head: 64,
            n_ff: 512,
            n_vocab: 320,
            n_ctx: 256,
        }
    }

    /// The hyperparameters of the model.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            architecture: self.architecture,
            name: format!("random {} {}", self.architecture.name, self.kind),
            n_embd: self.n_embd,
            n_layer: self.n_layer,
            n_head: self.n_head,
            n_head_kv: self.n_head_kv,
            d_head: self.d_head,
            n_rot: if self.n_rot == 0 { self.d_head } else { self.n_rot },
            n_ff: self.n_ff,
            n_vocab: self.n_vocab,
            n_ctx_train: self.n_ctx,
            eps: EPS,
            rope: Rope { base: BASE.into(), scaling: self.scaling, attention_factor: 1.0 },
            #[expect(clippy::cast_possible_truncation, reason = "the kernels use 32-bit parameters")]
            attention_scale: f64::from(self.d_head).sqrt().recip() as f32,
        }
    }

    /// Builds the file, with a SentencePiece vocabulary of bytes and invented words.
    ///
    /// # Errors
    /// A feature that the architecture does not have, or rows that are not a multiple of the type's blocks.
    pub fn write(&self) -> Result<Writer, Error> {
        let config = self.config();
        if self.n_vocab < NOT_WORDS {
            return Err(Error::message(format!(
                "a vocabulary of {} is too small: it needs at least {NOT_WORDS}",
                self.n_vocab
            )));
        }
        let mut specs = tensors::possible(&config, self.kind);
        if self.rope_factors && !specs.iter().any(|spec| spec.name == ROPE_FREQS) {
            let name = self.architecture.name;
            return Err(Error::message(format!("models of architecture `{name}` have no rope factors")));
        }
        specs.retain(|spec| spec.required || self.wants(&spec.name));
        let mut writer = self.vocabulary(self.metadata(&config));
        for (spec, data) in specs.iter().zip(self.all_data(&specs)) {
            let shape = if spec.role == Role::Matrix {
                vec![u64::from(spec.width), u64::from(spec.rows)]
            } else {
                vec![u64::from(spec.width)]
            };
            writer = writer.tensor(&spec.name, &shape, spec.kind, data?);
        }
        Ok(writer)
    }

    /// True if this model has an optional tensor.
    fn wants(&self, name: &str) -> bool {
        match name {
            OUTPUT => !self.tied,
            ROPE_FREQS => self.rope_factors,
            _ => self.biases,
        }
    }

    fn metadata(&self, config: &Config) -> Writer {
        let key = |name: &str| format!("{}.{name}", self.architecture.name);
        let mut writer = Writer::new()
            .string("general.architecture", self.architecture.name)
            .string("general.name", &config.name)
            .integer(&key("vocab_size"), self.n_vocab)
            .integer(&key("context_length"), self.n_ctx)
            .integer(&key("embedding_length"), self.n_embd)
            .integer(&key("block_count"), self.n_layer)
            .integer(&key("feed_forward_length"), self.n_ff)
            .integer(&key("attention.head_count"), self.n_head)
            .integer(&key("attention.head_count_kv"), self.n_head_kv)
            .integer(&key("attention.key_length"), self.d_head)
            .integer(&key("attention.value_length"), self.d_head)
            .integer(&key("rope.dimension_count"), config.n_rot)
            .real(&key("rope.freq_base"), BASE)
            .real(&key("attention.layer_norm_rms_epsilon"), EPS);
        let (kind, factor) = match self.scaling {
            Scaling::None => return writer,
            Scaling::Linear { factor } => ("linear", factor),
            Scaling::Yarn { factor, original, .. } => {
                writer = writer.integer(&key("rope.scaling.original_context_length"), original);
                ("yarn", factor)
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "the file has 32-bit numbers")]
        let factor = factor as f32;
        writer.string(&key("rope.scaling.type"), kind).real(&key("rope.scaling.factor"), factor)
    }

    /// Words that no text contains, so that texts are tokenised as bytes.
    fn vocabulary(&self, writer: Writer) -> Writer {
        let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
        tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
        tokens.extend((NOT_WORDS..self.n_vocab).map(|id| format!("\u{2581}word{id}")));
        let kinds = |id: usize| match id {
            0 => 2,
            1 | 2 => 3,
            3..259 => 6,
            _ => 1,
        };
        let kinds: Vec<i32> = (0..tokens.len()).map(kinds).collect();
        writer
            .string("tokenizer.ggml.model", "llama")
            .strings("tokenizer.ggml.tokens", &tokens)
            .reals("tokenizer.ggml.scores", &vec![0.0; tokens.len()])
            .integers("tokenizer.ggml.token_type", &kinds)
            .integer("tokenizer.ggml.bos_token_id", 1)
            .integer("tokenizer.ggml.eos_token_id", 2)
            .integer("tokenizer.ggml.unknown_token_id", 0)
    }

    /// The bytes of all tensors, generated on all cores: each tensor has its own random stream.
    fn all_data(&self, specs: &[Spec]) -> Vec<Result<Vec<u8>, Error>> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicUsize::new(0);
        let work = || {
            let indices = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let mine = indices.take_while(|index| *index < specs.len());
            mine.map(|index| (index, self.data(&specs[index]))).collect::<Vec<_>>()
        };
        let mut made: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let joined =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        });
        made.sort_by_key(|(index, _)| *index);
        made.into_iter().map(|(_, data)| data).collect()
    }

    fn data(&self, spec: &Spec) -> Result<Vec<u8>, Error> {
        let mut stream = noise::stream(self.seed, &spec.name);
        if spec.role != Role::Matrix {
            return Ok(match spec.name.as_str() {
                // From 1 for the fast pairs to 8 for the slow ones, as in Llama 3.
                ROPE_FREQS => factors(spec.width),
                OUTPUT_NORM => noise::vector(&mut stream, spec.width, LOGITS, 0.5),
                name if name.ends_with("norm.weight") => noise::vector(&mut stream, spec.width, 1.0, 0.2),
                _ => noise::vector(&mut stream, spec.width, 0.0, 0.5),
            });
        }
        let bytes = spec.kind.row_bytes(spec.width.into()).and_then(|row| row.checked_mul(spec.rows.into()));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
            let (width, kind) = (spec.width, spec.kind);
            Error::message(format!(
                "rows of {width} elements are not a multiple of {kind} blocks: tensor `{}`",
                spec.name
            ))
        })?;
        let mut data = vec![0; bytes];
        noise::fill(spec.kind, &mut data, f64::from(spec.width).sqrt().recip(), &mut stream);
        Ok(data)
    }
}

fn factors(pairs: u32) -> Vec<u8> {
    let factor = |pair: u32| 8_f64.powf(f64::from(pair) / f64::from(pairs.max(2) - 1));
    #[expect(clippy::cast_possible_truncation, reason = "the file has 32-bit numbers")]
    (0..pairs).flat_map(|pair| (factor(pair) as f32).to_le_bytes()).collect()
}
