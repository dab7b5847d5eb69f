//! Builds the forward pass of a model as a list of ops.

use super::placement::Span;
use super::state::{Results, State};
use super::weights::Weights;
use crate::gk::{Op, OpCode, Tensor};
use crate::model::tensors::{OUTPUT, OUTPUT_BIAS, OUTPUT_NORM, Part, TOKEN_EMBD};
use crate::model::{Config, Pairs};

/// What a plan computes for the host to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Output {
    /// Nothing: fills only the caches.
    Nothing,
    /// The logits of the last token.
    Logits,
    /// The logits of every token.
    AllLogits,
    /// The ids and logits of this many best candidates for the next token.
    Candidates(u32),
    /// The id of the best candidate for the next token.
    Best,
    /// Same as `Best`, and it becomes the next input without the host; for plans of one token.
    Feedback,
}

/// The inputs of the plan builder.
pub(super) struct Builder<'a> {
    pub(super) config: &'a Config,
    pub(super) span: Span,
    pub(super) weights: &'a Weights,
    pub(super) state: &'a State,
    pub(super) rows: u32,
}

/// Tags in error messages: the layer, from 1, times this.
const TAG_LAYER: u32 = 100;

impl Builder<'_> {
    /// All ops of a pass over `rows` tokens: from ids if the part has the embedding table, else from the
    /// activations of the previous part.
    pub(super) fn build(&self, output: Output) -> Vec<Op> {
        let state = self.state;
        let mut ops = Vec::new();
        if self.span.has_input() {
            let tokens = Tensor { ne: [self.rows, 1, 1, 1], ..state.tokens.clone() };
            let table = self.weights.get(TOKEN_EMBD);
            ops.push(Op::new(OpCode::Embed, &self.rows(&state.stream), &[table, &tokens]));
        }
        for layer in self.span.layers(self.config) {
            let start = ops.len();
            self.attention(layer, &mut ops);
            self.feed_forward(layer, &mut ops);
            for op in &mut ops[start..] {
                *op = op.clone().tag((layer + 1) * TAG_LAYER);
            }
        }
        if let Some(results) = &state.results {
            self.head(output, results, &mut ops);
        }
        ops
    }

    /// The first rows of an activation.
    fn rows(&self, tensor: &Tensor) -> Tensor {
        Tensor { ne: [tensor.ne[0], self.rows, 1, 1], ..tensor.clone() }
    }

    fn norm(&self, weight: &str) -> Op {
        let (stream, normed) = (self.rows(&self.state.stream), self.rows(&self.state.normed));
        Op::new(OpCode::RmsNorm, &normed, &[&stream, self.weights.get(weight)]).real(self.config.eps)
    }

    fn matmul(&self, part: Part, layer: u32, result: &Tensor, input: &Tensor) -> Op {
        let op = Op::new(
            OpCode::MatMul,
            &self.rows(result),
            &[self.weights.get(&part.weight(layer)), &self.rows(input)],
        );
        match self.weights.find(&part.bias(layer)) {
            Some(bias) => op.bias(bias),
            None => op,
        }
    }

    fn attention(&self, layer: u32, ops: &mut Vec<Op>) {
        let (state, config) = (self.state, self.config);
        let (key_cache, value_cache) = &state.caches[(layer - self.span.first) as usize];
        ops.push(self.norm(&Part::AttnNorm.weight(layer)));
        ops.push(self.matmul(Part::AttnQ, layer, &state.queries, &state.normed));
        ops.push(self.matmul(Part::AttnK, layer, &state.keys, &state.normed));
        ops.push(self.matmul(Part::AttnV, layer, &state.values, &state.normed));
        ops.extend(self.turn(Part::AttnQNorm, layer, &state.queries, config.n_head));
        ops.extend(self.turn(Part::AttnKNorm, layer, &state.keys, config.n_head_kv));
        let (keys, values) = (self.rows(&state.keys), self.rows(&state.values));
        ops.push(
            Op::new(OpCode::KvWrite, key_cache, &[&keys, &values, value_cache])
                .integers(&[config.n_head_kv, config.d_head]),
        );
        let (queries, attended) = (self.rows(&state.queries), self.rows(&state.attended));
        ops.push(
            Op::new(OpCode::Attention, &attended, &[&queries, key_cache, value_cache])
                .integers(&[config.n_head, config.n_head_kv, config.d_head])
                .real(config.attention_scale),
        );
        ops.push(self.matmul(Part::AttnOutput, layer, &state.stream, &state.attended).accumulate());
    }

    /// Normalises each head, if the model does that, and rotates it.
    fn turn(&self, norm: Part, layer: u32, tensor: &Tensor, heads: u32) -> Vec<Op> {
        let config = self.config;
        let tensor = self.rows(tensor);
        let mut ops = Vec::new();
        if let Some(weight) = self.weights.find(&norm.weight(layer)) {
            ops.push(Op::new(OpCode::RmsNorm, &tensor, &[&tensor, weight]).real(config.eps));
        }
        let sizes = [heads, config.d_head, config.n_rot];
        let rotation = Op::new(OpCode::Rope, &tensor, &[&tensor, &self.state.rope]).integers(&sizes);
        ops.push(match config.architecture.pairs {
            Pairs::Neighbours => rotation,
            Pairs::Halves => rotation.neox(),
        });
        ops
    }

    fn feed_forward(&self, layer: u32, ops: &mut Vec<Op>) {
        let state = self.state;
        ops.push(self.norm(&Part::FfnNorm.weight(layer)));
        ops.push(self.matmul(Part::FfnGate, layer, &state.gate, &state.normed));
        ops.push(self.matmul(Part::FfnUp, layer, &state.up, &state.normed));
        let (gate, up) = (self.rows(&state.gate), self.rows(&state.up));
        ops.push(Op::new(OpCode::SwiGlu, &gate, &[&gate, &up]));
        ops.push(self.matmul(Part::FfnDown, layer, &state.stream, &state.gate).accumulate());
    }

    fn head(&self, output: Output, results: &Results, ops: &mut Vec<Op>) {
        if output == Output::Nothing {
            return;
        }
        ops.push(self.norm(OUTPUT_NORM));
        // Models without an output matrix use the embedding table.
        let matrix = self.weights.find(OUTPUT).unwrap_or_else(|| self.weights.get(TOKEN_EMBD));
        let normed = self.rows(&self.state.normed);
        let product = |logits: &Tensor| {
            let op = Op::new(OpCode::MatMul, logits, &[matrix, &normed]);
            match self.weights.find(OUTPUT_BIAS) {
                Some(bias) => op.bias(bias),
                None => op,
            }
        };
        if output == Output::AllLogits {
            ops.push(product(&self.rows(&results.logits)));
            return;
        }
        let logits = Tensor { ne: [results.logits.ne[0], 1, 1, 1], ..results.logits.clone() };
        ops.push(product(&logits).last_row());
        match output {
            Output::Candidates(count) => {
                let slice = |tensor: &Tensor| Tensor { ne: [count, 1, 1, 1], ..tensor.clone() };
                // The operands of this op are a, none, c.
                ops.push(Op::top_k(&slice(&results.top_ids), &logits, &slice(&results.top_values)));
            }
            Output::Best => ops.push(Op::new(OpCode::ArgMax, &results.next, &[&logits])),
            Output::Feedback => {
                ops.push(Op::new(OpCode::ArgMax, &results.next, &[&logits]));
                let token = Tensor { ne: [1, 1, 1, 1], ..self.state.tokens.clone() };
                ops.push(Op::step(&results.next, &token, Some(&results.history)));
            }
            Output::Nothing | Output::Logits | Output::AllLogits => {}
        }
    }
}
