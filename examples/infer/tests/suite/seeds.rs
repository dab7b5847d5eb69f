//! The initial fuzzing corpus, a few KiB per file: every architecture, weight type, tokenizer and position
//! rule. `INFER_SEEDS=FOLDER cargo test -p infer --test suite seeds` writes it.

use crate::common::reference_device;
use crate::loading;
use infer::gguf::{TensorType, Writer};
use infer::model::architecture::{ARCHITECTURES, Architecture};
use std::path::PathBuf;

const HEADS: u32 = 2;
const HEAD: u32 = 2;
const FF: u32 = 2;
const COUNT: u32 = 12;
const WORDS: [&str; COUNT as usize] =
    ["<unk>", "<s>", "</s>", "a", "b", "c", "\u{2581}", "\u{120}", "ab", "\u{2581}a", "<user>", "\u{e9}"];

fn data(kind: TensorType, width: u32, rows: u32) -> Vec<u8> {
    let bytes = kind.row_bytes(width.into()).unwrap() * u64::from(rows);
    // 1.0 as f32; any small value works.
    [0, 0, 0x80, 0x3f].into_iter().cycle().take(usize::try_from(bytes).unwrap()).collect()
}

fn model(architecture: &Architecture, kind: TensorType) -> Writer {
    let name = architecture.name;
    let key = |key: &str| format!("{name}.{key}");
    let embd = u32::try_from(kind.block_elements()).unwrap().max(4);
    let mut writer = Writer::new()
        .string("general.architecture", name)
        .string("general.name", "ab ca\u{e9}")
        .integer(&key("context_length"), 64)
        .integer(&key("embedding_length"), embd)
        .integer(&key("block_count"), 1)
        .integer(&key("feed_forward_length"), FF)
        .integer(&key("attention.head_count"), HEADS)
        .integer(&key("attention.head_count_kv"), 1)
        .integer(&key("attention.key_length"), HEAD)
        .real(&key("attention.layer_norm_rms_epsilon"), 1e-5);
    // Block types if rows are long enough, else f16.
    let fitting = |width: u32| if width == embd { kind } else { TensorType::F16 };
    for (name, width, rows) in [
        ("token_embd", embd, COUNT),
        ("blk.0.attn_q", embd, HEADS * HEAD),
        ("blk.0.attn_k", embd, HEAD),
        ("blk.0.attn_v", embd, HEAD),
        ("blk.0.attn_output", HEADS * HEAD, embd),
        ("blk.0.ffn_gate", embd, FF),
        ("blk.0.ffn_up", embd, FF),
        ("blk.0.ffn_down", FF, embd),
    ] {
        let kind = fitting(width);
        let shape = [u64::from(width), u64::from(rows)];
        writer = writer.tensor(&format!("{name}.weight"), &shape, kind, data(kind, width, rows));
    }
    let vector = |writer: Writer, name: &str, width: u32| {
        writer.tensor(name, &[width.into()], TensorType::F32, data(TensorType::F32, width, 1))
    };
    for part in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        writer = vector(writer, &format!("{part}.weight"), embd);
    }
    if name == "qwen2" {
        for (part, width) in [("q", HEADS * HEAD), ("k", HEAD), ("v", HEAD)] {
            writer = vector(writer, &format!("blk.0.attn_{part}.bias"), width);
        }
    }
    if name == "qwen3" {
        for part in ["q", "k"] {
            writer = vector(writer, &format!("blk.0.attn_{part}_norm.weight"), HEAD);
        }
    }
    writer
}

fn words(writer: Writer) -> Writer {
    let kinds: Vec<i32> = (0..WORDS.len())
        .map(|id| [2, 3, 3].get(id).copied().unwrap_or(if id == 10 { 4 } else { 1 }))
        .collect();
    writer
        .strings("tokenizer.ggml.tokens", &WORDS)
        .integers("tokenizer.ggml.token_type", &kinds)
        .integer("tokenizer.ggml.bos_token_id", 1)
        .integer("tokenizer.ggml.eos_token_id", 2)
        .integer("tokenizer.ggml.unknown_token_id", 0)
}

fn spm(writer: Writer) -> Writer {
    let scores: Vec<f32> = WORDS.iter().map(|word| f32::from(u8::try_from(word.len()).unwrap())).collect();
    words(writer).string("tokenizer.ggml.model", "llama").reals("tokenizer.ggml.scores", &scores)
}

fn bpe(writer: Writer, pre: &str) -> Writer {
    words(writer)
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.merges", &["a b", "\u{120} a"])
        .boolean("tokenizer.ggml.add_bos_token", true)
}

const PRE: [&str; 10] = [
    "gpt-2",
    "smollm",
    "llama-bpe",
    "dbrx",
    "qwen2",
    "qwen35",
    "tekken",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
];

fn seeds() -> Vec<(String, Writer)> {
    let [llama, qwen2, qwen3] = &ARCHITECTURES;
    let mut seeds = Vec::new();
    for (kind, architecture) in TensorType::WEIGHTS.into_iter().zip([llama, qwen2, qwen3].into_iter().cycle())
    {
        seeds.push((format!("{}-{kind}", architecture.name), spm(model(architecture, kind))));
    }
    for (pre, architecture) in PRE.into_iter().zip([qwen2, qwen3, llama].into_iter().cycle()) {
        seeds.push((format!("bpe-{pre}"), bpe(model(architecture, TensorType::F16), pre)));
    }
    let small = || spm(model(llama, TensorType::F16));
    for (name, source) in infer::chat::BUILT_IN {
        seeds.push((format!("chat-{name}"), small().string("tokenizer.chat_template", source)));
    }
    let factors = small().tensor("rope_freqs.weight", &[1], TensorType::F32, data(TensorType::F32, 1, 1));
    seeds.push(("rope-factors".to_owned(), factors));
    for scaling in ["none", "linear", "yarn"] {
        let scaled = small()
            .string("llama.rope.scaling.type", scaling)
            .real("llama.rope.scaling.factor", 4.0)
            .real("llama.rope.freq_base", 1e6)
            .integer("llama.rope.dimension_count", 2)
            .integer("llama.rope.scaling.original_context_length", 16)
            .real("llama.rope.scaling.yarn_beta_fast", 32.0)
            .real("llama.rope.scaling.yarn_beta_slow", 1.0);
        seeds.push((format!("rope-{scaling}"), scaled));
    }
    let untied = small()
        .tensor("output.weight", &[4, COUNT.into()], TensorType::F32, data(TensorType::F32, 4, COUNT))
        .integer("general.alignment", 32)
        .integers("llama.attention.other", &[1, 2]);
    seeds.push(("untied".to_owned(), untied));
    seeds
}

#[test]
fn seeds_are_complete_files() {
    let device = reference_device();
    let folder = std::env::var_os("INFER_SEEDS").map(PathBuf::from);
    for (name, writer) in seeds() {
        let bytes = writer.finish();
        assert!(bytes.len() < 16 << 10, "{name} has {} bytes", bytes.len());
        if let Some(folder) = &folder {
            std::fs::write(folder.join(&name), &bytes).unwrap();
        }
        // The templates in the seeds may reject this conversation; everything before that must succeed.
        if let Err(error) = loading::load(bytes, device.as_ref()) {
            assert!(error.to_string().contains("rejects this conversation"), "{name}: {error}");
        }
    }
}
