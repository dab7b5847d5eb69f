//! Computes the table of rotations, which implements all scaling rules: the kernels only read the table.

use super::Config;
use crate::Error;
use std::f64::consts::TAU;

/// Rotation frequencies, and scaling for positions beyond the trained context.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the rotation frequencies.
    pub base: f64,
    /// How the frequencies are scaled.
    pub scaling: Scaling,
    /// Additional factor of rotated elements, besides that of the scaling.
    pub attention_factor: f64,
}

/// A rule that scales frequencies. Llama 3 uses none of these but a tensor of divisors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Unchanged.
    None,
    /// All frequencies are divided by `factor`.
    Linear {
        /// Growth of the context.
        factor: f64,
    },
    /// Slow pairs are divided by `factor`, fast ones are unchanged, and those in between are interpolated;
    /// all are multiplied by 1 + ln(factor) / 10.
    Yarn {
        /// Growth of the context.
        factor: f64,
        /// Original context in tokens.
        original: u32,
        /// Pairs that rotate more often than this within the original context are unchanged.
        beta_fast: f64,
        /// Pairs that rotate less often than this are divided by `factor`.
        beta_slow: f64,
    },
}

/// Names of the rules, for messages.
pub const SCALINGS: &str = "none, linear, yarn";

impl Scaling {
    /// The scaled frequency of a pair whose original frequency is `frequency` per position.
    fn frequency(self, frequency: f64, pair: u32, config: &Config) -> f64 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Yarn { factor, original, beta_fast, beta_slow } => {
                // The (fractional) pair that rotates `turns` times within the original context.
                let place = |turns: f64| {
                    let wave = f64::from(original) / (turns * TAU);
                    f64::from(config.n_rot) * wave.ln() / (2.0 * config.rope.base.ln())
                };
                let low = place(beta_fast).floor().max(0.0);
                let high = place(beta_slow).ceil().min(f64::from(config.n_rot - 1));
                let slow = ((f64::from(pair) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                frequency / factor * slow + frequency * (1.0 - slow)
            }
        }
    }

    /// The factor of rotated elements.
    fn magnitude(self) -> f64 {
        match self {
            Self::Yarn { factor, .. } if factor > 1.0 => 1.0 + 0.1 * factor.ln(),
            _ => 1.0,
        }
    }
}

/// cos, sin, cos, sin … of every pair, for positions `0 .. n_ctx`, computed in f64. `factors` divide the frequencies.
///
/// # Errors
/// A factor is not positive, or the table does not fit in memory.
pub fn table(config: &Config, factors: Option<&[f32]>, n_ctx: u32) -> Result<Vec<f32>, Error> {
    let rope = &config.rope;
    let pairs = config.n_rot / 2;
    let mut frequencies = Vec::new();
    for pair in 0..pairs {
        let exponent = -2.0 * f64::from(pair) / f64::from(config.n_rot);
        let factor = factors.and_then(|factors| factors.get(pair as usize)).copied().map_or(1.0, f64::from);
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::message(format!("rope factor {factor} of pair {pair} is not positive")));
        }
        let frequency = rope.scaling.frequency(rope.base.powf(exponent) / factor, pair, config);
        if !(frequency * f64::from(u32::MAX)).is_finite() {
            return Err(Error::message(format!("rope frequency {frequency} of pair {pair} is too large")));
        }
        frequencies.push(frequency);
    }
    let magnitude = rope.scaling.magnitude() * rope.attention_factor;
    if !magnitude.is_finite() || magnitude.abs() > f64::from(f32::MAX) {
        return Err(Error::message(format!("rope factor {magnitude} is too large")));
    }
    let mut values = Vec::new();
    let length = u64::from(n_ctx) * u64::from(config.n_rot);
    let reserved = usize::try_from(length).ok().and_then(|length| values.try_reserve_exact(length).ok());
    reserved.ok_or_else(|| Error::message(format!("no memory for a rope table of {length} numbers")))?;
    for position in 0..n_ctx {
        for frequency in &frequencies {
            let (sine, cosine) = (f64::from(position) * frequency).sin_cos();
            #[expect(clippy::cast_possible_truncation, reason = "rounded once, at the end")]
            values.extend([(cosine * magnitude) as f32, (sine * magnitude) as f32]);
        }
    }
    Ok(values)
}
