//! Compares the vocabularies of real models, from llama.cpp's source distribution, with the results of
//! llama.cpp.

use crate::{hard_strings, sdist};
use infer::gguf::{Bytes, Gguf};
use infer::tokenizer::{Specials, Tokenizer};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn open(bytes: Vec<u8>) -> Result<Tokenizer, infer::Error> {
    Tokenizer::from_gguf(&Gguf::new("vocabulary.gguf", Bytes::Owned(bytes))?)
}

fn numbers(line: &str) -> Vec<u32> {
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The fixtures that are not supported, and the name that the error must contain.
const REFUSED: [(&str, &str); 3] = [("bert-bge", "`bert`"), ("falcon", "`falcon`"), ("gemma-4", "`gemma4`")];

#[test]
fn fixtures_have_the_expected_ids() {
    if !sdist::wanted() {
        return;
    }
    let mut compared = BTreeMap::new();
    for entry in sdist::llama().join("models").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = file.strip_prefix("ggml-vocab-").and_then(|rest| rest.strip_suffix(".gguf.inp"))
        else {
            continue;
        };
        let tokenizer = match (open(std::fs::read(path.with_extension("")).unwrap()), name) {
            (Ok(tokenizer), _) => tokenizer,
            (Err(error), name) => {
                let (_, said) = REFUSED.iter().find(|(refused, _)| *refused == name).expect(name);
                assert!(error.to_string().contains(said), "{error}");
                continue;
            }
        };
        let texts = std::fs::read_to_string(&path).unwrap();
        let ids = std::fs::read_to_string(path.with_extension("out")).unwrap();
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        // The last text also ends with the separator.
        let texts = &texts[..texts.len() - 1];
        assert_eq!(texts.len(), ids.lines().count(), "{name}");
        for (text, expected) in texts.iter().zip(ids.lines()) {
            assert_eq!(
                tokenizer.encode(text, Specials::Plain).unwrap(),
                numbers(expected),
                "{name}: {text:?}"
            );
        }
        compared.insert(name.to_owned(), texts.len());
    }
    println!("{compared:?}");
    assert_eq!(compared.len(), 12, "{compared:?}");
}

/// A vocabulary, the pre-tokenizer and the modes to read it with, and the number of texts that differ by
/// design.
struct Case {
    vocabulary: &'static str,
    pre: &'static str,
    modes: &'static [Specials],
    differing: [usize; 2],
}

const BOTH: &[Specials] = &[Specials::Plain, Specials::Parse];
const PLAIN: &[Specials] = &[Specials::Plain];

const fn case(
    vocabulary: &'static str,
    pre: &'static str,
    modes: &'static [Specials],
    differing: [usize; 2],
) -> Case {
    Case { vocabulary, pre, modes, differing }
}

/// Pre-tokenizers without a vocabulary in the distribution split the words for that of another model.
const CASES: [Case; 13] = [
    case("llama-spm", "", BOTH, [0, 0]),
    // llama.cpp drops spaces after special tokens for this model by name; files do not state it.
    case("phi-3", "", PLAIN, [17, 0]),
    case("gpt-2", "gpt-2", BOTH, [0, 0]),
    case("llama-bpe", "llama-bpe", BOTH, [0, 0]),
    case("qwen2", "qwen2", BOTH, [0, 17]),
    case("qwen35", "qwen35", BOTH, [0, 17]),
    case("starcoder", "starcoder", PLAIN, [0, 0]),
    case("command-r", "command-r", PLAIN, [0, 0]),
    case("deepseek-llm", "deepseek-llm", BOTH, [2, 2]),
    case("deepseek-coder", "deepseek-coder", BOTH, [0, 0]),
    case("llama-bpe", "deepseek-v3", PLAIN, [0, 0]),
    case("llama-bpe", "tekken", PLAIN, [28, 0]),
    case("llama-bpe", "smaug-bpe", PLAIN, [0, 0]),
];

/// Differences where this program follows the file or the published pattern and llama.cpp does not: llama.cpp
/// treats `</s>` as a control token whatever the file says, replaces the ideographic space before matching,
/// and splits Tekken's words by the case of ASCII letters only, without marks.
fn differs_by_design(case: &Case, text: &str) -> bool {
    match (case.vocabulary, case.pre) {
        ("phi-3" | "qwen2" | "qwen35", _) => text.contains("</s>"),
        (_, "deepseek-llm") => text.contains('\u{3000}'),
        (_, "tekken") => !text.is_ascii(),
        _ => false,
    }
}

