//! Pre-tokenizers: how each family of models splits a text into words before merging bytes.
//!
//! They are data: the published patterns of the families. A pattern that is almost right gives text that
//! looks right but is not, so unknown names are rejected.

use crate::Error;
use fancy_regex::Regex;

/// How a family of models splits text into words.
pub(super) struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre` that select it.
    names: &'static [&'static str],
    /// Each pattern splits the pieces of the previous one: both matches and the text between them are pieces.
    patterns: &'static [&'static str],
    /// A word that is a token is used as it is, regardless of the merges.
    pub(super) whole_words: bool,
    pub(super) adds_bos: bool,
}

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Chinese characters and Japanese kana, as `DeepSeek` groups them.
const CHINESE: &str = "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+";

/// The published patterns.
const PRE_TOKENIZERS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &["gpt-2", "phi-2", "mpt", "olmo"],
        patterns: &[GPT_2],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "command-r"],
        patterns: &[r"\p{N}", GPT_2],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "pixtral", "falcon3"],
        patterns: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        adds_bos: true,
    },
    PreTokenizer {
        names: &["smaug-bpe", "dbrx", "chatglm-bpe"],
        patterns: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2"],
        patterns: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["qwen35"],
        patterns: &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["tekken"],
        patterns: &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        adds_bos: true,
    },
    PreTokenizer {
        names: &["deepseek-llm"],
        patterns: &[
            r"[\r\n]",
            DEEPSEEK_WORD,
            "\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+",
            r"\s+$",
            "[\u{4e00}-\u{9fa5}\u{0800}-\u{4e00}\u{ac00}-\u{d7ff}]+",
            r"\p{N}+",
        ],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        patterns: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            "[\u{4e00}-\u{9fa5}\u{0800}-\u{4e00}\u{ac00}-\u{d7ff}]+",
            r"\p{N}",
        ],
        whole_words: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["deepseek-v3"],
        patterns: &[
            r"\p{N}{1,3}",
            CHINESE,
            r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: false,
        adds_bos: false,
    },
];

/// Letters of the cased scripts, as `DeepSeek LLM` lists them.
const DEEPSEEK_WORD: &str = "\\s?[\
    A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\
    \u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\
    \u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\
    \u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\
    \u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\
    \u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\
    \u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\
    \u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}\
    \u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}\
    \u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\
    \u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\
    \u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\
    \u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\
    \u{1e900}-\u{1e943}\
    ]+";

impl PreTokenizer {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name))
    }

    /// All names, for the message about an unknown one.
    pub(super) fn known() -> String {
        let names: Vec<&str> = PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied().collect();
        names.join(", ")
    }

    pub(super) fn cutter(&self) -> Cutter {
        let compile =
            |pattern: &&str| Regex::new(pattern).expect("a test checks that the patterns above are valid");
        Cutter(self.patterns.iter().map(compile).collect())
    }
}

/// Splits text into words.
#[derive(Debug)]
pub(super) struct Cutter(Vec<Regex>);

impl Cutter {
    /// The words of a text, in order; concatenated they equal the text.
    pub(super) fn words<'a>(&self, text: &'a str) -> Result<Vec<&'a str>, Error> {
        let mut pieces = vec![text];
        for pattern in &self.0 {
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let mut end = 0;
                for word in pattern.find_iter(piece) {
                    let word = word.map_err(|error| {
                        Error::message(format!("the text is too complex to split: {error}"))
                    })?;
                    next.extend([&piece[end..word.start()], word.as_str()]);
                    end = word.end();
                }
                next.push(&piece[end..]);
            }
            next.retain(|piece| !piece.is_empty());
            pieces = next;
        }
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, text: &str) -> Vec<String> {
        let cutter = PreTokenizer::named(name).expect("a known name").cutter();
        cutter.words(text).expect("splits").into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn patterns_split_as_published() {
        assert_eq!(
            words("gpt-2", "I'll go  12345!\n\nx"),
            ["I", "'ll", " go", " ", " 12345", "!", "\n", "\n", "x"]
        );
        assert_eq!(
            words("llama-bpe", "I'LL go  12345!\n\nx"),
            ["I", "'LL", " go", " ", " ", "123", "45", "!\n\n", "x"]
        );
        assert_eq!(words("qwen2", "a 123 é_ü"), ["a", " ", "1", "2", "3", " é", "_ü"]);
        assert_eq!(words("smollm", "a 123 b"), ["a", " ", "1", "2", "3", " b"]);
        assert_eq!(words("qwen35", "ke\u{301}k"), ["ke\u{301}k"]);
        assert_eq!(words("qwen2", "ke\u{301}k"), ["ke", "\u{301}k"]);
        assert_eq!(words("tekken", "HelloWORLDx 12/\n"), ["Hello", "WORLDx", " ", "1", "2", "/\n"]);
        assert_eq!(
            words("deepseek-v3", "x=1234 日本ab.Foo"),
            ["x", "=", "123", "4", " ", "日本", "ab", ".Foo"]
        );
        assert_eq!(words("deepseek-coder", "a\r\n (12"), ["a", "\r", "\n", " (", "1", "2"]);
        assert_eq!(words("deepseek-llm", "a b12  "), ["a", " b", "12", "  "]);
    }

    #[test]
    fn words_concatenate_to_the_text() {
        let text = "\u{0} \u{a0}\u{3000}x\u{200d}\u{10ffff}\r\r\n\t'Re 9\u{661}½ Ǆ⁈";
        for pre in PRE_TOKENIZERS {
            assert_eq!(words(pre.names[0], text).concat(), text, "{}", pre.names[0]);
        }
    }

    #[test]
    fn names_are_unique() {
        let known = PreTokenizer::known();
        let names: Vec<&str> = known.split(", ").collect();
        let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
