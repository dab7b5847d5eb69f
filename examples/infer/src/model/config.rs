//! The hyperparameters of a model, read from the metadata and checked against each other.

use super::architecture::Architecture;
use super::rope::{Rope, SCALINGS, Scaling};
use crate::gguf::{Error, Gguf, Problem, Value};

/// The hyperparameters that the plan builder needs. Sizes are in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Architecture of the model.
    pub architecture: &'static Architecture,
    /// Human-readable name of the model.
    pub name: String,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Number of layers.
    pub n_layer: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key and value heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Width of a head.
    pub d_head: u32,
    /// Elements of a head that are rotated; even.
    pub n_rot: u32,
    /// Width of the feed-forward part.
    pub n_ff: u32,
    /// Tokens of the vocabulary.
    pub n_vocab: u32,
    /// Longest text in tokens that the model was trained for.
    pub n_ctx_train: u32,
    /// Epsilon of the norms.
    pub eps: f32,
    /// How positions rotate the heads.
    pub rope: Rope,
    /// Attention scores are multiplied by this.
    pub attention_scale: f32,
}

/// Reads keys with the architecture's prefix.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'static Architecture,
}

impl<'a> Keys<'a> {
    /// Determines the architecture.
    fn new(gguf: &'a Gguf) -> Result<Self, Error> {
        const KEY: &str = "general.architecture";
        let name = gguf.required(KEY, gguf.string(KEY)?)?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            let (name, known) = (name.to_owned(), Architecture::names());
            gguf.key_error(KEY, Problem::Unsupported { what: "architecture", name, known })
        })?;
        Ok(Self { gguf, architecture })
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name)
    }

    fn refuse<T>(
        &self,
        name: &str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Result<T, Error> {
        let problem = Problem::Range { value: format!("{value}"), expected: expected.into() };
        Err(self.gguf.key_error(&self.key(name), problem))
    }

    /// A positive integer, if the file has the key.
    fn size(&self, name: &str) -> Result<Option<u32>, Error> {
        match self.gguf.integer(&self.key(name))? {
            Some(0) => self.refuse(name, 0, "positive"),
            // The kernels use signed 32-bit integers.
            Some(value) if value > i32::MAX.unsigned_abs() => self.refuse(name, value, "below 2147483648"),
            other => Ok(other),
        }
    }

    fn required_size(&self, name: &str) -> Result<u32, Error> {
        self.gguf.required(&self.key(name), self.size(name)?)
    }

    /// A number per layer, or one for all; all layers must have the same.
    fn heads_kv(&self) -> Result<Option<u32>, Error> {
        const NAME: &str = "attention.head_count_kv";
        let key = self.key(NAME);
        if !matches!(self.gguf.value(&key), Some(Value::Array { .. })) {
            return self.size(NAME);
        }
        let values = self.gguf.array(&key, "an integer or an array of integers", |value| match value {
            Value::Integer(value) => u32::try_from(value).ok(),
            _ => None,
        })?;
        match values.as_deref() {
            Some([first, rest @ ..]) if *first > 0 && rest.iter().all(|value| value == first) => {
                Ok(Some(*first))
            }
            _ => self.refuse(NAME, "a number per layer", "the same positive number for all layers"),
        }
    }

    fn positive(&self, name: &str, default: Option<f64>) -> Result<f64, Error> {
        let key = self.key(name);
        let value = self.gguf.required(&key, self.gguf.real(&key)?.or(default))?;
        if value > 0.0 { Ok(value) } else { self.refuse(name, value, "positive") }
    }

    /// The rotation parameters.
    fn rope(&self, n_ctx_train: u32) -> Result<Rope, Error> {
        let base = self.positive("rope.freq_base", Some(10_000.0))?;
        if base <= 1.0 {
            return self.refuse("rope.freq_base", base, "above 1");
        }
        Ok(Rope {
            base,
            scaling: self.scaling(n_ctx_train)?,
            attention_factor: self.positive("rope.scaling.attn_factor", Some(1.0))?,
        })
    }

    fn scaling(&self, n_ctx_train: u32) -> Result<Scaling, Error> {
        const TYPE: &str = "rope.scaling.type";
        const FACTOR: &str = "rope.scaling.factor";
        const OLD_FACTOR: &str = "rope.scale_linear";
        let key = self.key(TYPE);
        let is_old = self.gguf.value(&self.key(FACTOR)).is_none();
        let factor = || self.positive(if is_old { OLD_FACTOR } else { FACTOR }, Some(1.0));
        match self.gguf.string(&key)?.unwrap_or("linear") {
            "none" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear { factor: factor()? }),
            "yarn" => Ok(Scaling::Yarn {
                factor: factor()?,
                original: self.size("rope.scaling.original_context_length")?.unwrap_or(n_ctx_train),
                beta_fast: self.positive("rope.scaling.yarn_beta_fast", Some(32.0))?,
                beta_slow: self.positive("rope.scaling.yarn_beta_slow", Some(1.0))?,
            }),
            other => {
                let (name, known) = (other.to_owned(), SCALINGS.to_owned());
                Err(self.gguf.key_error(&key, Problem::Unsupported { what: "rope scaling", name, known }))
            }
        }
    }
}

