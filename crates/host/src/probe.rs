//! The answer of a vendor's own library, asked in a child process.

use serde::{Deserialize, Serialize};

/// How asking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// There is an answer.
    Ok,
    /// The library is absent, or said no.
    Failed,
    /// The child died.
    Crashed,
    /// The child was stopped at its deadline.
    Timeout,
}

/// What the child probe of a backend answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// How it ended.
    pub status: ProbeStatus,
    /// One line: why there is no answer; empty on success.
    pub error: String,
    /// The answer as JSON text, in the form that `facts::probe` documents; empty without one. It may be nonsense: whoever
    /// reads it checks.
    pub answer: String,
}
