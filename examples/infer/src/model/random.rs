//! Models without a file: random weights for measuring speed, generated during the upload.

use super::architecture::ARCHITECTURES;
use super::rope::{Rope, Scaling};
use super::tensors::{Role, Spec};
use super::{Config, noise};
use crate::gguf::TensorType;

/// Requested size of the weights of a random model in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomSize(pub u64);

impl std::str::FromStr for RandomSize {
    type Err = String;

    /// Parses `500MB`, `1GB`, `2GiB` or a number of bytes.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "mb" | "m" => 1_000_000,
            "gb" | "g" => 1_000_000_000,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return Err(format!("unknown unit `{unit}`: use MB, GB, MiB or GiB")),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        match bytes {
            Some(bytes) if bytes >= 1_000_000 => Ok(Self(bytes)),
            Some(_) => Err("at least 1MB".to_owned()),
            None => Err("a number and a unit, like 1GB".to_owned()),
        }
    }
}

/// A shape with the proportions of the small Llama models, whose matrices take about `size` bytes.
pub(super) fn config(RandomSize(size): RandomSize, kind: TensorType) -> Config {
    let n_vocab = 32_000;
    // Larger models are wider; four query heads share a key head, and heads have 64 elements.
    let n_embd: u32 = match size {
        0..100_000_000 => 256,
        100_000_000..600_000_000 => 1024,
        600_000_000..3_000_000_000 => 2048,
        _ => 4096,
    };
    let n_ff = n_embd * 11 / 4;
    let width = u64::from(n_embd);
    let per_layer = width * width * 5 / 2 + 3 * width * u64::from(n_ff);
    let bytes =
        |elements: u64| kind.row_bytes(elements.next_multiple_of(kind.block_elements())).unwrap_or(u64::MAX);
    // The embedding table does not count: a token reads one row of it.
    let layers = size.saturating_sub(bytes(width * n_vocab)).div_ceil(bytes(per_layer).max(1)).clamp(1, 512);
    Config {
        architecture: &ARCHITECTURES[0],
        name: "random".to_owned(),
        n_embd,
        n_layer: u32::try_from(layers).unwrap_or(512),
        n_head: n_embd / 64,
        n_head_kv: n_embd / 256,
        d_head: 64,
        n_rot: 64,
        n_ff,
        n_vocab: 32_000,
        n_ctx_train: 4096,
        eps: 1e-5,
        rope: Rope { base: 10_000.0, scaling: Scaling::None, attention_factor: 1.0 },
        attention_scale: 0.125,
    }
}

/// Bytes of a tensor starting at row `first`: ones for vectors, noise of spread 1 / sqrt(width) for matrices.
pub(super) fn rows(spec: &Spec, first: u32, length: usize) -> Vec<u8> {
    if spec.role != Role::Matrix {
        return 1.0_f32.to_le_bytes().repeat(length / 4);
    }
    let mut bytes = vec![0; length];
    let mut stream = noise::stream(first.into(), &spec.name);
    noise::fill(spec.kind, &mut bytes, f64::from(spec.width).sqrt().recip(), &mut stream);
    bytes
}