/// A vocabulary file with another pre-tokenizer name.
fn with_pre(mut bytes: Vec<u8>, name: &str) -> Vec<u8> {
    const KEY: &[u8] = b"tokenizer.ggml.pre";
    let at = bytes.windows(KEY.len()).position(|window| window == KEY).unwrap() + KEY.len() + 4;
    let length = usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap();
    let mut value = u64::try_from(name.len()).unwrap().to_le_bytes().to_vec();
    value.extend(name.as_bytes());
    bytes.splice(at..at + 8 + length, value);
    bytes
}

fn case_bytes(models: &Path, case: &Case) -> Vec<u8> {
    let bytes = std::fs::read(models.join(format!("ggml-vocab-{}.gguf", case.vocabulary))).unwrap();
    if case.pre.is_empty() { bytes } else { with_pre(bytes, case.pre) }
}

/// Sixteen bits per text, to find the one that differs, and a hash of everything.
fn hashes(lines: &[String]) -> (String, Vec<String>) {
    let each = lines.iter().map(|line| crate::hex(&Sha256::digest(line)[..2])).collect();
    (crate::hex(&Sha256::digest(lines.join("\n"))), each)
}

fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/hard_strings.txt");

/// With `HARD_STRINGS_ORACLE`, the path of `tests/tools/tokenize.c` linked with libllama, records the results
/// of llama.cpp.
#[test]
fn hard_strings_have_the_ids_of_llama_cpp() {
    if !sdist::wanted() {
        return;
    }
    let models = sdist::llama().join("models");
    let texts = hard_strings::all();
    if let Some(oracle) = std::env::var_os("HARD_STRINGS_ORACLE") {
        std::fs::write(RECORD, record(Path::new(&oracle), &models, &texts)).unwrap();
    }
    let record = std::fs::read_to_string(RECORD).unwrap();
    let mut lines = record.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next().unwrap(), hashes(&texts).0, "the texts differ from the recorded ones");
    let mut wrong = Vec::new();
    for case in CASES {
        let tokenizer = open(case_bytes(&models, &case)).unwrap();
        for (mode, by_design) in case.modes.iter().zip(case.differing) {
            let name = case_name(&case, *mode);
            assert_eq!(lines.next().unwrap(), name);
            let (whole, each) = (lines.next().unwrap(), lines.next().unwrap());
            let ours: Vec<String> =
                texts.iter().map(|text| joined(&tokenizer.encode(text, *mode).unwrap())).collect();
            let (hash, ids) = hashes(&ours);
            let mut differing = 0;
            for ((text, found), expected) in texts.iter().zip(&ids).zip(each.as_bytes().chunks(4)) {
                if found.as_bytes() == expected {
                    continue;
                }
                differing += 1;
                if !differs_by_design(&case, text) {
                    wrong.push(format!("{name}: {text:?}"));
                }
            }
            println!("{name}: {} texts, {differing} differ, {by_design} by design", texts.len());
            assert!(differing > 0 || hash == whole, "{name}: the hash of all ids differs");
            if differing != by_design {
                wrong.push(format!("{name}: {differing} differ, not {by_design}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn case_name(case: &Case, mode: Specials) -> String {
    format!("{} {} {mode:?}", case.vocabulary, case.pre)
}

/// The texts in the format of the oracle.
fn packed(texts: &[String]) -> Vec<u8> {
    let length = |text: &str| u32::try_from(text.len()).unwrap().to_le_bytes();
    texts.iter().flat_map(|text| [&length(text)[..], text.as_bytes()].concat()).collect()
}

fn record(oracle: &Path, models: &Path, texts: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (file, vocabulary_file): (PathBuf, PathBuf) =
        (folder.path().join("texts"), folder.path().join("v.gguf"));
    std::fs::write(&file, packed(texts)).unwrap();
    let mut lines = vec![
        "# Results of llama.cpp's tokenizers for the texts of hard_strings.rs: the sha256 of all texts; then for each".to_owned(),
        "# vocabulary and mode a name, the sha256 of all lines of ids, and the first 16 bits of that of each line.".to_owned(),
        hashes(texts).0,
    ];
    for case in CASES {
        std::fs::write(&vocabulary_file, case_bytes(models, &case)).unwrap();
        for mode in case.modes {
            let mut command = Command::new(oracle);
            command.args([&vocabulary_file, &file]).arg(if *mode == Specials::Parse {
                "parse"
            } else {
                "plain"
            });
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let said = String::from_utf8(output.stdout).unwrap();
            let ids: Vec<String> = said.lines().map(str::to_owned).collect();
            assert_eq!(ids.len(), texts.len());
            let (whole, each) = hashes(&ids);
            lines.extend([case_name(&case, *mode), whole, each.concat()]);
        }
    }
    lines.join("\n") + "\n"
}
