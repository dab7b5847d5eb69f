//! Estimates of `gpubuild estimate`: the memory that a language model needs, the devices that it fits into, and an upper bound of the
//! speed of token generation. Pure.
//!
//! `model` computes bytes from dimensions, `file` from the header of a GGUF file; `table` has typical models and published bandwidths, `device`
//! compares both with the devices of a machine.
//!
//! The example `infer` computes what its own session allocates (`infer::estimate_memory`); this estimate is for any program.

pub mod device;
mod file;
pub mod model;
pub mod table;
