//! The tensors of a model and their shapes; a file with other tensors, or with missing ones, is rejected.

use super::Config;
use super::architecture::Presence;
use crate::gguf::{Error, Gguf, Problem, TensorType};

/// The purpose of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Multiplied with activations: uploaded in its own type.
    Matrix,
    /// A norm or a bias: uploaded as f32.
    Vector,
    /// Read by the host only.
    Host,
}

/// A tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name in the file.
    pub name: String,
    /// Purpose.
    pub role: Role,
    /// Elements of a row.
    pub width: u32,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Type of its elements.
    pub kind: TensorType,
    /// True if a model of its architecture must have it.
    pub required: bool,
    /// The layer that it belongs to.
    pub layer: Option<u32>,
}

/// The parts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names in the format")]
pub enum Part {
    AttnNorm,
    AttnQ,
    AttnK,
    AttnV,
    AttnQNorm,
    AttnKNorm,
    AttnOutput,
    FfnNorm,
    FfnGate,
    FfnUp,
    FfnDown,
}

impl Part {
    const ALL: [Self; 11] = [
        Self::AttnNorm,
        Self::AttnQ,
        Self::AttnK,
        Self::AttnV,
        Self::AttnQNorm,
        Self::AttnKNorm,
        Self::AttnOutput,
        Self::FfnNorm,
        Self::FfnGate,
        Self::FfnUp,
        Self::FfnDown,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AttnNorm => "attn_norm",
            Self::AttnQ => "attn_q",
            Self::AttnK => "attn_k",
            Self::AttnV => "attn_v",
            Self::AttnQNorm => "attn_q_norm",
            Self::AttnKNorm => "attn_k_norm",
            Self::AttnOutput => "attn_output",
            Self::FfnNorm => "ffn_norm",
            Self::FfnGate => "ffn_gate",
            Self::FfnUp => "ffn_up",
            Self::FfnDown => "ffn_down",
        }
    }

    /// Name of the weight in this layer.
    #[must_use]
    pub fn weight(self, layer: u32) -> String {
        format!("blk.{layer}.{}.weight", self.name())
    }

    /// Name of the bias in this layer, which few models have.
    #[must_use]
    pub fn bias(self, layer: u32) -> String {
        format!("blk.{layer}.{}.bias", self.name())
    }

    fn is_norm(self) -> bool {
        matches!(self, Self::AttnNorm | Self::AttnQNorm | Self::AttnKNorm | Self::FfnNorm)
    }

    /// Width and rows; one row for the norms.
    fn shape(self, config: &Config) -> (u32, u32) {
        match self {
            Self::AttnNorm | Self::FfnNorm => (config.n_embd, 1),
            Self::AttnQNorm | Self::AttnKNorm => (config.d_head, 1),
            Self::AttnQ => (config.n_embd, config.q_width()),
            Self::AttnK | Self::AttnV => (config.n_embd, config.kv_width()),
            Self::AttnOutput => (config.q_width(), config.n_embd),
            Self::FfnGate | Self::FfnUp => (config.n_embd, config.n_ff),
            Self::FfnDown => (config.n_ff, config.n_embd),
        }
    }
}

/// The embedding table; also the output matrix of models without a separate one.
pub const TOKEN_EMBD: &str = "token_embd.weight";
/// The last norm.
pub const OUTPUT_NORM: &str = "output_norm.weight";
/// The output matrix.
pub const OUTPUT: &str = "output.weight";
/// Bias of the output matrix.
pub const OUTPUT_BIAS: &str = "output.bias";
/// Divisors of the rotation frequencies.
pub const ROPE_FREQS: &str = "rope_freqs.weight";

/// Tensors that a model may or must have: those of one layer, or those outside of layers.
#[derive(Default)]
struct Specs {
    layer: Option<u32>,
    specs: Vec<Spec>,
}

impl Specs {
    fn matrix(&mut self, name: impl Into<String>, shape: (u32, u32), kind: TensorType, presence: Presence) {
        self.add(name.into(), Role::Matrix, shape, kind, presence);
    }

    fn vector(&mut self, name: impl Into<String>, width: u32, role: Role, presence: Presence) {
        self.add(name.into(), role, (width, 1), TensorType::F32, presence);
    }

    fn add(&mut self, name: String, role: Role, shape: (u32, u32), kind: TensorType, presence: Presence) {
        let required = match presence {
            Presence::Never => return,
            Presence::Optional => false,
            Presence::Always => true,
        };
        let (width, rows) = shape;
        self.specs.push(Spec { name, role, width, rows, kind, required, layer: self.layer });
    }
}

