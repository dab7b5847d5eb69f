//! Random weights of every type: blocks of random bits with scales chosen so that the values have a known
//! standard deviation.

use crate::gguf::TensorType;
use half::{bf16, f16};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::LazyLock;

/// 65536 numbers from a normal distribution, selected by random bits.
static NORMAL: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let mut noise = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..=u16::MAX).map(|_| normal(&mut noise)).collect()
});

/// A number between 0 and 1, both excluded.
fn uniform(noise: &mut impl Rng) -> f64 {
    (f64::from(noise.next_u32()) + 0.5) / 4_294_967_296.0
}

#[expect(clippy::cast_possible_truncation, reason = "noise")]
fn normal(noise: &mut impl Rng) -> f32 {
    let (radius, turn) = (uniform(noise), uniform(noise));
    ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()) as f32
}

/// A random stream that depends only on a seed and a name.
pub(super) fn stream(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    let hash = name.bytes().fold(17, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Numbers around `mean`.
pub(super) fn vector(noise: &mut impl Rng, count: u32, mean: f32, spread: f32) -> Vec<u8> {
    (0..count).flat_map(|_| (mean + spread * normal(noise)).to_le_bytes()).collect()
}

/// Fills complete blocks of a weight type with values around zero.
///
/// The spread of the integers in a block is known, so the scales follow from the requested spread: q8_0
/// integers have 73.6, q4_0 4.61, q4_k times its scales of six bits 258, q6_k times scales of -32 to 31 342.
pub(super) fn fill(kind: TensorType, bytes: &mut [u8], spread: f64, noise: &mut impl Rng) {
    noise.fill_bytes(bytes);
    match kind {
        TensorType::Q8_0 => bytes.chunks_exact_mut(34).for_each(|block| {
            scale(&mut block[..2], spread / 73.6, noise);
            // Quantisers never write -128.
            block[2..].iter_mut().filter(|byte| **byte == 0x80).for_each(|byte| *byte = 0x81);
        }),
        TensorType::Q4_0 => bytes.chunks_exact_mut(18).for_each(|block| {
            scale(&mut block[..2], spread / 4.61, noise);
            // The integers are -8 to 7: half of the scales are negative, so that the mean is zero.
            block[1] ^= block[2] & 0x80;
        }),
        TensorType::Q4_K => bytes.chunks_exact_mut(144).for_each(|block| {
            scale(&mut block[..2], spread / 258.0, noise);
            let least = f16::from_le_bytes([block[0], block[1]]).to_f64() * 7.5;
            block[2..4].copy_from_slice(&f16::from_f64(least).to_le_bytes());
        }),
        TensorType::Q6_K => bytes.chunks_exact_mut(210).for_each(|block| {
            // Shifted right, keeping the sign.
            block[192..208].iter_mut().for_each(|byte| *byte = (byte.cast_signed() >> 2).cast_unsigned());
            scale(&mut block[208..], spread / 342.0, noise);
        }),
        TensorType::F16 => {
            plain(bytes, spread, |pair, value| pair.copy_from_slice(&f16::from_f32(value).to_le_bytes()));
        }
        TensorType::BF16 => {
            plain(bytes, spread, |pair, value| pair.copy_from_slice(&bf16::from_f32(value).to_le_bytes()));
        }
        _ => bytes.chunks_exact_mut(4).for_each(|four| {
            let value = pick([four[0], four[1]], spread);
            four.copy_from_slice(&value.to_le_bytes());
        }),
    }
}

/// A scale between 0.5 and 1.5 times the requested one.
fn scale(bytes: &mut [u8], wanted: f64, noise: &mut impl Rng) {
    bytes.copy_from_slice(&f16::from_f64(wanted * (0.5 + uniform(noise))).to_le_bytes());
}

fn plain(bytes: &mut [u8], spread: f64, write: impl Fn(&mut [u8], f32)) {
    bytes.chunks_exact_mut(2).for_each(|pair| write(pair, pick([pair[0], pair[1]], spread)));
}

#[expect(clippy::cast_possible_truncation, reason = "noise")]
fn pick(bits: [u8; 2], spread: f64) -> f32 {
    NORMAL[usize::from(u16::from_le_bytes(bits))] * spread as f32
}
