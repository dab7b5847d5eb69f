//! Standard input of a command.

use std::io::{self, Read};

/// Where a command reads what the user pipes into it (`-` as the name of a file).
#[derive(Debug, Clone, Copy)]
pub enum StandardInput<'a> {
    /// Standard input of this process.
    Process,
    /// A text that replaces it, because standard input of this process has another purpose.
    Text(&'a str),
}

impl<'a> StandardInput<'a> {
    /// Opens it as a stream, for input of any size.
    #[must_use]
    pub fn stream(self) -> Box<dyn Read + 'a> {
        match self {
            Self::Process => Box::new(gpubuild_host::standard_input_stream()),
            Self::Text(text) => Box::new(text.as_bytes()),
        }
    }

    /// Reads it as a document.
    ///
    /// # Errors
    /// It is too large, cannot be read, or is not closed in time.
    pub fn document(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Process => gpubuild_host::standard_input_document(),
            Self::Text(text) => Ok(text.as_bytes().to_vec()),
        }
    }
}
