//! Runs Llama models from GGUF files on any gk backend that a machine supports.
//!
//! ```text
//! gguf (container) -> model (shapes, plans) -> session (device memory, tokens in, logits out)
//!                  -> tokenizer                      |
//!        discovery (which device, and why) -> gk (the kernel interface)
//! ```
//!
//! Entry points: [`discover`] lists backends and devices, [`init`] opens a device, [`init_with_memory_check`] opens one
//! that a model fits, [`init_split_with_memory_check`] keeps some layers on the CPU, and [`estimate_memory`] returns
//! the memory that a model needs. All sizes are in bytes, all lengths of text in tokens.
//!
//! ```
//! use infer::{Preference, init_with_memory_check};
//! use infer::model::Model;
//! use infer::session::{CacheType, LogitRows, Options, Output, Session};
//!
//! let model = Model::from_gguf(infer::default_model::open()?)?;
//! let options = Options { n_ctx: 128, cache: CacheType::F16, logits: LogitRows::Last };
//! match init_with_memory_check(Preference::Auto, &model, options) {
//!     Ok(chosen) => {
//!         let mut session = Session::new(&model, chosen.device, options)?;
//!         session.feed(&[1, 2, 3], Output::Logits)?;
//!         assert_eq!(session.logits(1)?.len(), model.config().n_vocab as usize);
//!     }
//!     // Each backend with its reason.
//!     Err(error) => eprintln!("{error}"),
//! }
//! # Ok::<(), infer::Error>(())
//! ```

pub mod bandwidth;
pub mod chat;
pub mod check;
pub mod cli;
pub mod default_model;
pub mod discovery;
pub mod gguf;
pub mod gk;

pub mod model;
pub mod sampler;
pub mod score;
pub mod session;
pub mod tokenizer;

mod child;
mod error;
mod init;
pub use error::Error;
pub use init::{
    Preference, answer_probe, discover, estimate_memory, estimate_memory_split, init,
    init_split_with_memory_check, init_with_memory_check,
};
