//! The architectures as data: one table row with the differences between them.

use super::tensors::Part;

/// Which elements of a head form a rotated pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// Elements `2i` and `2i + 1`.
    Neighbours,
    /// Elements `i` and `i + n_rot / 2`.
    Halves,
}

/// Presence of a tensor in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A file with it is rejected.
    Never,
    /// Used if the file has it.
    Optional,
    /// A file without it is rejected.
    Always,
}

/// One architecture. All of them are decoders with RMS norms before attention and the feed-forward part,
/// grouped heads, rotary positions and SwiGLU; the output matrix may be the embedding table.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Value of `general.architecture`, and the prefix of the other keys.
    pub name: &'static str,
    /// How elements of heads are paired for the rotation.
    pub pairs: Pairs,
    /// Biases of queries, keys and values.
    pub qkv_bias: Presence,
    /// Biases of the other matrices of a layer.
    pub layer_bias: Presence,
    /// Bias of the output matrix.
    pub output_bias: Presence,
    /// A norm for each head of queries and keys, before the rotation.
    pub head_norms: Presence,
    /// Divisors of the rotation frequencies.
    pub rope_factors: Presence,
}

/// All supported architectures.
pub static ARCHITECTURES: [Architecture; 3] = [
    // Llama 1 to 3.3, Mistral 7B and derived models: converters name them all `llama`.
    Architecture {
        name: "llama",
        pairs: Pairs::Neighbours,
        qkv_bias: Presence::Optional,
        layer_bias: Presence::Optional,
        output_bias: Presence::Never,
        head_norms: Presence::Never,
        rope_factors: Presence::Optional,
    },
    Architecture {
        name: "qwen2",
        pairs: Pairs::Halves,
        qkv_bias: Presence::Always,
        layer_bias: Presence::Never,
        output_bias: Presence::Optional,
        head_norms: Presence::Never,
        rope_factors: Presence::Never,
    },
    Architecture {
        name: "qwen3",
        pairs: Pairs::Halves,
        qkv_bias: Presence::Optional,
        layer_bias: Presence::Never,
        output_bias: Presence::Never,
        head_norms: Presence::Always,
        rope_factors: Presence::Never,
    },
];

impl Architecture {
    /// The architecture with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ARCHITECTURES.iter().find(|architecture| architecture.name == name)
    }

    /// All names, for messages.
    #[must_use]
    pub fn names() -> String {
        ARCHITECTURES.iter().map(|architecture| architecture.name).collect::<Vec<_>>().join(", ")
    }

    /// True if layers can have the weight of this part.
    #[must_use]
    pub fn weight(&self, part: Part) -> Presence {
        match part {
            Part::AttnQNorm | Part::AttnKNorm => self.head_norms,
            _ => Presence::Always,
        }
    }

    /// Presence of the bias of a part in layers.
    #[must_use]
    pub fn bias(&self, part: Part) -> Presence {
        match part {
            Part::AttnNorm | Part::AttnQNorm | Part::AttnKNorm | Part::FfnNorm => Presence::Never,
            Part::AttnQ | Part::AttnK | Part::AttnV => self.qkv_bias,
            Part::AttnOutput | Part::FfnGate | Part::FfnUp | Part::FfnDown => self.layer_bias,
        }
    }
}