impl Config {
    /// Reads and checks the hyperparameters.
    ///
    /// # Errors
    /// An unknown architecture, a missing key, a value of the wrong type, or inconsistent values.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        let keys = Keys::new(gguf)?;
        if let Some(experts) = gguf.integer(&keys.key("expert_count"))?.filter(|experts| *experts > 0) {
            return keys.refuse("expert_count", experts, "supported: only dense models are supported");
        }
        let n_embd = keys.required_size("embedding_length")?;
        let n_head = keys.required_size("attention.head_count")?;
        let n_head_kv = keys.heads_kv()?.unwrap_or(n_head);
        if !n_head.is_multiple_of(n_head_kv) {
            let expected = format!("a divisor of the {n_head} query heads");
            return keys.refuse("attention.head_count_kv", n_head_kv, expected);
        }
        let d_head = match keys.size("attention.key_length")? {
            Some(width) => width,
            None if n_embd.is_multiple_of(n_head) => n_embd / n_head,
            None => {
                return keys.refuse(
                    "attention.head_count",
                    n_head,
                    format!("a divisor of the width {n_embd}"),
                );
            }
        };
        if let Some(width) = keys.size("attention.value_length")?.filter(|width| *width != d_head) {
            return keys.refuse("attention.value_length", width, format!("the key length {d_head}"));
        }
        let n_rot = keys.size("rope.dimension_count")?.unwrap_or(d_head);
        if n_rot > d_head || !n_rot.is_multiple_of(2) {
            return keys.refuse(
                "rope.dimension_count",
                n_rot,
                format!("even and at most the head width {d_head}"),
            );
        }
        #[expect(clippy::cast_possible_truncation, reason = "the kernels use 32-bit parameters")]
        let (eps, attention_scale) = (
            keys.positive("attention.layer_norm_rms_epsilon", None)? as f32,
            keys.positive("attention.scale", Some(f64::from(d_head).sqrt().recip()))? as f32,
        );
        let n_ctx_train = keys.required_size("context_length")?;
        let config = Self {
            architecture: keys.architecture,
            name: gguf.string("general.name")?.unwrap_or("unnamed").to_owned(),
            n_embd,
            n_layer: keys.required_size("block_count")?,
            n_head,
            n_head_kv,
            d_head,
            n_rot,
            n_ff: keys.required_size("feed_forward_length")?,
            n_vocab: Self::vocabulary(gguf, &keys)?,
            n_ctx_train,
            eps,
            rope: keys.rope(n_ctx_train)?,
            attention_scale,
        };
        if n_head.checked_mul(d_head).is_none_or(|width| i32::try_from(width).is_err()) {
            return keys.refuse("attention.head_count", n_head, "small enough: all heads together overflow");
        }
        Ok(config)
    }

    /// The size of the vocabulary: the rows of the embedding table; other sizes must match it.
    fn vocabulary(gguf: &Gguf, keys: &Keys<'_>) -> Result<u32, Error> {
        const TABLE: &str = "token_embd.weight";
        const TOKENS: &str = "tokenizer.ggml.tokens";
        let table = gguf.tensor(TABLE).ok_or_else(|| gguf.tensor_error(TABLE, Problem::Missing))?;
        let rows = table.shape.get(1).copied().unwrap_or(1);
        if let Some(size) = keys.size("vocab_size")?.filter(|size| u64::from(*size) != rows) {
            return keys.refuse("vocab_size", size, format!("the {rows} rows of `{TABLE}`"));
        }
        if let Some(Value::Array { count, .. }) = gguf.value(TOKENS)
            && count as u64 != rows
        {
            return Err(gguf.key_error(TOKENS, Problem::Length { expected: rows, found: count as u64 }));
        }
        u32::try_from(rows).ok().filter(|rows| i32::try_from(*rows).is_ok()).ok_or_else(|| {
            let problem = Problem::Range { value: rows.to_string(), expected: "below 2147483648".to_owned() };
            gguf.tensor_error(TABLE, problem)
        })
    }

    /// Width of all query heads together.
    #[must_use]
    pub fn q_width(&self) -> u32 {
        self.n_head * self.d_head
    }

    /// Width of all key heads together.
    #[must_use]
    pub fn kv_width(&self) -> u32 {
        self.n_head_kv * self.d_head
    }
}
