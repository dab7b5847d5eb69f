//! The numbers of a Llama model, read from the metadata and checked against each other.

use crate::gguf::{Error, Gguf, Problem, Value};

/// What the plan builder needs to know. Sizes are in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Name of the model, for people.
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
    /// Base of the rotation frequencies.
    pub rope_base: f64,
    /// Positions are multiplied by this: 1 / factor of linear scaling.
    pub rope_scale: f64,
    /// Attention scores are multiplied by this.
    pub attention_scale: f32,
}

/// Architectures that this program runs.
const ARCHITECTURES: &str = "llama";

/// Reads keys below the architecture's name.
struct Keys<'a> {
    gguf: &'a Gguf,
}

impl Keys<'_> {
    fn key(name: &str) -> String {
        format!("{ARCHITECTURES}.{name}")
    }

    fn refuse<T>(
        &self,
        name: &str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Result<T, Error> {
        let problem = Problem::Range { value: format!("{value}"), expected: expected.into() };
        Err(self.gguf.key_error(&Self::key(name), problem))
    }

    /// A positive integer, if the file has the key.
    fn size(&self, name: &str) -> Result<Option<u32>, Error> {
        match self.gguf.integer(&Self::key(name))? {
            Some(0) => self.refuse(name, 0, "positive"),
            // The kernels count in 32-bit signed numbers.
            Some(value) if value > i32::MAX.unsigned_abs() => self.refuse(name, value, "below 2147483648"),
            other => Ok(other),
        }
    }

    fn required_size(&self, name: &str) -> Result<u32, Error> {
        self.gguf.required(&Self::key(name), self.size(name)?)
    }

    /// A number per layer, or one for all; only equal ones are supported.
    fn heads_kv(&self) -> Result<Option<u32>, Error> {
        const NAME: &str = "attention.head_count_kv";
        let key = Self::key(NAME);
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
        let key = Self::key(name);
        let value = self.gguf.required(&key, self.gguf.real(&key)?.or(default))?;
        if value > 0.0 { Ok(value) } else { self.refuse(name, value, "positive") }
    }

    /// 1 / factor of linear position scaling.
    fn rope_scale(&self) -> Result<f64, Error> {
        const TYPE: &str = "rope.scaling.type";
        let key = Self::key(TYPE);
        let kind = self.gguf.string(&key)?.unwrap_or("linear");
        let old = self.gguf.real(&Self::key("rope.scale_linear"))?;
        match kind {
            "none" => Ok(1.0),
            "linear" => {
                let name = if old.is_some() { "rope.scale_linear" } else { "rope.scaling.factor" };
                Ok(1.0 / self.positive(name, Some(1.0))?)
            }
            other => {
                let (name, known) = (other.to_owned(), "none, linear".to_owned());
                Err(self.gguf.key_error(&key, Problem::Unsupported { what: "rope scaling", name, known }))
            }
        }
    }
}

impl Config {
    /// Reads and checks the numbers.
    ///
    /// # Errors
    /// Another architecture, a missing key, a value of the wrong type or one that does not fit the others.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        const ARCHITECTURE: &str = "general.architecture";
        let architecture = gguf.required(ARCHITECTURE, gguf.string(ARCHITECTURE)?)?;
        if architecture != ARCHITECTURES {
            let (name, known) = (architecture.to_owned(), ARCHITECTURES.to_owned());
            return Err(
                gguf.key_error(ARCHITECTURE, Problem::Unsupported { what: "architecture", name, known })
            );
        }
        let keys = Keys { gguf };
        if let Some(experts) = gguf.integer(&Keys::key("expert_count"))?.filter(|experts| *experts > 0) {
            return keys.refuse("expert_count", experts, "supported: this program runs dense models only");
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
        #[expect(clippy::cast_possible_truncation, reason = "the kernels take 32-bit parameters")]
        let (eps, attention_scale) = (
            keys.positive("attention.layer_norm_rms_epsilon", None)? as f32,
            keys.positive("attention.scale", Some(f64::from(d_head).sqrt().recip()))? as f32,
        );
        let config = Self {
            name: gguf.string("general.name")?.unwrap_or("unnamed").to_owned(),
            n_embd,
            n_layer: keys.required_size("block_count")?,
            n_head,
            n_head_kv,
            d_head,
            n_rot,
            n_ff: keys.required_size("feed_forward_length")?,
            n_vocab: Self::vocabulary(gguf, &keys)?,
            n_ctx_train: keys.required_size("context_length")?,
            eps,
            rope_base: keys.positive("rope.freq_base", Some(10_000.0))?,
            rope_scale: keys.rope_scale()?,
            attention_scale,
        };
        if n_head.checked_mul(d_head).is_none_or(|width| i32::try_from(width).is_err()) {
            return keys.refuse("attention.head_count", n_head, "small enough: all heads together overflow");
        }
        Ok(config)
    }

    /// The size of the vocabulary: the rows of the embedding table, with which everything else must agree.
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
