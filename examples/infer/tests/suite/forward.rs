//! The plans compute what a Llama is: compared with a forward pass that is written down here, in f64, one token after
//! the other, without any of the kernels.

use crate::common::{
    EMBD, FF, HEADS, HEADS_KV, LAYERS, VOCABULARY, noise, read, reference_device, session, tiny,
};
use infer::check::nmse;
use infer::gguf::{TensorType, Writer};
use infer::model::Model;
use infer::session::Output;

/// What differs from the plain model.
#[derive(Default)]
struct Variant {
    untied: bool,
    biases: bool,
    rope_factors: bool,
    linear_scaling: Option<f32>,
    rotated: Option<u32>,
}

const HEAD: usize = (EMBD / HEADS) as usize;
#[expect(clippy::cast_possible_truncation, reason = "64")]
const WIDTH: usize = EMBD as usize;

fn write(variant: &Variant) -> Writer {
    let kind = TensorType::F32;
    let vector = |writer: Writer, name: &str, width: u64| {
        writer.tensor(name, &[width], kind, noise(name, width, 1, kind))
    };
    let mut writer = tiny(kind);
    if variant.untied {
        let data = noise("output.weight", EMBD, VOCABULARY, kind);
        writer = writer.tensor("output.weight", &[EMBD, VOCABULARY], kind, data);
    }
    if variant.biases {
        for layer in 0..LAYERS {
            writer = vector(writer, &format!("blk.{layer}.attn_q.bias"), EMBD);
            writer = vector(writer, &format!("blk.{layer}.attn_k.bias"), EMBD / 2);
            writer = vector(writer, &format!("blk.{layer}.attn_v.bias"), EMBD / 2);
        }
    }
    if let Some(rotated) = variant.rotated {
        writer = writer.integer("llama.rope.dimension_count", rotated);
    }
    if variant.rope_factors {
        let pairs = variant.rotated.map_or(HEAD / 2, |rotated| rotated as usize / 2);
        let factors: Vec<u8> =
            (1..=pairs).flat_map(|pair| f32::from(u8::try_from(pair).unwrap()).to_le_bytes()).collect();
        writer = writer.tensor("rope_freqs.weight", &[pairs as u64], kind, factors);
    }
    if let Some(factor) = variant.linear_scaling {
        writer = writer.string("llama.rope.scaling.type", "linear").real("llama.rope.scaling.factor", factor);
    }
    writer
}

/// The model as numbers.
struct Plain<'a> {
    model: &'a Model,
    variant: &'a Variant,
    keys: Vec<Vec<Vec<f64>>>,
    values: Vec<Vec<Vec<f64>>>,
}

