//! Runs Llama models from GGUF files on whichever gk backend a machine offers.
//!
//! ```text
//! gguf (container) -> model (shapes, plans) -> session (device memory, tokens in, logits out)
//!                  -> tokenizer                      |
//!        discovery (which device, and why) -> gk (the kernel interface)
//! ```

pub mod bandwidth;
pub mod check;
pub mod cli;
pub mod default_model;
pub mod discovery;
pub mod gguf;
pub mod gk;

pub mod model;
pub mod sampler;
pub mod session;
pub mod tokenizer;

mod error;
pub use error::Error;
