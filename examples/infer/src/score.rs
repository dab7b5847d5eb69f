//! Measures how well a model predicts a text: the mean of −log p of its tokens.

use crate::Error;
use crate::session::{CHUNK, Output, Session};
use serde::Serialize;

/// The result of [`score`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// Tokens of the text.
    pub tokens: usize,
    /// Tokens that were predicted: all but a first token without a predecessor.
    pub scored: usize,
    /// Number of parts into which the text was split; each starts with an empty context.
    pub chunks: usize,
    /// Mean of −ln p, in nats.
    pub mean_nll: f64,
    /// exp of `mean_nll`.
    pub perplexity: f64,
}

/// −ln of the probability of a token under these logits.
#[must_use]
pub fn surprise(logits: &[f32], token: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - f64::from(largest)).exp()).sum();
    let own = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
    sum.ln() + f64::from(largest) - f64::from(own)
}

/// Scores the tokens of a text in parts that fill the context. Each part starts with `start`, if the model
/// has such a token, and every other token is predicted from those before it in its part. `progress` receives
/// the number of processed tokens.
///
/// # Errors
/// The text has no token to predict, the context is too short, or the device fails.
pub fn score(
    session: &mut Session,
    start: Option<u32>,
    tokens: &[u32],
    progress: &mut dyn FnMut(usize),
) -> Result<Score, Error> {
    session.reset();
    let room = (session.room() as usize).saturating_sub(usize::from(start.is_some()));
    if room < 2 {
        return Err(Error::message("scoring needs a context of at least two tokens"));
    }
    let (mut sum, mut scored, mut chunks, mut done) = (0.0, 0, 0, 0);
    for part in tokens.chunks(room) {
        session.reset();
        chunks += 1;
        let input: Vec<u32> = start.into_iter().chain(part.iter().copied()).collect();
        // The last token predicts nothing.
        for (index, piece) in input[..input.len() - 1].chunks(CHUNK as usize).enumerate() {
            session.feed(piece, Output::AllLogits)?;
            let logits = session.logits(piece.len())?;
            let next = &input[index * CHUNK as usize + 1..];
            for (row, token) in logits.chunks_exact(logits.len() / piece.len()).zip(next) {
                sum += surprise(row, *token);
                scored += 1;
            }
            progress(done + index * CHUNK as usize + piece.len());
        }
        done += part.len();
    }
    if scored == 0 {
        return Err(Error::message("the text has no token that can be predicted from another"));
    }
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 tokens")]
    let mean_nll = sum / scored as f64;
    if !mean_nll.is_finite() {
        return Err(Error::message(
            "the device returned no valid logit for a token: the weights or the kernels are broken",
        ));
    }
    Ok(Score { tokens: tokens.len(), scored, chunks, mean_nll, perplexity: mean_nll.exp() })
}

#[cfg(test)]
mod tests {
    use super::surprise;

    #[test]
    fn surprise_is_minus_the_log_of_the_softmax() {
        let logits = [1.0_f32, -2.0, 0.5, 3.0];
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        for (token, logit) in (0..).zip(logits) {
            assert!((surprise(&logits, token) + (f64::from(logit).exp() / sum).ln()).abs() < 1e-12);
        }
        // Far apart, and large: nothing overflows.
        assert!((surprise(&[1e4, 1e4], 0) - 2.0_f64.ln()).abs() < 1e-12);
        assert!((surprise(&[0.0, 1e4], 0) - 1e4).abs() < 1e-6);
        assert!(surprise(&[0.0], 5).is_infinite());
    }
}
