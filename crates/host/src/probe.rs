//! The result of probing a vendor's library in a child process.

use serde::{Deserialize, Serialize};

/// The outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// The library returned an answer.
    Ok,
    /// The library is missing or reported an error.
    Failed,
    /// The child process crashed.
    Crashed,
    /// The child process was killed at its deadline.
    Timeout,
}

/// The result of a backend's probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The outcome.
    pub status: ProbeStatus,
    /// The error, in one line; empty on success.
    pub error: String,
    /// The answer as JSON, in the form that each module of `driver_probe` documents; empty on failure. It comes from a driver and is not
    /// validated: readers must check it.
    pub answer: String,
}
