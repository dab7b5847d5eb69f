//! What a session takes on a device, computed before anything is allocated.

use crate::Error;
use crate::gk::Device;
use crate::model::Model;
use crate::model::tensors::Role;
use std::fmt;

/// Rows of a prefill plan: prompts go through the model in pieces of this many tokens.
pub const CHUNK: u32 = 64;

/// How long texts may get and what comes back.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tokens that the cache holds.
    pub n_ctx: u32,
    /// Type of the cache.
    pub cache: CacheType,
    /// Rows of logits that can be read.
    pub logits: LogitRows,
}

/// Type of the key and value caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheType {
    /// Two bytes an element: the default.
    F16,
    /// Four bytes an element: for comparisons.
    F32,
}

/// Rows of logits that a session keeps room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitRows {
    /// Those of the last token.
    Last,
    /// Those of every token of a chunk.
    All,
}

impl LogitRows {
    pub(super) fn rows(self) -> u32 {
        match self {
            Self::Last => 1,
            Self::All => CHUNK,
        }
    }
}

/// Bytes that a session needs on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Weights, as the backend stores them.
    pub weights: u64,
    /// What grows with the context: key and value caches, the rope table.
    pub cache: u64,
    /// Activations and logits.
    pub work: u64,
}

/// Buffers are counted in steps of this.
const STEP: u64 = 64;

fn round(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX)
}

fn product(factors: &[u64]) -> u64 {
    round(factors.iter().fold(1, |product, factor| product.saturating_mul(*factor)))
}

impl Needs {
    /// Adds up what a model needs.
    ///
    /// # Errors
    /// The backend has no kernels for the type of a weight: names the tensor and the type.
    pub fn new(model: &Model, device: &Device, options: Options) -> Result<Self, Error> {
        let config = model.config();
        let mut weights = 0_u64;
        for spec in model.specs() {
            let bytes = match spec.role {
                Role::Host => 0,
                Role::Vector => product(&[spec.width.into(), 4]),
                Role::Matrix => device.weight_bytes(spec.kind, spec.width.into(), spec.rows.into()),
            };
            if bytes == 0 && spec.role != Role::Host {
                return Err(Error::message(format!(
                    "backend `{}` has no kernels for {} weights: tensor `{}` of model `{}`",
                    device.backend_id(),
                    spec.kind,
                    spec.name,
                    config.name
                )));
            }
            weights = weights.saturating_add(bytes);
        }
        let n_ctx = u64::from(options.n_ctx);
        let element = match options.cache {
            CacheType::F16 => 2,
            CacheType::F32 => 4,
        };
        let layer = product(&[config.kv_width().into(), n_ctx, element]);
        let rotations = product(&[config.n_rot.into(), n_ctx, 4]);
        let cache = layer.saturating_mul(2 * u64::from(config.n_layer)).saturating_add(rotations);
        let row = |width: u32| product(&[width.into(), CHUNK.into(), 4]);
        let work = [
            2_u64.saturating_mul(row(config.n_embd)),
            2_u64.saturating_mul(row(config.q_width())),
            2_u64.saturating_mul(row(config.kv_width())),
            2_u64.saturating_mul(row(config.n_ff)),
            product(&[config.n_vocab.into(), options.logits.rows().into(), 4]),
        ];
        Ok(Self { weights, cache, work: work.into_iter().fold(0, u64::saturating_add) })
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.cache).saturating_add(self.work)
    }

    /// Compares with the free memory of a device, of which a twentieth is left alone.
    ///
    /// # Errors
    /// It does not fit: both numbers, and what could be smaller.
    pub fn check(&self, free: u64, n_ctx: u32) -> Result<(), Error> {
        let usable = free - free / 20;
        if self.total() <= usable {
            return Ok(());
        }
        let remedy = if self.weights.saturating_add(self.work) < usable && self.cache > 0 {
            let fits =
                u128::from(usable - self.weights - self.work) * u128::from(n_ctx) / u128::from(self.cache);
            format!("a context of {fits} tokens fits, try `--ctx {fits}`")
        } else {
            "a smaller or more quantised model is needed".to_owned()
        };
        Err(Error::message(format!(
            "the model does not fit: it needs {} ({self} at a context of {n_ctx}) and {} of {} free memory can be used; {remedy}",
            Size(self.total()),
            Size(usable),
            Size(free),
        )))
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, cache, work } = *self;
        write!(formatter, "weights {}, cache {}, work {}", Size(weights), Size(cache), Size(work))
    }
}

/// Bytes for people.
#[derive(Debug, Clone, Copy)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(formatter, "{} bytes", self.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(formatter, "{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_both_numbers_and_the_way_out() {
        let needs = Needs { weights: 1 << 30, cache: 1 << 30, work: 1 << 20 };
        assert!(needs.check(4 << 30, 4096).is_ok());
        let text = needs.check(2 << 30, 4096).unwrap_err().to_string();
        assert!(text.contains("needs 2.0 GiB"), "{text}");
        assert!(text.contains("1.9 GiB of 2.0 GiB free"), "{text}");
        assert!(text.contains("--ctx 3"), "{text}");
        let text = needs.check(1 << 30, 4096).unwrap_err().to_string();
        assert!(text.contains("smaller or more quantised"), "{text}");
    }

    #[test]
    fn hostile_sizes_saturate() {
        let needs = Needs { weights: u64::MAX, cache: u64::MAX, work: 7 };
        assert_eq!(needs.total(), u64::MAX);
        assert!(needs.check(u64::MAX, u32::MAX).is_err());
    }
}
