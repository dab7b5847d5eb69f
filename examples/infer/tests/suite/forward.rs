//! The plans compute what each architecture defines: compared with a forward pass in f64 without any kernels,
//! and every backend with the reference.

use crate::common::{devices_of_one_thread as devices, reference_device};
use crate::requirements::skip;
use crate::truth::Truth;
use infer::check::nmse;
use infer::gguf::{Bytes, Gguf, TensorType};
use infer::gk::Device;
use infer::model::architecture::ARCHITECTURES;
use infer::model::rope::Scaling;
use infer::model::{Architecture, Model, Recipe};
use infer::session::{CHUNK, CacheType, LogitRows, Options, Output, Session};

const YARN: Scaling = Scaling::Yarn { factor: 4.0, original: 64, beta_fast: 32.0, beta_slow: 1.0 };

/// Every architecture, with every variation of its models.
pub(crate) fn recipes(kind: TensorType) -> Vec<(&'static str, Recipe)> {
    let of = |name: &str| Recipe::new(Architecture::named(name).unwrap(), kind, 5);
    let llama = || of("llama");
    vec![
        ("llama", llama()),
        ("qwen2", of("qwen2")),
        ("qwen3", of("qwen3")),
        ("llama, rope factors", Recipe { rope_factors: true, ..llama() }),
        ("llama, tied", Recipe { tied: true, ..llama() }),
        ("llama, linear", Recipe { scaling: Scaling::Linear { factor: 4.0 }, ..llama() }),
        ("llama, yarn", Recipe { scaling: YARN, ..llama() }),
        ("llama, biases", Recipe { biases: true, ..llama() }),
        ("llama, one key head", Recipe { n_head_kv: 1, ..llama() }),
        ("llama, all key heads", Recipe { n_head_kv: 4, ..llama() }),
        ("qwen2, tied, output bias", Recipe { tied: true, biases: true, ..of("qwen2") }),
        ("qwen2, yarn", Recipe { scaling: YARN, ..of("qwen2") }),
        ("qwen3, wide heads, tied", Recipe { d_head: 128, tied: true, ..of("qwen3") }),
    ]
}

pub(crate) fn model(recipe: &Recipe) -> Model {
    let bytes = recipe.write().unwrap().finish();
    Model::from_gguf(Gguf::new("random.gguf", Bytes::Owned(bytes)).unwrap()).unwrap()
}

/// A session with room for all logits and an f32 cache.
pub(crate) fn session(model: &Model, device: &Device) -> Session {
    let options = Options { n_ctx: 256, cache: CacheType::F32, logits: LogitRows::All };
    Session::new(model, device.clone(), options).unwrap()
}

pub(crate) fn tokens(count: u32) -> Vec<u32> {
    (0..count).map(|place| place * 37 % 271).collect()
}

/// The logits after every token of a text.
pub(crate) fn all_logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.reset();
    let mut all = Vec::new();
    for chunk in tokens.chunks(CHUNK as usize) {
        session.feed(chunk, Output::AllLogits).unwrap();
        all.extend(session.logits(chunk.len()).unwrap());
    }
    all
}

pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Backends may round activations to eight bits if weights are quantised, and to bf16 if weights are bf16.
pub(crate) fn bound(kind: TensorType) -> f64 {
    match kind {
        TensorType::BF16 => 3e-4,
        _ if kind.block_elements() == 1 => 1e-6,
        _ => 2e-3,
    }
}

/// Every recipe in f32, and each architecture in the other types for which a device has kernels. The slow
/// reference is compared with the f64 forward pass elsewhere: one recipe is enough here.
fn cases(device: &Device) -> Vec<(&'static str, Recipe)> {
    let plain = |(name, _): &(&str, Recipe)| ["llama", "qwen2", "qwen3"].contains(name);
    let mut cases = recipes(TensorType::F32);
    if device.backend_id() == "ref" {
        cases.retain(|(name, _)| *name == "qwen3");
        return cases;
    }
    for kind in TensorType::WEIGHTS.into_iter().filter(|kind| *kind != TensorType::F32) {
        if device.weight_bytes(kind, 256, 8) > 0 {
            cases.extend(recipes(kind).into_iter().filter(plain));
        }
    }
    cases
}

