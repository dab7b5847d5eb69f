//! Device memory of a part of a model other than the weights: caches, activations, token ids.

use super::memory::{CacheType, Options};
use super::placement::Span;
use crate::Error;
use crate::gguf::TensorType;
use crate::gk::{Device, Tensor, Usage};
use crate::model::{Model, rope, tensors};

/// Everything that plans read and write. Activations have a chunk of rows; a plan for one token uses the
/// first row.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tokens: Tensor,
    pub(super) rope: Tensor,
    /// Keys and values of each layer of the part.
    pub(super) caches: Vec<(Tensor, Tensor)>,
    pub(super) stream: Tensor,
    pub(super) normed: Tensor,
    pub(super) queries: Tensor,
    pub(super) keys: Tensor,
    pub(super) values: Tensor,
    pub(super) attended: Tensor,
    pub(super) gate: Tensor,
    pub(super) up: Tensor,
    /// The results of a pass, in the part with the output.
    pub(super) results: Option<Results>,
}

/// Results that the host reads.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) next: Tensor,
    pub(super) history: Tensor,
    pub(super) logits: Tensor,
    pub(super) top_ids: Tensor,
    pub(super) top_values: Tensor,
}

/// Maximum number of candidates that a device selects; the host selects more than that.
pub const MAX_CANDIDATES: u32 = 256;
/// Maximum number of tokens that one call can generate on the device.
pub const MAX_REPEAT: u32 = 64;

impl State {
    pub(super) fn new(model: &Model, device: &Device, span: Span, options: Options) -> Result<Self, Error> {
        let config = model.config();
        let matrix = |width: u32, rows: u32, kind: TensorType, usage: Usage| -> Result<Tensor, Error> {
            let bytes = kind.row_bytes(width.into()).and_then(|row| row.checked_mul(rows.into()));
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(64));
            let bytes = bytes.ok_or_else(|| Error::message("the size of a buffer overflows"))?;
            Ok(Tensor::new(&device.alloc(bytes, usage)?, 0, kind, width, rows))
        };
        let chunk = options.chunk(device.info().kind);
        let activation = |width: u32| matrix(width, chunk, TensorType::F32, Usage::State);
        let small = |width: u32, kind: TensorType| matrix(width, 1, kind, Usage::Staging);
        let cache_kind = match options.cache {
            CacheType::F16 => TensorType::F16,
            CacheType::F32 => TensorType::F32,
        };
        let cache = || matrix(config.kv_width(), options.n_ctx, cache_kind, Usage::State);
        let mut caches = Vec::new();
        for _ in span.layers(config) {
            caches.push((cache()?, cache()?));
        }
        let factors = model.spec(tensors::ROPE_FREQS).map(|spec| model.vector(spec));
        let angles = matrix(config.n_rot, options.n_ctx, TensorType::F32, Usage::Weight)?;
        angles.write(&rope::table(config, factors.as_deref(), options.n_ctx)?)?;
        let results = || -> Result<Results, Error> {
            let candidates = MAX_CANDIDATES.min(config.n_vocab);
            let rows = options.logits.rows();
            Ok(Results {
                next: small(1, TensorType::I32)?,
                history: small(MAX_REPEAT, TensorType::I32)?,
                logits: matrix(config.n_vocab, rows, TensorType::F32, Usage::Staging)?,
                top_ids: small(candidates, TensorType::I32)?,
                top_values: small(candidates, TensorType::F32)?,
            })
        };
        Ok(Self {
            tokens: small(chunk, TensorType::I32)?,
            rope: angles,
            caches,
            stream: activation(config.n_embd)?,
            normed: activation(config.n_embd)?,
            queries: activation(config.q_width())?,
            keys: activation(config.kv_width())?,
            values: activation(config.kv_width())?,
            attended: activation(config.q_width())?,
            gate: activation(config.n_ff)?,
            up: activation(config.n_ff)?,
            results: if span.has_output(config) { Some(results()?) } else { None },
        })
    }
}
