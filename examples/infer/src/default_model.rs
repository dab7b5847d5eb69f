//! The embedded model, built by the scripts in `model/`, and the results of an exact computation with it.

use crate::gguf::{self, Bytes, Gguf};

/// Aligns the tensors of the model as in a mapped file.
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../model/default.gguf"));

/// Logits and tokens that PyTorch computes in float64, as JSON.
pub const REFERENCE: &str = include_str!("../model/reference.json");

/// Opens the embedded model.
///
/// # Errors
/// The file is invalid, which a test rules out.
pub fn open() -> Result<Gguf, gguf::Error> {
    Gguf::new("the embedded model", Bytes::Static(&MODEL.0))
}
