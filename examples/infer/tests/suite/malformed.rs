//! Broken and hostile GGUF files: each is rejected with a specific message, and none crashes the program.

use crate::common::{EMBD, VOCABULARY, ones, tiny};
use crate::loading;
use infer::gguf::{TensorType, ValueType, Writer};
use proptest::prelude::*;

/// Without a device, whose estimate does not depend on the validity of the file.
fn load(bytes: Vec<u8>) -> Result<(), infer::Error> {
    loading::load(bytes, None)
}

/// A header from its parts: magic, version, counts, rest.
fn header(magic: &[u8], version: u32, tensors: u64, metadata: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(metadata.to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn text(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// The bytes of one metadata entry.
fn entry(key: &[u8], kind: u32, value: &[u8]) -> Vec<u8> {
    [text(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
}

/// The bytes of one tensor entry, after a file without metadata.
fn tensor(name: &[u8], dimensions: u32, shape: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = text(name);
    bytes.extend(dimensions.to_le_bytes());
    bytes.extend(shape.iter().flat_map(|elements| elements.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend([0; 64]);
    bytes
}

fn with_metadata(entry: &[u8]) -> Vec<u8> {
    header(b"GGUF", 3, 0, 1, &[entry, &[0; 32]].concat())
}

fn with_tensor(tensor: &[u8]) -> Vec<u8> {
    header(b"GGUF", 3, 1, 0, tensor)
}

fn array(element: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&element.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

type Case = (&'static str, Vec<u8>, &'static str);

#[expect(clippy::too_many_lines, reason = "a table")]
fn container_cases() -> Vec<Case> {
    let whole = tiny(TensorType::Q8_0).finish();
    vec![
        ("empty file", Vec::new(), "byte 0, magic: the file ends here: 4 bytes needed, 0 left"),
        ("another format", header(b"GGML", 3, 0, 0, b""), "byte 0, magic: not a GGUF file"),
        ("version 1", header(b"GGUF", 1, 0, 0, b""), "byte 4, version: GGUF version 1"),
        ("version 99", header(b"GGUF", 99, 0, 0, b""), "byte 4, version: GGUF version 99"),
        (
            "big-endian",
            header(b"GGUF", 3_u32.swap_bytes(), 0, 0, b""),
            "byte 4, version: written on a big-endian",
        ),
        (
            "no counts",
            header(b"GGUF", 3, 0, 0, b"")[..12].to_vec(),
            "byte 8, tensor count: the file ends here",
        ),
        (
            "endless tensors",
            header(b"GGUF", 3, u64::MAX, 0, b""),
            "byte 8, tensor count: 18446744073709551615 entries",
        ),
        (
            "endless metadata",
            header(b"GGUF", 3, 0, u64::MAX / 2, b""),
            "byte 16, metadata count: 9223372036854775807",
        ),
        (
            "metadata beyond the end",
            header(b"GGUF", 3, 0, 3, &[0; 38]),
            "byte 16, metadata count: 3 entries of at least 13",
        ),
        (
            "endless key",
            with_metadata(&u64::MAX.to_le_bytes()),
            "name of metadata entry 0: the file ends here",
        ),
        (
            "key without a name",
            with_metadata(&entry(b"", 4, &[0; 4])),
            "name of metadata entry 0: an empty name",
        ),
        (
            "key not UTF-8",
            with_metadata(&entry(b"\xff\xfe", 4, &[0; 4])),
            "name of metadata entry 0: not valid UTF-8",
        ),
        (
            "unknown value type",
            with_metadata(&entry(b"k", 13, &[0; 4])),
            "byte 33, key `k`: unknown value type 13",
        ),
        ("boolean of 7", with_metadata(&entry(b"k", 7, &[7])), "byte 37, key `k`: a boolean of value 7"),
        ("endless string", with_metadata(&entry(b"k", 8, &[0xff; 8])), "key `k`: the file ends here"),
        (
            "string not UTF-8",
            with_metadata(&entry(b"k", 8, &text(b"\xc3\x28"))),
            "byte 37, key `k`: not valid UTF-8",
        ),
        (
            "endless array",
            with_metadata(&entry(b"k", 9, &array(4, 1 << 62, &[]))),
            "key `k`: 4611686018427387904 entries",
        ),
        (
            "overflowing array",
            with_metadata(&entry(b"k", 9, &array(10, u64::MAX, &[]))),
            "key `k`: 18446744073709551615",
        ),
        ("array of arrays", with_metadata(&entry(b"k", 9, &array(9, 1, &[]))), "key `k`: an array of arrays"),
        (
            "array of unknowns",
            with_metadata(&entry(b"k", 9, &array(77, 1, &[]))),
            "key `k`: unknown value type 77",
        ),
        (
            "array of broken strings",
            with_metadata(&entry(b"k", 9, &array(8, 1, &text(b"\xff")))),
            "key `k`: not valid UTF-8",
        ),
        (
            "key twice",
            header(b"GGUF", 3, 0, 2, &[entry(b"k", 4, &[0; 4]), entry(b"k", 4, &[0; 4])].concat()),
            "byte 41, key `k`: appears twice",
        ),
        ("alignment 0", Writer::new().integer("general.alignment", 0).finish(), "an alignment of 0"),
        ("alignment 3", Writer::new().integer("general.alignment", 3).finish(), "an alignment of 3"),
        (
            "huge alignment",
            Writer::new().integer("general.alignment", 1 << 31).finish(),
            "an alignment of 2147483648",
        ),
        (
            "alignment in words",
            Writer::new().string("general.alignment", "32").finish(),
            "is a string, but must be an integer",
        ),
        (
            "negative alignment",
            Writer::new().raw("general.alignment", ValueType::I32, &(-32_i32).to_le_bytes()).finish(),
            "-32 is not a power of two",
        ),
        (
            "tensor without a name",
            with_tensor(&tensor(b"", 1, &[32], 0, 0)),
            "name of tensor 0: an empty name",
        ),
        ("no dimensions", with_tensor(&tensor(b"t", 0, &[], 0, 0)), "tensor `t`: 0 dimensions"),
        ("five dimensions", with_tensor(&tensor(b"t", 5, &[1; 5], 0, 0)), "tensor `t`: 5 dimensions"),
        (
            "endless dimensions",
            with_tensor(&tensor(b"t", u32::MAX, &[1], 0, 0)),
            "tensor `t`: 4294967295 dimensions",
        ),
        ("dimension 0", with_tensor(&tensor(b"t", 2, &[32, 0], 0, 0)), "tensor `t`: dimension 1 is zero"),
        (
            "huge dimension",
            with_tensor(&tensor(b"t", 1, &[u64::MAX], 0, 0)),
            "tensor `t`: dimension 0 is zero or larger",
        ),
        (
            "overflowing shape",
            with_tensor(&tensor(b"t", 4, &[1 << 31; 4], 0, 0)),
            "tensor `t`: its size overflows",
        ),
        (
            "unknown type",
            with_tensor(&tensor(b"t", 1, &[32], 4242, 0)),
            "tensor `t`: unknown element type 4242",
        ),
        ("removed type", with_tensor(&tensor(b"t", 1, &[32], 4, 0)), "tensor `t`: unknown element type 4"),
        (
            "half a block",
            with_tensor(&tensor(b"t", 1, &[33], 8, 0)),
            "rows of 33 elements are not a multiple of q8_0 blocks of 32",
        ),
        (
            "odd offset",
            with_tensor(&tensor(b"t", 1, &[1], 0, 7)),
            "data offset 7 is not a multiple of the alignment 32",
        ),
        (
            "offset beyond the end",
            with_tensor(&tensor(b"t", 1, &[1], 0, 1 << 40)),
            "4 bytes at 1099511627776, ends outside",
        ),
        ("overflowing offset", with_tensor(&tensor(b"t", 1, &[1], 0, u64::MAX - 31)), "ends outside the"),
        (
            "data beyond the end",
            with_tensor(&tensor(b"t", 1, &[4096], 0, 0)),
            "16384 bytes at 0, ends outside",
        ),
        (
            "tensor twice",
            header(
                b"GGUF",
                3,
                2,
                0,
                &[&tensor(b"t", 1, &[1], 0, 0)[..33], &tensor(b"t", 1, &[1], 0, 0)[..]].concat(),
            ),
            "tensor `t`: appears twice",
        ),
        ("cut in the data", whole[..whole.len() - 1].to_vec(), "ends outside the"),
    ]
}

/// The tiny model with one key replaced.
fn with_key(key: &str, change: impl FnOnce(Writer) -> Writer) -> Vec<u8> {
    change(tiny(TensorType::Q8_0).without(key)).finish()
}

fn integer(key: &str, value: u32) -> Vec<u8> {
    with_key(key, |writer| writer.integer(key, value))
}

fn string(key: &str, value: &str) -> Vec<u8> {
    with_key(key, |writer| writer.string(key, value))
}

fn without(name: &str) -> Vec<u8> {
    tiny(TensorType::Q8_0).without(name).finish()
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn model_cases() -> Vec<Case> {
    const HEADS_KV: &str = "llama.attention.head_count_kv";
    let eps = "llama.attention.layer_norm_rms_epsilon";
    vec![
        ("no architecture", without("general.architecture"), "key `general.architecture`: missing"),
        (
            "another architecture",
            string("general.architecture", "mamba"),
            "architecture `mamba` is not supported; supported: llama, qwen2, qwen3",
        ),
        (
            "architecture as a number",
            integer("general.architecture", 1),
            "is an integer, but must be a string",
        ),
        ("no width", without("llama.embedding_length"), "key `llama.embedding_length`: missing"),
        ("width 0", integer("llama.embedding_length", 0), "key `llama.embedding_length`: 0 is not positive"),
        ("width in words", string("llama.embedding_length", "64"), "is a string, but must be an integer"),
        (
            "negative layers",
            with_key("llama.block_count", |writer| {
                writer.raw("llama.block_count", ValueType::I64, &(-1_i64).to_le_bytes())
            }),
            "key `llama.block_count`: -1 is not between 0 and 4294967295",
        ),
        (
            "more layers than tensors",
            integer("llama.block_count", i32::MAX.unsigned_abs()),
            "tensor `blk.2.attn_norm.weight`: missing",
        ),
        ("fewer layers than tensors", integer("llama.block_count", 1), "an unknown tensor"),
        ("heads do not divide", integer("llama.attention.head_count", 5), "5 query heads"),
        (
            "kv heads do not divide",
            integer(HEADS_KV, 3),
            "key `llama.attention.head_count_kv`: 3 is not a divisor of the 4",
        ),
        ("kv heads 0", integer(HEADS_KV, 0), "0 is not positive"),
        (
            "kv heads differ by layer",
            with_key(HEADS_KV, |writer| writer.integers(HEADS_KV, &[2, 4])),
            "is not the same positive number for all layers",
        ),
        (
            "overflowing heads",
            integer("llama.attention.key_length", i32::MAX.unsigned_abs() - 1),
            "all heads together overflow",
        ),
        ("values of another width", integer("llama.attention.value_length", 8), "8 is not the key length 16"),
        (
            "odd rotation",
            integer("llama.rope.dimension_count", 7),
            "7 is not even and at most the head width 16",
        ),
        ("rotation too wide", integer("llama.rope.dimension_count", 32), "32 is not even and at most"),
        ("no epsilon", without(eps), "layer_norm_rms_epsilon`: missing"),
        (
            "epsilon not a number",
            with_key(eps, |writer| writer.real(eps, f32::NAN)),
            "NaN is not a finite number",
        ),
        ("negative epsilon", with_key(eps, |writer| writer.real(eps, -1.0)), "-1 is not positive"),
        (
            "unknown rope scaling",
            string("llama.rope.scaling.type", "longrope"),
            "rope scaling `longrope` is not supported; supported: none, linear, yarn",
        ),
        (
            "rope factor 0",
            tiny(TensorType::Q8_0).real("llama.rope.scaling.factor", 0.0).finish(),
            "key `llama.rope.scaling.factor`: 0 is not positive",
        ),
        ("experts", integer("llama.expert_count", 8), "key `llama.expert_count`: 8 is not supported"),
        (
            "vocabulary size differs",
            integer("llama.vocab_size", 1000),
            "1000 is not the 272 rows of `token_embd.weight`",
        ),
        ("no embedding table", without("token_embd.weight"), "tensor `token_embd.weight`: missing"),
        ("no last norm", without("output_norm.weight"), "tensor `output_norm.weight`: missing"),
        ("no weight in a layer", without("blk.1.ffn_up.weight"), "tensor `blk.1.ffn_up.weight`: missing"),
        (
            "norm of another width",
            tiny(TensorType::Q8_0)
                .without("output_norm.weight")
                .tensor("output_norm.weight", &[EMBD / 2], TensorType::F32, ones(EMBD / 2))
                .finish(),
            "tensor `output_norm.weight`: has shape [32], but must have [64]",
        ),
        (
            "matrix of another shape",
            tiny(TensorType::Q8_0)
                .without("blk.0.attn_k.weight")
                .tensor("blk.0.attn_k.weight", &[EMBD, 16], TensorType::F32, ones(EMBD * 16))
                .finish(),
            "tensor `blk.0.attn_k.weight`: has shape [64, 16], but must have [64, 32]",
        ),
        (
            "norm of a block type",
            tiny(TensorType::Q8_0)
                .without("output_norm.weight")
                .tensor("output_norm.weight", &[EMBD], TensorType::Q8_0, vec![0; 68])
                .finish(),
            "element type of a vector `q8_0` is not supported",
        ),
        (
            "tensor of another model",
            tiny(TensorType::Q8_0)
                .tensor("blk.0.attn_q_norm.weight", &[16], TensorType::F32, ones(16))
                .finish(),
            "tensor `blk.0.attn_q_norm.weight`: an unknown tensor",
        ),
        (
            "one token too few",
            {
                let tokens = vec!["x".to_owned(); usize::try_from(VOCABULARY).unwrap() - 1];
                let scores = vec![0.0; tokens.len()];
                tiny(TensorType::Q8_0)
                    .without("tokenizer.ggml.tokens")
                    .without("tokenizer.ggml.scores")
                    .without("tokenizer.ggml.token_type")
                    .strings("tokenizer.ggml.tokens", &tokens)
                    .reals("tokenizer.ggml.scores", &scores)
                    .finish()
            },
            "key `tokenizer.ggml.tokens`: 271 entries, but there must be 272",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn tokenizer_cases() -> Vec<Case> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    const SCORES: &str = "tokenizer.ggml.scores";
    const TYPES: &str = "tokenizer.ggml.token_type";
    let bpe = |pre: &str, merges: &[&str]| {
        tiny(TensorType::Q8_0)
            .without("tokenizer.ggml.model")
            .string("tokenizer.ggml.model", "gpt2")
            .string("tokenizer.ggml.pre", pre)
            .strings("tokenizer.ggml.merges", merges)
    };
    vec![
        ("no tokenizer", without("tokenizer.ggml.model"), "key `tokenizer.ggml.model`: missing"),
        (
            "another tokenizer",
            string("tokenizer.ggml.model", "t5"),
            "tokenizer `t5` is not supported; supported: llama, gpt2",
        ),
        ("no tokens", without(TOKENS), "key `tokenizer.ggml.tokens`: missing"),
        (
            "empty vocabulary",
            with_key(TOKENS, |writer| writer.strings::<&str>(TOKENS, &[])),
            "0 tokens is not 1 to",
        ),
        (
            "tokens as numbers",
            with_key(TOKENS, |writer| writer.integers(TOKENS, &[1])),
            "must be an array of strings",
        ),
        ("tokens as a string", string(TOKENS, "abc"), "is a string, but must be an array of strings"),
        ("no scores", without(SCORES), "key `tokenizer.ggml.scores`: missing"),
        (
            "too few scores",
            with_key(SCORES, |writer| writer.reals(SCORES, &[1.0])),
            "1 entries, but there must be 272",
        ),
        (
            "scores as integers",
            with_key(SCORES, |writer| writer.integers(SCORES, &[1])),
            "must be an array of real numbers",
        ),
        (
            "too few types",
            with_key(TYPES, |writer| writer.integers(TYPES, &[1, 1])),
            "2 entries, but there must be 272",
        ),
        (
            "unknown token type",
            with_key(TYPES, |writer| writer.integers(TYPES, &[9; 272])),
            "9 is not a token type",
        ),
        (
            "start outside the vocabulary",
            integer("tokenizer.ggml.bos_token_id", 272),
            "272 is not an id of a vocabulary of 272",
        ),
        (
            "end outside the vocabulary",
            integer("tokenizer.ggml.eos_token_id", u32::MAX),
            "4294967295 is not an id",
        ),
        (
            "unknown outside the vocabulary",
            integer("tokenizer.ggml.unknown_token_id", 999),
            "999 is not an id",
        ),
        (
            "padding outside the vocabulary",
            integer("tokenizer.ggml.padding_token_id", 999),
            "999 is not an id",
        ),
        (
            "unknown pre-tokenizer",
            bpe("unheard-of", &["a b"]).finish(),
            "pre-tokenizer `unheard-of` is not supported; supported: ",
        ),
        (
            "no pre-tokenizer",
            bpe("gpt-2", &["a b"]).without("tokenizer.ggml.pre").finish(),
            "key `tokenizer.ggml.pre`: missing",
        ),
        (
            "no merges",
            bpe("gpt-2", &[]).without("tokenizer.ggml.merges").finish(),
            "key `tokenizer.ggml.merges`: missing",
        ),
        ("merge of one", bpe("gpt-2", &["a b", "ab"]).finish(), "entry 1, `ab`, is not two tokens"),
        ("merge of nothing", bpe("qwen2", &[" b"]).finish(), "entry 0, ` b`, is not two tokens"),
    ]
}

#[test]
fn each_broken_file_has_a_specific_error() {
    load(tiny(TensorType::Q8_0).finish()).expect("the unmodified file is valid");
    let cases = [container_cases(), model_cases(), tokenizer_cases()].concat();
    assert!(cases.len() >= 30);
    let mut wrong = Vec::new();
    for (name, bytes, expected) in cases {
        match load(bytes) {
            Ok(()) => wrong.push(format!("{name}: accepted")),
            Err(error) => {
                let text = error.to_string();
                if !(text.contains(expected) && text.contains("`test.gguf`, byte ")) {
                    wrong.push(format!("{name}: `{expected}` is not in `{text}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn file_truncated_anywhere_is_rejected() {
    let whole = tiny(TensorType::Q8_0).finish();
    let data = whole.len() - 20_000;
    // Every byte of the header, then steps through the data.
    for end in (0..data.min(9_000)).chain((data..whole.len()).step_by(997)) {
        let error = load(whole[..end].to_vec()).expect_err("a truncated file is rejected");
        assert!(error.to_string().contains("`test.gguf`, byte "), "cut at {end}: {error}");
    }
}

#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("absent.gguf"), folder.path().to_path_buf()] {
        let error = infer::gguf::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read `{}`: ", path.display())), "{error}");
    }
    let path = folder.path().join("empty.gguf");
    std::fs::write(&path, b"").unwrap();
    assert!(infer::gguf::open(&path).unwrap_err().to_string().contains("the file ends here"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Files with random changes are accepted or rejected: nothing panics or takes more memory than the file
    /// justifies.
    #[test]
    fn random_changes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = tiny(TensorType::Q8_0).finish();
        // Half of the changes go to the header, where they have more effect.
        for (place, value, in_header) in changes {
            let length = if in_header { 9_000 } else { bytes.len() };
            bytes[place.index(length)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Err(error) = load(bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
