//! A tiny random Llama model, written with the library's own writer.

use crate::requirements::{requires, skip};
use infer::discovery::{Answer, examine};
use infer::gguf::{Bytes, Gguf, TensorType, Writer};
use infer::gk::{self, Backend, Device, OpenOptions};
use infer::model::Model;
use infer::session::{CacheType, LogitRows, Options, Session};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::OnceLock;

/// Sizes of the tiny model.
pub(crate) const EMBD: u64 = 64;
pub(crate) const HEADS: u64 = 4;
pub(crate) const HEADS_KV: u64 = 2;
pub(crate) const FF: u64 = 96;
pub(crate) const LAYERS: u32 = 2;
const WORDS: [&str; 13] = ["▁", "a", "b", "c", "▁a", "ab", "abc", "▁ab", "▁abc", "<user>", "é", "▁b", "▁c"];
pub(crate) const VOCABULARY: u64 = 3 + 256 + WORDS.len() as u64;

/// Random bytes of a tensor with spread 1 / sqrt(width), so that activations stay in range.
pub(crate) fn noise(name: &str, width: u64, rows: u64, kind: TensorType) -> Vec<u8> {
    let seed = name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let count = usize::try_from(kind.row_bytes(width).unwrap() * rows).unwrap();
    let mut bytes = vec![0; count];
    random.fill_bytes(&mut bytes);
    let spread = (3.0 / f64::from(u32::try_from(width).unwrap())).sqrt();
    match kind.name() {
        "q8_0" => {
            let scale = half::f16::from_f64(spread / 128.0).to_le_bytes();
            bytes.chunks_exact_mut(34).for_each(|block| block[..2].copy_from_slice(&scale));
        }
        "f16" => bytes.chunks_exact_mut(2).for_each(|pair| {
            let value = f64::from(i16::from_le_bytes([pair[0], pair[1]])) / 32768.0 * spread;
            pair.copy_from_slice(&half::f16::from_f64(value).to_le_bytes());
        }),
        _ => bytes.chunks_exact_mut(4).for_each(|four| {
            let value = f32::from(i16::from_le_bytes([four[0], four[1]])) / 32768.0;
            #[expect(clippy::cast_possible_truncation, reason = "noise")]
            four.copy_from_slice(&(value * spread as f32).to_le_bytes());
        }),
    }
    bytes
}

pub(crate) fn ones(count: u64) -> Vec<u8> {
    1.0_f32.to_le_bytes().repeat(usize::try_from(count).unwrap())
}

/// The metadata of a `SentencePiece` tokenizer with byte fallback.
pub(crate) fn spm_tokenizer(writer: Writer) -> Writer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(WORDS.map(str::to_owned));
    let kinds: Vec<i32> = (0..tokens.len())
        .map(|id| match id {
            0 => 2,
            1 | 2 => 3,
            3..259 => 6,
            _ if tokens[id] == "<user>" => 4,
            _ => 1,
        })
        .collect();
    // Longer words have higher scores.
    let scores: Vec<f32> =
        tokens.iter().map(|token| f32::from(u8::try_from(token.chars().count()).unwrap()) - 20.0).collect();
    writer
        .string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .reals("tokenizer.ggml.scores", &scores)
        .integers("tokenizer.ggml.token_type", &kinds)
        .integer("tokenizer.ggml.bos_token_id", 1)
        .integer("tokenizer.ggml.eos_token_id", 2)
        .integer("tokenizer.ggml.unknown_token_id", 0)
}

/// A complete model; matrices of type `kind`, whose rows must be complete blocks.
pub(crate) fn tiny(kind: TensorType) -> Writer {
    let (q, kv) = (EMBD, EMBD / HEADS * HEADS_KV);
    let mut writer = spm_tokenizer(Writer::new())
        .string("general.architecture", "llama")
        .string("general.name", "tiny")
        .integer("llama.context_length", 128)
        .integer("llama.embedding_length", u32::try_from(EMBD).unwrap())
        .integer("llama.block_count", LAYERS)
        .integer("llama.feed_forward_length", u32::try_from(FF).unwrap())
        .integer("llama.attention.head_count", u32::try_from(HEADS).unwrap())
        .integer("llama.attention.head_count_kv", u32::try_from(HEADS_KV).unwrap())
        .real("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let matrix = |writer: Writer, name: &str, width: u64, rows: u64| {
        writer.tensor(name, &[width, rows], kind, noise(name, width, rows, kind))
    };
    // Large logits, so that the best token is far ahead of the second.
    let norm: Vec<u8> = 3.0_f32.to_le_bytes().repeat(usize::try_from(EMBD).unwrap());
    writer = matrix(writer, "token_embd.weight", EMBD, VOCABULARY).tensor(
        "output_norm.weight",
        &[EMBD],
        TensorType::F32,
        norm,
    );
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        for part in ["attn_norm", "ffn_norm"] {
            writer = writer.tensor(&name(part), &[EMBD], TensorType::F32, ones(EMBD));
        }
        for (part, width, rows) in [
            ("attn_q", EMBD, q),
            ("attn_k", EMBD, kv),
            ("attn_v", EMBD, kv),
            ("attn_output", q, EMBD),
            ("ffn_gate", EMBD, FF),
            ("ffn_up", EMBD, FF),
            ("ffn_down", FF, EMBD),
        ] {
            writer = matrix(writer, &name(part), width, rows);
        }
    }
    writer
}

/// Reads a file whose name is `test.gguf`.
pub(crate) fn read(bytes: Vec<u8>) -> Result<Gguf, infer::gguf::Error> {
    Gguf::new("test.gguf", Bytes::Owned(bytes))
}

/// Opens the first device of every linked backend that works here; prints why for the others.
pub(crate) fn devices() -> Vec<Device> {
    devices_with(OpenOptions::default())
}

/// The same with one worker thread: threads that wait for each other at every op are very slow if other
/// programs run too.
pub(crate) fn devices_of_one_thread() -> Vec<Device> {
    devices_with(OpenOptions { threads: 1, ..OpenOptions::default() })
}

/// The answer of each linked backend, probed once: PoCL 3.1 crashes if two threads probe it first.
pub(crate) fn answers() -> &'static [Answer] {
    static ANSWERS: OnceLock<Vec<Answer>> = OnceLock::new();
    ANSWERS.get_or_init(|| gk::linked().map(examine).collect())
}

pub(crate) fn devices_with(options: OpenOptions) -> Vec<Device> {
    let mut devices = Vec::new();
    for answer in answers() {
        let id = answer.backend.as_str();
        let working = answer.devices.iter().find(|device| device.why.is_none());
        let Some(working) = working else {
            skip(id, &format!("no {id}: {}", answer.why.as_deref().unwrap_or_default()));
            continue;
        };
        let device = Backend::named(id).unwrap().open(working.index, working.info.clone(), options).unwrap();
        devices.push(device);
    }
    for id in gk::PREFERENCE {
        assert!(
            gk::linked().any(|linked| linked == id) || !requires(id),
            "`{id}` is required and not linked"
        );
    }
    if devices.is_empty() {
        skip("cpu", "no kernels are linked");
    }
    devices
}

/// The reference backend, if any kernels are linked.
pub(crate) fn reference_device() -> Option<Device> {
    Backend::named("ref").ok().map(|backend| backend.open_first(OpenOptions::default()).unwrap())
}

/// A session with room for all logits and an f32 cache.
pub(crate) fn session(model: &Model, device: &Device) -> Session {
    let options = Options { n_ctx: 128, cache: CacheType::F32, logits: LogitRows::All };
    Session::new(model, device.clone(), options).unwrap()
}
