//! A model: its hyperparameters, its tensors and the source of their bytes. Independent of devices.

pub mod architecture;
mod config;
mod noise;
mod random;
mod recipe;
pub mod rope;
pub mod tensors;

pub use architecture::{Architecture, Pairs};
pub use config::Config;
pub use random::RandomSize;
pub use recipe::Recipe;

use crate::Error;
use crate::gguf::{Gguf, TensorType};
use std::borrow::Cow;
use tensors::Spec;

#[derive(Debug)]
enum Source {
    File(Gguf),
    Random,
}

/// A checked model.
#[derive(Debug)]
pub struct Model {
    config: Config,
    specs: Vec<Spec>,
    source: Source,
}

impl Model {
    /// Checks a file against the requirements of its architecture.
    ///
    /// # Errors
    /// An unknown architecture, or keys and tensors that are missing, wrong or unknown.
    pub fn from_gguf(gguf: Gguf) -> Result<Self, Error> {
        let config = Config::from_gguf(&gguf)?;
        let specs = tensors::from_gguf(&gguf, &config)?;
        Ok(Self { config, specs, source: Source::File(gguf) })
    }

    /// A model with about this many bytes of weights, generated on demand.
    #[must_use]
    pub fn random(size: RandomSize, kind: TensorType) -> Self {
        let config = random::config(size, kind);
        let specs = tensors::invented(&config, kind);
        Self { config, specs, source: Source::Random }
    }

    /// The hyperparameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All tensors.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// A tensor by name, if the model has it.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<&Spec> {
        self.specs.iter().find(|spec| spec.name == name)
    }

    /// True if the embedding table is also the output matrix.
    #[must_use]
    pub fn is_tied(&self) -> bool {
        self.spec(tensors::OUTPUT).is_none()
    }

    /// Bytes of rows `first .. first + count` in the GGUF layout.
    #[must_use]
    pub fn rows(&self, spec: &Spec, first: u32, count: u32) -> Cow<'_, [u8]> {
        let row = spec
            .kind
            .row_bytes(u64::from(spec.width))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(0);
        let (start, length) = (row * first as usize, row * count as usize);
        match &self.source {
            Source::File(gguf) => {
                let data = gguf.tensor(&spec.name).map(|info| gguf.data(info)).unwrap_or_default();
                Cow::Borrowed(data.get(start..start + length).unwrap_or_default())
            }
            Source::Random => Cow::Owned(random::rows(spec, first, length)),
        }
    }

    /// All elements of a vector.
    #[must_use]
    pub fn vector(&self, spec: &Spec) -> Vec<f32> {
        let bytes = self.rows(spec, 0, 1);
        if spec.kind == TensorType::F16 {
            bytes.chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
        } else {
            bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect()
        }
    }
}
