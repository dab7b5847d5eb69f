//! Checks a device: single ops against the float64 reference backend, and the embedded model against results
//! that PyTorch computed in float64.

mod ops;
mod reference;

pub use ops::compare_ops;
pub use reference::{Reference, compare_model};

/// One comparison.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Row {
    /// Name of the comparison.
    pub name: String,
    /// The result, as text.
    pub result: String,
    /// The allowed bound.
    pub bound: String,
    /// True if the result is within the bound.
    pub ok: bool,
}

/// Sum of squared differences over the sum of squares; NaN if any value is NaN.
#[must_use]
pub fn nmse(values: &[f32], truth: &[f64]) -> f64 {
    if values.len() != truth.len() {
        return f64::NAN;
    }
    let pairs = || values.iter().map(|value| f64::from(*value)).zip(truth.iter().copied());
    let difference: f64 = pairs().map(|(value, truth)| (value - truth).powi(2)).sum();
    let scale: f64 = truth.iter().map(|truth| truth.powi(2)).sum();
    if scale > 0.0 { difference / scale } else { difference }
}

impl Row {
    /// A row for an error that must be below a bound; NaN fails.
    fn error(name: impl Into<String>, error: f64, bound: f64) -> Self {
        Self {
            name: name.into(),
            result: format!("nmse {error:.1e}"),
            bound: format!("{bound:.0e}"),
            ok: error <= bound,
        }
    }

    /// A row for a comparison that failed to run.
    fn failed(name: impl Into<String>, why: &impl ToString) -> Self {
        Self { name: name.into(), result: why.to_string(), bound: String::new(), ok: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_errors_fail() {
        assert!(Row::error("x", nmse(&[1.0, 2.0], &[1.0, 2.0]), 0.0).ok);
        assert!(!Row::error("x", nmse(&[1.0, f32::NAN], &[1.0, 2.0]), 1.0).ok);
        assert!(!Row::error("x", nmse(&[1.0], &[1.0, 2.0]), 1.0).ok);
        assert!((nmse(&[1.0, 1.0], &[2.0, 0.0]) - 0.5).abs() < 1e-12);
    }
}
