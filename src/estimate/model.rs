//! The bytes of a language model: weights, key and value cache, activations. `file` computes them from a file.

use gpubuild_gguf::TensorType;
use serde::{Deserialize, Serialize};

/// Tokens that are processed at once, as llama.cpp does by default.
const ROWS: u64 = 512;

/// The dimensions of a decoder with grouped heads and a gated feed-forward part, such as Llama and Qwen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Dimensions {
    /// Number of layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub embedding: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_size: u64,
    /// Width of the feed-forward part.
    pub feed_forward: u64,
    /// Tokens of the vocabulary.
    pub vocabulary: u64,
    /// Whether the output matrix is the embedding table.
    pub tied: bool,
}

/// The bytes of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelNeeds {
    /// Name of the model.
    pub name: String,
    /// Type of the weights; of most bytes, if a file has several.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all weights.
    pub weights: u64,
    /// Bytes of the weights that one token needs: without the rows of the embedding table and the experts that it does not use.
    pub read_per_token: u64,
    /// Bytes of the cache of one token.
    pub cache_per_token: u64,
    /// Tokens of the context.
    pub context: u64,
    /// Tokens that the model supports, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_context: Option<u64>,
    /// Bytes of the cache for the context.
    pub cache: u64,
    /// Bytes of the activations and logits, estimated for 512 tokens at once.
    pub activations: u64,
}

/// Context and type of the cache.
#[derive(Debug, Clone, Copy)]
pub struct CacheSettings {
    /// Tokens; `None` for 4096, or what the model supports if that is less.
    pub context: Option<u64>,
    /// Type of keys and values.
    pub kind: TensorType,
}

/// The context if none is named.
pub(super) const DEFAULT_CONTEXT: u64 = 4096;

impl ModelNeeds {
    /// All bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.without_cache().saturating_add(self.cache)
    }

    /// The bytes that do not grow with the context.
    #[must_use]
    pub fn without_cache(&self) -> u64 {
        self.weights.saturating_add(self.activations)
    }

    /// Computes the bytes from dimensions, with all matrices of one type.
    ///
    /// # Errors
    /// A row is not a multiple of the type's block size, or a number overflows.
    pub fn of_dimensions(
        name: &str,
        size: Dimensions,
        kind: TensorType,
        cache: CacheSettings,
    ) -> Result<Self, String> {
        let (q, kv) = (mul(size.heads, size.head_size)?, mul(size.kv_heads, size.head_size)?);
        // Pairs of the width of a row and the number of rows.
        let layer = [
            (size.embedding, q),
            (size.embedding, kv),
            (size.embedding, kv),
            (q, size.embedding),
            (size.embedding, size.feed_forward),
            (size.embedding, size.feed_forward),
            (size.feed_forward, size.embedding),
        ];
        let table = (size.embedding, size.vocabulary);
        let (mut weights, mut parameters) = (0_u64, 0_u64);
        let mut add = |(width, rows): (u64, u64), count: u64| -> Result<(), String> {
            let row = kind
                .row_bytes(width)
                .ok_or_else(|| format!("rows of {width} elements are not complete blocks of {kind}"))?;
            weights = weights.checked_add(mul(mul(row, rows)?, count)?).ok_or(OVERFLOW)?;
            parameters = parameters.checked_add(mul(mul(width, rows)?, count)?).ok_or(OVERFLOW)?;
            Ok(())
        };
        for matrix in layer {
            add(matrix, size.layers)?;
        }
        add(table, if size.tied { 1 } else { 2 })?;
        let unread =
            if size.tied { 0 } else { kind.row_bytes(size.embedding).unwrap_or(0) * size.vocabulary };
        let cache_per_token = mul(size.layers, mul(2, cache_row(cache.kind, kv)?)?)?;
        let context = cache.context.unwrap_or(DEFAULT_CONTEXT);
        Ok(Self {
            name: name.to_owned(),
            kind: kind.name().to_owned(),
            parameters,
            weights,
            read_per_token: weights - unread,
            cache_per_token,
            context,
            supported_context: None,
            cache: mul(cache_per_token, context)?,
            activations: activations(size.embedding, size.vocabulary)?,
        })
    }
}

pub(super) const OVERFLOW: &str = "the numbers are too large";

pub(super) fn mul(left: u64, right: u64) -> Result<u64, String> {
    left.checked_mul(right).ok_or_else(|| OVERFLOW.to_owned())
}

/// Bytes of the keys, or of the values, of one token in one layer.
pub(super) fn cache_row(kind: TensorType, width: u64) -> Result<u64, String> {
    kind.row_bytes(width).ok_or_else(|| format!("rows of {width} elements are not complete blocks of {kind}"))
}

/// Logits and one residual stream in 32 bits for [`ROWS`] tokens: what llama.cpp reserves for models without experts.
pub(super) fn activations(embedding: u64, vocabulary: u64) -> Result<u64, String> {
    mul(ROWS * 4, embedding.saturating_add(vocabulary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::table::table;
    use gpubuild_plan::plan::bytes::show;

    fn needs(size: &str, kind: TensorType, context: u64) -> ModelNeeds {
        let cache = CacheSettings { context: Some(context), kind: TensorType::F16 };
        ModelNeeds::of_dimensions(size, table().model(size).unwrap().dimensions, kind, cache).unwrap()
    }

    #[test]
    fn guide_has_the_typical_sizes() {
        let page = include_str!("../../docs/guide/models.md");
        for model in &table().model {
            for kind in [TensorType::Q4_K, TensorType::Q8_0, TensorType::F16] {
                let (short, long) = (needs(&model.name, kind, 4096), needs(&model.name, kind, 32_768));
                #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
                let speed = 1e12 / short.read_per_token as f64;
                let row = [
                    model.name.clone(),
                    kind.name().to_owned(),
                    show(short.weights),
                    show(short.cache),
                    show(long.cache),
                    show(short.total()),
                    format!("{speed:.1}"),
                ];
                let row = format!("| {} |", row.join(" | "));
                assert!(page.contains(&row), "docs/guide/models.md lacks: {row}");
            }
        }
    }

    #[test]
    fn parameters_match_the_published_ones() {
        // In billions, from the pages of the models.
        for (size, published) in
            [("1B", 1.24), ("3B", 3.21), ("8B", 8.03), ("14B", 14.8), ("32B", 32.8), ("70B", 70.6)]
        {
            #[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
            let found = needs(size, TensorType::F16, 1).parameters as f64 / 1e9;
            assert!((found - published).abs() < 0.006 * published, "{size}: {found}");
        }
    }

    #[test]
    fn impossible_dimensions_are_errors() {
        let cache = CacheSettings { context: None, kind: TensorType::F16 };
        let odd = Dimensions {
            layers: 1,
            embedding: 100,
            heads: 1,
            kv_heads: 1,
            head_size: 100,
            feed_forward: 100,
            vocabulary: 10,
            tied: true,
        };
        let error = ModelNeeds::of_dimensions("x", odd, TensorType::Q4_K, cache).unwrap_err();
        assert_eq!(error, "rows of 100 elements are not complete blocks of q4_K");
        let huge = Dimensions { layers: u64::MAX, ..odd };
        assert!(ModelNeeds::of_dimensions("x", huge, TensorType::F16, cache).is_err());
    }
}