impl Plain<'_> {
    fn tensor(&self, name: &str) -> Option<Vec<f64>> {
        let spec = self.model.spec(name)?;
        let bytes = self.model.rows(spec, 0, spec.rows);
        Some(bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()).into()).collect())
    }

    fn matmul(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let rows = self.tensor(&format!("{name}.weight")).unwrap();
        let bias = self.tensor(&format!("{name}.bias"));
        let dot = |row: &[f64]| row.iter().zip(input).map(|(a, b)| a * b).sum::<f64>();
        let products = rows.chunks_exact(input.len()).map(dot);
        products.enumerate().map(|(row, value)| value + bias.as_ref().map_or(0.0, |bias| bias[row])).collect()
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let weight = self.tensor(&format!("{name}.weight")).unwrap();
        let mean = input.iter().map(|x| x * x).sum::<f64>() / EMBD as f64;
        input.iter().zip(weight).map(|(x, w)| x / (mean + f64::from(1e-5_f32)).sqrt() * w).collect()
    }

    fn rotate(&self, vector: &mut [f64], position: usize) {
        let rotated = self.variant.rotated.map_or(HEAD, |rotated| rotated as usize);
        for head in vector.chunks_exact_mut(HEAD) {
            for pair in 0..rotated / 2 {
                let mut angle = position as f64 * 10_000_f64.powf(-2.0 * pair as f64 / rotated as f64);
                if self.variant.rope_factors {
                    angle /= (pair + 1) as f64;
                }
                angle /= f64::from(self.variant.linear_scaling.unwrap_or(1.0));
                let (x, y) = (head[2 * pair], head[2 * pair + 1]);
                head[2 * pair] = x * angle.cos() - y * angle.sin();
                head[2 * pair + 1] = x * angle.sin() + y * angle.cos();
            }
        }
    }

    fn attend(&self, layer: usize, query: &[f64]) -> Vec<f64> {
        let group = (HEADS / HEADS_KV) as usize;
        let mut result = Vec::new();
        for (head, query) in query.chunks_exact(HEAD).enumerate() {
            let part = |row: &Vec<f64>| row[head / group * HEAD..][..HEAD].to_vec();
            let scores: Vec<f64> = self.keys[layer]
                .iter()
                .map(|key| {
                    query.iter().zip(part(key)).map(|(a, b)| a * b).sum::<f64>() / (HEAD as f64).sqrt()
                })
                .collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for column in 0..HEAD {
                let sum: f64 = self.values[layer]
                    .iter()
                    .zip(&weights)
                    .map(|(row, weight)| part(row)[column] * weight)
                    .sum();
                result.push(sum / total);
            }
        }
        result
    }

    fn logits(&mut self, token: u32, position: usize) -> Vec<f64> {
        let table = self.tensor("token_embd.weight").unwrap();
        let mut stream = table[token as usize * WIDTH..][..WIDTH].to_vec();
        let add = |stream: &mut Vec<f64>, change: Vec<f64>| {
            stream.iter_mut().zip(change).for_each(|(x, y)| *x += y);
        };
        for layer in 0..LAYERS as usize {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let normed = self.norm(&name("attn_norm"), &stream);
            let mut query = self.matmul(&name("attn_q"), &normed);
            let mut key = self.matmul(&name("attn_k"), &normed);
            self.rotate(&mut query, position);
            self.rotate(&mut key, position);
            let value = self.matmul(&name("attn_v"), &normed);
            self.keys[layer].push(key);
            self.values[layer].push(value);
            let attended = self.attend(layer, &query);
            add(&mut stream, self.matmul(&name("attn_output"), &attended));
            let normed = self.norm(&name("ffn_norm"), &stream);
            let gate = self.matmul(&name("ffn_gate"), &normed);
            let up = self.matmul(&name("ffn_up"), &normed);
            let hidden: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            assert_eq!(hidden.len() as u64, FF);
            add(&mut stream, self.matmul(&name("ffn_down"), &hidden));
        }
        let normed = self.norm("output_norm", &stream);
        self.matmul(if self.variant.untied { "output" } else { "token_embd" }, &normed)
    }
}

fn check(name: &str, variant: &Variant) {
    let Some(device) = reference_device() else {
        eprintln!("skipped: no kernels are linked");
        return;
    };
    let model = Model::from_gguf(read(write(variant).finish()).unwrap()).unwrap();
    let tokens: Vec<u32> = (0..20).map(|place| place * 37 % 272).collect();
    let layers = LAYERS as usize;
    let mut plain =
        Plain { model: &model, variant, keys: vec![Vec::new(); layers], values: vec![Vec::new(); layers] };
    let exact: Vec<f64> =
        tokens.iter().enumerate().flat_map(|(position, token)| plain.logits(*token, position)).collect();
    let mut session = session(&model, &device);
    session.feed(&tokens, Output::AllLogits).unwrap();
    let error = nmse(&session.logits(tokens.len()).unwrap(), &exact);
    assert!(error < 1e-10, "{name}: nmse {error}");
}

#[test]
fn plain_model_with_tied_output() {
    check("plain", &Variant::default());
}

#[test]
fn untied_output() {
    check("untied", &Variant { untied: true, ..Variant::default() });
}

#[test]
fn biases() {
    check("biases", &Variant { biases: true, ..Variant::default() });
}

#[test]
fn rope_factors_and_part_of_the_head() {
    check("factors", &Variant { rope_factors: true, ..Variant::default() });
    check("part", &Variant { rotated: Some(8), rope_factors: true, ..Variant::default() });
}

#[test]
fn linear_scaling() {
    check("linear", &Variant { linear_scaling: Some(4.0), ..Variant::default() });
}
