//! Tokenizers read from files: texts round-trip and are split into the expected pieces.

use crate::common::{read, spm_tokenizer};
use infer::gguf::Writer;
use infer::tokenizer::{Specials, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;

fn spm(change: impl FnOnce(Writer) -> Writer) -> Tokenizer {
    Tokenizer::from_gguf(&read(change(spm_tokenizer(Writer::new())).finish()).unwrap()).unwrap()
}

/// The printable character for a byte, as GPT-2 published it.
fn stand_in(byte: u8) -> char {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(&byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !printable(byte)).count();
    char::from_u32(0x100 + u32::try_from(before).unwrap()).unwrap()
}

/// All bytes, some merges, a control token and a user-defined one.
fn bpe(pre: &str) -> Tokenizer {
    let mut tokens: Vec<String> = (0..=255).map(|byte| stand_in(byte).to_string()).collect();
    let words = ["th", "the", "Ġthe", "Ġt", "in", "12", "123", "hel", "he", "hello", "<|end|>", "<user>"];
    tokens.extend(words.map(str::to_owned));
    let mut kinds = vec![1; tokens.len()];
    let count = tokens.len();
    kinds[count - 2] = 3;
    kinds[count - 1] = 4;
    let merges = ["t h", "th e", "Ġ t", "Ġt h", "Ġt he", "Ġ the", "i n", "1 2", "12 3", "h e", "he l"];
    let writer = Writer::new()
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", &tokens)
        .integers("tokenizer.ggml.token_type", &kinds)
        .strings("tokenizer.ggml.merges", &merges);
    Tokenizer::from_gguf(&read(writer.finish()).unwrap()).unwrap()
}

fn pieces(tokenizer: &Tokenizer, text: &str, specials: Specials) -> Vec<String> {
    let ids = tokenizer.encode(text, specials).unwrap();
    ids.iter().map(|id| tokenizer.vocabulary().text(*id).unwrap().to_owned()).collect()
}

fn round_trip(tokenizer: &Tokenizer, text: &str) -> String {
    let bytes: Vec<u8> =
        tokenizer.encode(text, Specials::Plain).unwrap().iter().flat_map(|id| tokenizer.bytes(*id)).collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn sentencepiece_prefers_scores_and_falls_back_to_bytes() {
    let tokenizer = spm(|writer| writer);
    for (text, expected) in [
        ("abc", vec!["▁abc"]),
        ("abc ab c", vec!["▁abc", "▁ab", "▁c"]),
        ("é", vec!["▁", "é"]),
        ("ü", vec!["▁", "<0xC3>", "<0xBC>"]),
        ("a\n", vec!["▁a", "<0x0A>"]),
        ("", vec![]),
        ("a<user>b", vec!["▁a", "<user>", "▁b"]),
    ] {
        assert_eq!(pieces(&tokenizer, text, Specials::Parse), expected, "{text:?}");
    }
}

#[test]
fn control_tokens_in_text_are_parsed_on_request() {
    let tokenizer = spm(|writer| writer);
    assert_eq!(pieces(&tokenizer, "a</s>", Specials::Parse), ["▁a", "</s>"]);
    assert_eq!(pieces(&tokenizer, "a</s>", Specials::Plain)[1], "<0x3C>");
    assert!(tokenizer.is_end(2) && !tokenizer.is_end(1));
    assert_eq!(tokenizer.bytes(2), b"");
}

#[test]
fn start_token_is_not_duplicated() {
    let tokenizer = spm(|writer| writer);
    assert_eq!(tokenizer.prompt("").unwrap(), [1]);
    assert_eq!(tokenizer.prompt("<s>a").unwrap(), tokenizer.prompt("a").unwrap());
    let without = spm(|writer| writer.boolean("tokenizer.ggml.add_bos_token", false));
    assert_eq!(without.prompt("").unwrap(), Vec::<u32>::new());
    let tight = spm(|writer| writer.boolean("tokenizer.ggml.add_space_prefix", false));
    assert_eq!(pieces(&tight, "ab", Specials::Parse), ["ab"]);
}

#[test]
fn merges_follow_their_ranks() {
    let tokenizer = bpe("gpt-2");
    for (text, expected) in [
        ("the", vec!["the"]),
        (" the", vec!["Ġthe"]),
        ("then in", vec!["the", "n", "Ġ", "in"]),
        ("1234", vec!["123", "4"]),
        ("hello", vec!["hel", "l", "o"]),
        ("<|end|>the<user>", vec!["<|end|>", "the", "<user>"]),
    ] {
        assert_eq!(pieces(&tokenizer, text, Specials::Parse), expected, "{text:?}");
    }
    // This family uses complete words first, that one splits digits.
    assert_eq!(pieces(&bpe("llama-bpe"), "hello", Specials::Parse), ["hello"]);
    assert_eq!(pieces(&bpe("qwen2"), "123", Specials::Parse), ["1", "2", "3"]);
}

#[test]
fn long_word_is_not_quadratic() {
    let text = "ab".repeat(100_000);
    assert!(!spm(|writer| writer).encode(&text, Specials::Plain).unwrap().is_empty());
    assert!(!bpe("llama-bpe").encode(&text, Specials::Plain).unwrap().is_empty());
    assert_eq!(bpe("llama-bpe").encode(&" ".repeat(100_000), Specials::Plain).unwrap().len(), 100_000);
}

static FAMILIES: LazyLock<[Tokenizer; 3]> = LazyLock::new(|| ["gpt-2", "llama-bpe", "qwen2"].map(bpe));
static SENTENCE_PIECE: LazyLock<Tokenizer> = LazyLock::new(|| spm(|writer| writer));

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_survives(text in "[\\PC\\n\\t ]{0,40}") {
        for family in FAMILIES.iter() {
            prop_assert_eq!(round_trip(family, &text), text.clone());
        }
        // A sentencepiece text starts with the inserted space; a control token is text here, and the
        // character for spaces is a space.
        let expected = text.replace('▁', " ");
        let written = round_trip(&SENTENCE_PIECE, &text);
        if text.is_empty() {
            prop_assert_eq!(written, "");
        } else if !text.contains("<user>") {
            prop_assert_eq!(written, format!(" {expected}"));
        }
    }
}