/// The same with smaller matrices, as far as its blocks allow: reference and f64 forward pass are slow.
pub(crate) fn small(recipe: &Recipe) -> Recipe {
    if recipe.kind.block_elements() > 32 {
        return recipe.clone();
    }
    Recipe { n_embd: 64, n_ff: 96, d_head: recipe.d_head / 2, n_vocab: 272, ..recipe.clone() }
}

fn check(name: &str, recipe: &Recipe) {
    let Some(device) = reference_device() else {
        skip("cpu", "no kernels are linked");
        return;
    };
    let model = model(recipe);
    let tokens = tokens(24);
    let mut truth = Truth::new(recipe, &model);
    let exact: Vec<f64> = tokens.iter().flat_map(|token| truth.logits(*token)).collect();
    let spread = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        (row.iter().map(|logit| (logit - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
    };
    for row in exact.chunks_exact(recipe.n_vocab as usize) {
        assert!(spread(row) >= 3.0, "{name}: logits of spread {} are not meaningful", spread(row));
    }
    let error = nmse(&all_logits(&mut session(&model, &device), &tokens), &exact);
    assert!(error < 1e-10, "{name}: nmse {error}");
}

#[test]
fn every_architecture_equals_its_definition() {
    let recipes = recipes(TensorType::F32);
    for architecture in &ARCHITECTURES {
        assert!(recipes.iter().any(|(_, recipe)| recipe.architecture == architecture));
    }
    for (name, recipe) in recipes {
        check(name, &small(&recipe));
    }
}

#[test]
fn part_of_the_head_is_rotated() {
    for (name, recipe) in recipes(TensorType::F32) {
        check(name, &Recipe { n_rot: 16, ..small(&recipe) });
    }
}

#[test]
fn every_backend_computes_every_architecture() {
    let Some(truth) = reference_device() else { return };
    let tokens = tokens(66);
    for device in devices().into_iter().filter(|device| device.backend_id() != "ref") {
        for (name, recipe) in cases(&device) {
            let (kind, recipe) = (recipe.kind, small(&recipe));
            let model = model(&recipe);
            let expected = wide(&all_logits(&mut session(&model, &truth), &tokens));
            let error = nmse(&all_logits(&mut session(&model, &device), &tokens), &expected);
            assert!(error <= bound(kind), "{} {name} {kind}: nmse {error}", device.backend_id());
        }
    }
}

/// Feeding token by token, and in pieces of odd sizes, gives the same result as feeding the complete prompt.
#[test]
fn pieces_of_a_prompt_equal_the_complete_prompt() {
    for device in devices() {
        for (name, recipe) in cases(&device) {
            let (kind, recipe) = (recipe.kind, small(&recipe));
            let mut session = session(&model(&recipe), &device);
            let tokens = tokens(72);
            let whole = all_logits(&mut session, &tokens);
            let last = wide(&whole[whole.len() - recipe.n_vocab as usize..]);
            for pieces in [[1; 72].as_slice(), &[7, 1, 63, 1], &[2, 70]] {
                session.reset();
                let mut rest = tokens.as_slice();
                for piece in pieces {
                    let (now, later) = rest.split_at(*piece);
                    session.feed(now, Output::Logits).unwrap();
                    rest = later;
                }
                assert!(rest.is_empty());
                let error = nmse(&session.logits(1).unwrap(), &last);
                let who = format!("{} {name} {kind} in {} pieces", device.backend_id(), pieces.len());
                assert!(error <= bound(kind), "{who}: nmse {error}");
            }
        }
    }
}