/// All tensors that a layer may have; matrices of type `kind`.
fn layer_specs(config: &Config, layer: u32, kind: TensorType) -> Vec<Spec> {
    let mut specs = Specs { layer: Some(layer), specs: Vec::new() };
    for part in Part::ALL {
        let shape = part.shape(config);
        let (weight, bias) = (config.architecture.weight(part), config.architecture.bias(part));
        if part.is_norm() {
            specs.vector(part.weight(layer), shape.0, Role::Vector, weight);
        } else {
            specs.matrix(part.weight(layer), shape, kind, weight);
        }
        specs.vector(part.bias(layer), shape.1, Role::Vector, bias);
    }
    specs.specs
}

fn outer_specs(config: &Config, kind: TensorType) -> Vec<Spec> {
    let table = (config.n_embd, config.n_vocab);
    let mut specs = Specs::default();
    specs.matrix(TOKEN_EMBD, table, kind, Presence::Always);
    specs.vector(OUTPUT_NORM, config.n_embd, Role::Vector, Presence::Always);
    specs.matrix(OUTPUT, table, kind, Presence::Optional);
    specs.vector(OUTPUT_BIAS, config.n_vocab, Role::Vector, config.architecture.output_bias);
    specs.vector(ROPE_FREQS, config.n_rot / 2, Role::Host, config.architecture.rope_factors);
    specs.specs
}

/// All tensors that a model with this configuration may have.
pub(super) fn possible(config: &Config, kind: TensorType) -> Vec<Spec> {
    let layers = (0..config.n_layer).flat_map(|layer| layer_specs(config, layer, kind));
    outer_specs(config, kind).into_iter().chain(layers).collect()
}

/// The tensors of a model without a file: all that are required, and an output matrix.
pub(super) fn invented(config: &Config, kind: TensorType) -> Vec<Spec> {
    let mut specs = possible(config, kind);
    specs.retain(|spec| spec.required || spec.name == OUTPUT);
    specs
}

/// The tensors of a file, checked against the configuration.
pub(super) fn from_gguf(gguf: &Gguf, config: &Config) -> Result<Vec<Spec>, Error> {
    let mut found = Vec::new();
    let mut take = |expected: Vec<Spec>| {
        for spec in expected {
            found.extend(check(gguf, spec)?);
        }
        Ok(())
    };
    take(outer_specs(config, TensorType::F32))?;
    // Layer by layer: an implausible number of layers fails at the first missing one.
    for layer in 0..config.n_layer {
        take(layer_specs(config, layer, TensorType::F32))?;
    }
    let known: std::collections::BTreeSet<&str> = found.iter().map(|spec| spec.name.as_str()).collect();
    match gguf.tensor_names().find(|name| !known.contains(name)) {
        Some(unknown) => {
            Err(gguf.tensor_error(unknown, Problem::UnknownTensor(config.architecture.name.to_owned())))
        }
        None => Ok(found),
    }
}

/// Checks a tensor of the file against its specification; `None` if it is absent and optional.
fn check(gguf: &Gguf, mut spec: Spec) -> Result<Option<Spec>, Error> {
    let Some(info) = gguf.tensor(&spec.name) else {
        return if spec.required { Err(gguf.tensor_error(&spec.name, Problem::Missing)) } else { Ok(None) };
    };
    let vector = spec.role != Role::Matrix;
    let expected =
        if vector { vec![u64::from(spec.width)] } else { vec![u64::from(spec.width), u64::from(spec.rows)] };
    // Trailing dimensions of one element are redundant.
    let mut shape = info.shape.as_slice();
    while shape.len() > expected.len() && shape.last() == Some(&1) {
        shape = &shape[..shape.len() - 1];
    }
    if shape != expected {
        let found = info.shape.clone();
        return Err(gguf.tensor_error(&spec.name, Problem::Shape { expected, found }));
    }
    let plain = [TensorType::F32, TensorType::F16].contains(&info.kind);
    if vector && !plain {
        let (name, known) = (info.kind.name().to_owned(), "f32, f16".to_owned());
        return Err(gguf.tensor_error(
            &spec.name,
            Problem::Unsupported { what: "element type of a vector", name, known },
        ));
    }
    spec.kind = info.kind;
    Ok(Some(spec))
}
