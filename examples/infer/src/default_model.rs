//! The model inside this program, made by the scripts in `model/`, and what an exact computation makes of it.

use crate::gguf::{self, Bytes, Gguf};

/// Keeps the tensors of the model aligned as they are in a file that is mapped.
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../model/default.gguf"));

/// Logits and tokens that PyTorch computes in float64, as JSON.
pub const REFERENCE: &str = include_str!("../model/reference.json");

/// The model inside this program.
///
/// # Errors
/// It is broken, which a test excludes.
pub fn open() -> Result<Gguf, gguf::Error> {
    Gguf::new("the embedded model", Bytes::Static(&MODEL.0))
}
