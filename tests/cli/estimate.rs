//! `gpubuild estimate`: bytes, devices and bounds, compared with numbers that were computed by hand.
#![expect(clippy::disallowed_methods, reason = "tests write their own files")]

use gpubuild_gguf::{TensorType, Writer};
use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, recorded};

const RTX: &str = "ubuntu-22.04-rtx4090";

fn estimate(sandbox: &Sandbox, host: &str, more: &[&str]) -> RunResult {
    let host = recorded(host);
    sandbox.run(&[&["estimate", "--host", &host], more].concat())
}

fn document(sandbox: &Sandbox, host: &str, more: &[&str]) -> Value {
    let ran = estimate(sandbox, host, &[more, &["--json"]].concat());
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"], json!({"name": "estimate", "version": 1}));
    document
}

#[test]
fn bytes_of_a_typical_model() {
    // Llama 3.1 8B has 8.03 billion weights, without 266,240 of its norms.
    let found = document(&Sandbox::new(), RTX, &["8B", "--type", "f16", "--context", "8192"]);
    let model = &found["model"];
    assert_eq!(model["parameters"], 8_029_995_008_u64);
    assert_eq!(model["weights"], 2 * 8_029_995_008_u64);
    // One table is not read: 128256 rows of 4096.
    assert_eq!(model["read_per_token"], 2 * (8_029_995_008_u64 - 128_256 * 4096));
    // 32 layers, keys and values, 8 heads of 128, two bytes: 128 KiB per token.
    assert_eq!((&model["cache_per_token"], &model["cache"]), (&json!(131_072), &json!(1_u64 << 30)));
    // 512 rows of 128256 + 4096 numbers of four bytes: 258.5 MiB.
    assert_eq!(model["activations"], 271_056_896_u64);
    let small = document(&Sandbox::new(), RTX, &["8b", "--type", "q4_k"]);
    assert_eq!(small["model"]["weights"], 8_029_995_008_u64 / 256 * 144);
}

#[test]
fn devices_are_compared_with_published_figures() {
    let found = document(&Sandbox::new(), RTX, &["8B", "--type", "q8_0"]);
    let card = &found["devices"][0];
    assert_eq!((&card["backend"], &card["fits"]), (&json!("cuda"), &json!(true)), "{card:#}");
    assert_eq!(card["bandwidth"], 1008.0);
    let read = found["model"]["read_per_token"].as_f64().unwrap();
    let cache = found["model"]["cache"].as_f64().unwrap();
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 1e-9;
    assert!(near(&card["bound"]["empty_cache"], 1008e9 / read), "{card:#}");
    assert!(near(&card["bound"]["full_cache"], 1008e9 / (read + cache)), "{card:#}");
    assert!(
        found["advice"].as_str().unwrap().starts_with("use cuda on NVIDIA GeForce RTX 4090"),
        "{found:#}"
    );
    // The processor has no published bandwidth.
    let cpu = found["devices"].as_array().unwrap().last().unwrap();
    assert_eq!((&cpu["backend"], &cpu["bound"]), (&json!("cpu"), &Value::Null));
    let text = estimate(&Sandbox::new(), RTX, &["8B", "--type", "q8_0"]).stdout;
    assert!(text.contains("`at most` is not measured"), "{text}");
}

#[test]
fn model_that_does_not_fit_is_reported() {
    let found = document(&Sandbox::new(), RTX, &["70B", "--type", "f16"]);
    let card = &found["devices"][0];
    assert_eq!((&card["fits"], &card["longest_context"]), (&json!(false), &json!(0)));
    assert_eq!(card["bound"], Value::Null);
    assert!(found["advice"].as_str().unwrap().contains("fits no device"), "{found:#}");
    // The weights fit, but not with this context.
    let found = document(&Sandbox::new(), RTX, &["32B", "--context", "131072"]);
    let longest = found["devices"][0]["longest_context"].as_u64().unwrap();
    assert!((1..131_072).contains(&longest), "{found:#}");
    let again = document(&Sandbox::new(), RTX, &["32B", "--context", &longest.to_string()]);
    assert_eq!(again["devices"][0]["fits"], true, "{again:#}");
    let longer = document(&Sandbox::new(), RTX, &["32B", "--context", &(longest + 1).to_string()]);
    assert_eq!(longer["devices"][0]["fits"], false, "{longer:#}");
}

