//! The table of rotations: all scaling rules end here, the kernels know none of them.

use super::Config;
use crate::Error;

/// cos, sin, cos, sin … of every pair, for positions `0 .. n_ctx`, computed in f64. `factors` divide the frequencies.
///
/// # Errors
/// A factor is not positive, or the table does not fit in memory.
pub fn table(config: &Config, factors: Option<&[f32]>, n_ctx: u32) -> Result<Vec<f32>, Error> {
    let pairs = config.n_rot / 2;
    let mut frequencies = Vec::new();
    for pair in 0..pairs {
        let exponent = -2.0 * f64::from(pair) / f64::from(config.n_rot);
        let factor = factors.and_then(|factors| factors.get(pair as usize)).copied().map_or(1.0, f64::from);
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::message(format!("rope factor {factor} of pair {pair} is not positive")));
        }
        frequencies.push(config.rope_base.powf(exponent) / factor * config.rope_scale);
    }
    let mut values = Vec::new();
    let length = u64::from(n_ctx) * u64::from(config.n_rot);
    let reserved = usize::try_from(length).ok().and_then(|length| values.try_reserve_exact(length).ok());
    reserved.ok_or_else(|| Error::message(format!("no memory for a rope table of {length} numbers")))?;
    for position in 0..n_ctx {
        for frequency in &frequencies {
            let (sine, cosine) = (f64::from(position) * frequency).sin_cos();
            #[expect(clippy::cast_possible_truncation, reason = "rounded once, at the end")]
            values.extend([cosine as f32, sine as f32]);
        }
    }
    Ok(values)
}
