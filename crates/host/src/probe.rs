//! The answer of a vendor's library, probed in a child process.

use serde::{Deserialize, Serialize};

/// The outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// The library answered.
    Ok,
    /// The library is missing, or reported an error.
    Failed,
    /// The child process crashed.
    Crashed,
    /// The child process was killed at its deadline.
    Timeout,
}

/// The answer of a backend's child probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The outcome.
    pub status: ProbeStatus,
    /// The error in one line; empty on success.
    pub error: String,
    /// The answer as JSON text, in the form that `facts::probe` documents; empty if there is none. It is not validated, so
    /// readers must check it.
    pub answer: String,
}
