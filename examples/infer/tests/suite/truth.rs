//! The definition of the architectures in f64: a forward pass over one token after the other, without kernels
//! and without the library's tables. It reads the recipe of a model and the tensors of its file.

use infer::model::rope::Scaling;
use infer::model::{Model, Recipe};
use std::collections::HashMap;

pub(crate) struct Truth<'a> {
    recipe: &'a Recipe,
    tensors: HashMap<String, Vec<f64>>,
    keys: Vec<Vec<Vec<f64>>>,
    values: Vec<Vec<Vec<f64>>>,
}

impl<'a> Truth<'a> {
    /// All tensors are f32.
    pub(crate) fn new(recipe: &'a Recipe, model: &Model) -> Self {
        let mut tensors = HashMap::new();
        for spec in model.specs() {
            let bytes = model.rows(spec, 0, spec.rows);
            let number = |four: &[u8]| f64::from(f32::from_le_bytes(four.try_into().unwrap()));
            tensors.insert(spec.name.clone(), bytes.chunks_exact(4).map(number).collect());
        }
        let layers = recipe.n_layer as usize;
        Self { recipe, tensors, keys: vec![Vec::new(); layers], values: vec![Vec::new(); layers] }
    }

    fn matmul(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let rows = &self.tensors[&format!("{name}.weight")];
        let bias = self.tensors.get(&format!("{name}.bias"));
        let dot = |row: &[f64]| row.iter().zip(input).map(|(a, b)| a * b).sum::<f64>();
        let products = rows.chunks_exact(input.len()).map(dot);
        products.enumerate().map(|(row, value)| value + bias.map_or(0.0, |bias| bias[row])).collect()
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let weight = &self.tensors[&format!("{name}.weight")];
        let mean = input.iter().map(|x| x * x).sum::<f64>() / input.len() as f64;
        input.iter().zip(weight).map(|(x, w)| x / (mean + f64::from(1e-5_f32)).sqrt() * w).collect()
    }

    /// The angle of a pair at a position, and the factor of the pair.
    fn angle(&self, position: usize, pair: usize, rotated: usize) -> (f64, f64) {
        let base = 10_000_f64;
        let mut angle = position as f64 * base.powf(-2.0 * pair as f64 / rotated as f64);
        if let Some(factors) = self.tensors.get("rope_freqs.weight") {
            angle /= factors[pair];
        }
        match self.recipe.scaling {
            Scaling::None => (angle, 1.0),
            Scaling::Linear { factor } => (angle / factor, 1.0),
            Scaling::Yarn { factor, original, .. } => {
                let turns = |count: f64| {
                    rotated as f64 * (f64::from(original) / (count * 2.0 * std::f64::consts::PI)).ln()
                        / (2.0 * base.ln())
                };
                let (first, last) =
                    (turns(32.0).floor().max(0.0), turns(1.0).ceil().min(rotated as f64 - 1.0));
                let ramp = 1.0 - ((pair as f64 - first) / (last - first).max(0.001)).clamp(0.0, 1.0);
                (angle / factor * (1.0 - ramp) + angle * ramp, 1.0 + 0.1 * factor.ln())
            }
        }
    }

    fn turn(&self, norm: &str, vector: &mut [f64], position: usize) {
        let head = self.recipe.d_head as usize;
        let rotated = if self.recipe.n_rot == 0 { head } else { self.recipe.n_rot as usize };
        for head in vector.chunks_exact_mut(head) {
            if self.recipe.architecture.name == "qwen3" {
                let normed = self.norm(norm, head);
                head.copy_from_slice(&normed);
            }
            for pair in 0..rotated / 2 {
                let (angle, size) = self.angle(position, pair, rotated);
                let (left, right) = match self.recipe.architecture.name {
                    "llama" => (2 * pair, 2 * pair + 1),
                    _ => (pair, pair + rotated / 2),
                };
                let (x, y) = (head[left] * size, head[right] * size);
                head[left] = x * angle.cos() - y * angle.sin();
                head[right] = x * angle.sin() + y * angle.cos();
            }
        }
    }

    fn attend(&self, layer: usize, query: &[f64]) -> Vec<f64> {
        let width = self.recipe.d_head as usize;
        let group = (self.recipe.n_head / self.recipe.n_head_kv) as usize;
        let mut result = Vec::new();
        for (head, query) in query.chunks_exact(width).enumerate() {
            let part = |row: &Vec<f64>| row[head / group * width..][..width].to_vec();
            let score =
                |key| query.iter().zip(part(key)).map(|(a, b)| a * b).sum::<f64>() / (width as f64).sqrt();
            let scores: Vec<f64> = self.keys[layer].iter().map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut sums = vec![0.0; width];
            for (row, weight) in self.values[layer].iter().zip(&weights) {
                sums.iter_mut().zip(part(row)).for_each(|(sum, value)| *sum += value * weight / total);
            }
            result.extend(sums);
        }
        result
    }

    /// The logits after the next token.
    pub(crate) fn logits(&mut self, token: u32) -> Vec<f64> {
        let width = self.recipe.n_embd as usize;
        let position = self.keys[0].len();
        let mut stream = self.tensors["token_embd.weight"][token as usize * width..][..width].to_vec();
        let add = |stream: &mut Vec<f64>, change: Vec<f64>| {
            stream.iter_mut().zip(change).for_each(|(x, y)| *x += y);
        };
        for layer in 0..self.recipe.n_layer as usize {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let normed = self.norm(&name("attn_norm"), &stream);
            let mut query = self.matmul(&name("attn_q"), &normed);
            let mut key = self.matmul(&name("attn_k"), &normed);
            self.turn(&name("attn_q_norm"), &mut query, position);
            self.turn(&name("attn_k_norm"), &mut key, position);
            let value = self.matmul(&name("attn_v"), &normed);
            self.keys[layer].push(key);
            self.values[layer].push(value);
            let attended = self.attend(layer, &query);
            add(&mut stream, self.matmul(&name("attn_output"), &attended));
            let normed = self.norm(&name("ffn_norm"), &stream);
            let gate = self.matmul(&name("ffn_gate"), &normed);
            let up = self.matmul(&name("ffn_up"), &normed);
            let hidden: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(&mut stream, self.matmul(&name("ffn_down"), &hidden));
        }
        let normed = self.norm("output_norm", &stream);
        let mut logits = self.matmul(if self.recipe.tied { "token_embd" } else { "output" }, &normed);
        // A separate output matrix includes its bias already.
        if let Some(bias) = self.tensors.get("output.bias").filter(|_| self.recipe.tied) {
            add(&mut logits, bias.clone());
        }
        logits
    }
}