#[test]
fn blocked_backend_is_named_with_the_reason() {
    let found = document(&Sandbox::new(), "ubuntu-24.04-nouveau", &["1B"]);
    let reason = found["devices"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("not cuda: ") && reason.contains("[nv.driver.nouveau]"), "{reason}");
    assert_eq!(found["devices"][0]["backend"], "vulkan");
}

/// A small file with experts: two of four are used.
fn file(head_count_kv: bool) -> Vec<u8> {
    let tensor = |writer: Writer, name: &str, shape: &[u64]| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        writer.tensor(name, shape, TensorType::F16, vec![0; 2 * count])
    };
    let mut writer = Writer::new()
        .string("general.architecture", "llama")
        .string("general.name", "tiny")
        .integer("llama.block_count", 2)
        .integer("llama.embedding_length", 64)
        .integer("llama.attention.head_count", 4)
        .integer("llama.expert_count", 4)
        .integer("llama.expert_used_count", 2)
        .integer("llama.context_length", 128);
    if head_count_kv {
        writer = writer.integer("llama.attention.head_count_kv", 2);
    }
    writer = tensor(writer, "token_embd.weight", &[64, 100]);
    writer = tensor(writer, "output.weight", &[64, 100]);
    tensor(writer, "blk.0.ffn_up_exps.weight", &[64, 32, 4]).finish()
}

#[test]
fn file_is_read_by_its_header() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("model.gguf"), file(true)).unwrap();
    let found = document(&sandbox, RTX, &["model.gguf"]);
    let model = &found["model"];
    assert_eq!(
        (&model["name"], &model["type"], &model["context"]),
        (&json!("tiny"), &json!("f16"), &json!(128))
    );
    assert_eq!(model["weights"], 2 * (2 * 6400 + 8192));
    assert_eq!(model["read_per_token"], 2 * (6400 + 4096));
    // 2 layers, keys and values of 2 heads of 16, two bytes.
    assert_eq!(model["cache_per_token"], 2 * 2 * 2 * 16 * 2);
    std::fs::write(sandbox.path("model.gguf"), file(false)).unwrap();
    assert_eq!(document(&sandbox, RTX, &["model.gguf"])["model"]["cache_per_token"], 2 * 2 * 4 * 16 * 2);
    std::fs::write(sandbox.path("model.gguf"), &file(true)[..200]).unwrap();
    let ran = estimate(&sandbox, RTX, &["model.gguf", "--json"]);
    assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(2), &json!("estimate.model-invalid")));
}

#[test]
fn dimensions_are_required_together() {
    let all = ["--layers", "32", "--embedding", "4096", "--heads", "32", "--kv-heads", "8"];
    let rest = ["--feed-forward", "14336", "--vocabulary", "128256", "--type", "f16"];
    let found = document(&Sandbox::new(), RTX, &[&all[..], &rest].concat());
    assert_eq!(found["model"]["parameters"], 8_029_995_008_u64);
    assert_eq!(estimate(&Sandbox::new(), RTX, &all).exit, Some(2));
    assert_eq!(estimate(&Sandbox::new(), RTX, &[]).exit, Some(2));
    assert_eq!(estimate(&Sandbox::new(), RTX, &["9B"]).exit, Some(2));
}

#[test]
fn measured_speeds_are_printed_beside_the_bounds() {
    let sandbox = Sandbox::new();
    let bench = json!({"schema": {"name": "bench", "version": 1}, "guidance": [], "backends": [
        {"id": "cuda", "model": "tiny", "decode": {"best_tokens_per_second": 61.5, "worst_tokens_per_second": 60.0}},
        {"id": "vulkan", "reason": "no driver"},
    ]});
    sandbox.write("bench.json", &bench.to_string());
    let found = document(&sandbox, RTX, &["8B", "--measured", "bench.json"]);
    assert_eq!(found["measured"], json!([{"backend": "cuda", "model": "tiny", "tokens_per_second": 61.5}]));
    let ran = estimate(&sandbox, RTX, &["8B", "--measured", "bench.json"]);
    assert!(
        ran.stdout.contains("measured by `gpubuild bench` with model tiny: cuda, 61.5 tokens/s"),
        "{}",
        ran.stdout
    );
    sandbox.write("bench.json", "{}");
    let ran = estimate(&sandbox, RTX, &["8B", "--measured", "bench.json", "--json"]);
    assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(2), &json!("estimate.measured-invalid")));
}
