//! The model inside this program, made by the scripts in `model/`, and what an exact computation makes of it.

use crate::Error;
use crate::gguf::Gguf;

/// Keeps the tensors of the model aligned as they are in a file that is mapped.
#[cfg(embedded_model)]
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

#[cfg(embedded_model)]
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../model/default.gguf"));

/// Logits and tokens that PyTorch computes in float64, as JSON.
#[cfg(embedded_model)]
pub const REFERENCE: &str = include_str!("../model/reference.json");

/// What an exact computation makes of the model inside this program, which has none.
#[cfg(not(embedded_model))]
pub const REFERENCE: &str = "";

/// The model inside this program.
///
/// # Errors
/// It is broken, which a test excludes.
#[cfg(embedded_model)]
pub fn open() -> Result<Gguf, Error> {
    Ok(Gguf::new("the embedded model", crate::gguf::Bytes::Static(&MODEL.0))?)
}

/// The model inside this program, which has none.
///
/// # Errors
/// Always: the program was built without `model/default.gguf`.
#[cfg(not(embedded_model))]
pub fn open() -> Result<Gguf, Error> {
    Err(Error::message("this program was built without a model: give it one with `--model FILE`"))
}
