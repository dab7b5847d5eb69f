//! The errors of this crate, one type for the command line to print.

/// What can go wrong between a command and its answer.
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
    /// A model file is broken or not supported.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// A kernel library refused or failed.
    #[error(transparent)]
    Kernel(#[from] gk::Error),
    /// Anything that is said in one sentence.
    #[error("{0}")]
    Message(String),
}

use crate::{gguf, gk};

impl Error {
    /// An error in the caller's words.
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}
