//! The error type of this crate, printed by the command line.

/// An error of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::sync::Arc<std::io::Error>,
    },
    /// A model file is invalid or not supported.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// A kernel library returned an error.
    #[error(transparent)]
    Kernel(#[from] gk::Error),
    /// Any other error, as text.
    #[error("{0}")]
    Message(String),
}

use crate::{gguf, gk};

impl Error {
    /// An error with this text.
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}
