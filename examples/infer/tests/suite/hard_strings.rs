//! Texts that tokenizers often get wrong, from a deterministic generator.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Number of texts.
pub(crate) const COUNT: usize = 2400;

struct Source(Xoshiro256PlusPlus);

impl Source {
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.0.next_u64() % bound).unwrap()
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A character of one of these ranges.
    fn of(&mut self, ranges: &[(u32, u32)]) -> char {
        let (first, last) = self.pick(ranges);
        let span = usize::try_from(last - first + 1).unwrap();
        char::from_u32(first + u32::try_from(self.below(span)).unwrap()).unwrap()
    }

    /// Concatenates `least` to `most` parts.
    fn repeat(&mut self, least: usize, most: usize, mut part: impl FnMut(&mut Self) -> String) -> String {
        let count = least + self.below(most - least + 1);
        (0..count).map(|_| part(self)).collect()
    }
}

/// Letters, numbers, punctuation, symbols, marks, spaces, formats, private use, unassigned.
const ANY: [(u32, u32); 30] = [
    (0x20, 0x7e),
    (0x20, 0x7e),
    (0x20, 0x7e),
    (0x80, 0xff),
    (0x100, 0x24f),
    (0x250, 0x2af),
    (0x2b0, 0x2ff),
    (0x300, 0x36f),
    (0x370, 0x3ff),
    (0x400, 0x4ff),
    (0x530, 0x58f),
    (0x590, 0x5ff),
    (0x600, 0x6ff),
    (0x900, 0x97f),
    (0xe00, 0xe7f),
    (0x10a0, 0x10ff),
    (0x1100, 0x11ff),
    (0x13a0, 0x13ff),
    (0x1e00, 0x1fff),
    (0x2000, 0x206f),
    (0x2070, 0x209f),
    (0x20a0, 0x20c0),
    (0x2100, 0x218b),
    (0x2190, 0x23ff),
    (0x2460, 0x27bf),
    (0x3000, 0x303f),
    (0xe000, 0xe0ff),
    (0xff00, 0xffef),
    (0x1d400, 0x1d7ff),
    (0x1f300, 0x1f6ff),
];

const CJK: [(u32, u32); 9] = [
    (0x4e00, 0x9fff),
    (0x4e00, 0x9fff),
    (0x3400, 0x4dbf),
    (0x3040, 0x309f),
    (0x30a0, 0x30ff),
    (0xac00, 0xd7a3),
    (0x3131, 0x318e),
    (0xf900, 0xfa6d),
    (0x20000, 0x2a6d6),
];

const WORDS: [&str; 40] = [
    "the",
    "Hello",
    "WORLD",
    "iPhone",
    "McDonald",
    "naïve",
    "Über",
    "straße",
    "ÉCOLE",
    "señor",
    "Łódź",
    "crème",
    "привет",
    "МОСКВА",
    "Ёлка",
    "Ελλάδα",
    "ΣΊΣΥΦΟΣ",
    "שלום",
    "مرحبا",
    "हिन्दी",
    "ไทย",
    "ქართული",
    "ՀԱՅ",
    "Việt",
    "İstanbul",
    "ǅungla",
    "ﬁne",
    "ﬆ",
    "ªº",
    "x²",
    "H₂O",
    "antidisestablishmentarianism",
    "ed",
    "ing",
    "tokenization",
    "llama",
    "a",
    "I",
    "ß",
    "ſ",
];

const SPACES: [&str; 24] = [
    " ", "  ", "   ", "    ", "        ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", "\u{b}", "\u{c}",
    "\u{a0}", "\u{1680}", "\u{2003}", "\u{2009}", "\u{2028}", "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}",
    "\u{200b}", "\u{feff}",
];

const EMOJI: [&str; 28] = [
    "😀",
    "🤷",
    "🏽",
    "\u{200d}",
    "♂\u{fe0f}",
    "♀\u{fe0f}",
    "👩",
    "👨",
    "👧",
    "💻",
    "❤\u{fe0f}",
    "🔥",
    "🇩",
    "🇪",
    "🇺",
    "🇸",
    "1\u{fe0f}\u{20e3}",
    "#\u{20e3}",
    "🏴",
    "\u{e0067}",
    "\u{e007f}",
    "🫠",
    "🧑\u{200d}🚀",
    "☺",
    "\u{fe0e}",
    "🚀",
    "✨",
    "🏳\u{fe0f}\u{200d}🌈",
];

const SPECIALS: [&str; 40] = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "<|",
    "|>",
    "<",
    ">",
    "</",
    "s>",
    "<s",
    "<<s>>",
    "<|im_<|im_end|>",
    "<0x0A>",
    "<0xFF>",
    "▁",
    "▁▁",
    "<|reserved_special_token_0|>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "<fim_prefix>",
    "<|fim_prefix|>",
    "<S>",
    "< s >",
];

const NUMBERS: [(u32, u32); 12] = [
    (0x30, 0x39),
    (0x30, 0x39),
    (0x30, 0x39),
    (0x30, 0x39),
    (0x660, 0x669),
    (0x966, 0x96f),
    (0xff10, 0xff19),
    (0xb2, 0xb3),
    (0xbc, 0xbe),
    (0x2160, 0x217f),
    (0x2460, 0x2473),
    (0x1d7ce, 0x1d7ff),
];

const ENDINGS: [&str; 24] = [
    "'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d",
    "'D", "’s", "'x", "''s", "'", "'sx", "'ll's", "`s",
];

const CODE: [&str; 30] = [
    "    ",
    "\t",
    "if (x == 0) {",
    "}",
    "\n",
    "\r\n",
    "def f(self):",
    "//",
    "/*",
    "*/",
    "#include <stdio.h>",
    "->",
    "=>",
    "!=",
    "&&",
    "||",
    "::",
    "_snake_case",
    "camelCase",
    "SCREAMING",
    "0x1F",
    "1e-9",
    "\\n",
    "\"",
    "'",
    "https://a.b/c?d=e&f#g",
    "$(",
    "@x",
    "[i+1]",
    ";",
];

/// Marks of several scripts.
const MARKS: [(u32, u32); 7] = [
    (0x300, 0x36f),
    (0x591, 0x5bd),
    (0x64b, 0x655),
    (0x93e, 0x94d),
    (0xe31, 0xe3a),
    (0x1ab0, 0x1abe),
    (0x20d0, 0x20dc),
];

fn text(kind: usize, source: &mut Source) -> String {
    match kind {
        0 => source.repeat(1, 30, |s| s.of(&ANY).to_string()),
        1 => source.repeat(1, 10, |s| {
            format!("{}{}", s.pick(&SPACES), if s.below(2) == 0 { s.pick(&WORDS) } else { "" })
        }),
        2 => source.repeat(1, 12, |s| s.pick(&EMOJI).to_owned()),
        3 => {
            let bytes: Vec<u8> =
                (0..=source.below(24)).map(|_| source.0.next_u64().to_le_bytes()[0]).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        4 => source
            .repeat(1, 6, |s| format!("{}{}", s.pick(&SPECIALS), s.pick(&["", "", " ", "\n", "a", "the"]))),
        5 => source.repeat(1, 12, |s| {
            s.pick(&["\r\n", "\n", "\r", "\n\n", " \n", "\n ", "\t\r\n", "a", "b.", "!", " ", "1"]).to_owned()
        }),
        6 => source.repeat(1, 8, |s| {
            let base = s.pick(&["a", "É", "n", "ک", "क", "ก", "א", " ", "1", "-", "ㄱ", "각"]).to_owned();
            base + &s.repeat(0, 3, |s| s.of(&MARKS).to_string())
        }),
        7 => source.repeat(1, 24, |s| match s.below(8) {
            0 => s.pick(&["、", "。", "「", "」", "！", "？", "・", "ー", "　", "，"]).to_owned(),
            1 => s.pick(&[" ", "a", "Z", "9", "\n", "１", "Ａ"]).to_owned(),
            _ => s.of(&CJK).to_string(),
        }),
        8 => source.repeat(1, 20, |s| match s.below(6) {
            0 => s.pick(&[",", ".", " ", "  ", "-", "%", "x", "é", "\n", "/"]).to_owned(),
            _ => s.of(&NUMBERS).to_string(),
        }),
        9 => source.repeat(1, 6, |s| {
            format!("{}{}{}", s.pick(&["", " ", "  ", "\n"]), s.pick(&WORDS), s.pick(&ENDINGS))
        }),
        10 => source.repeat(1, 14, |s| s.pick(&CODE).to_owned()),
        _ => source.repeat(1, 12, |s| {
            let between = s.pick(&[" ", " ", " ", ", ", ". ", "-", "—", "…", "?! ", "\"", ") (", ""]);
            format!("{}{between}", s.pick(&WORDS))
        }),
    }
}

/// All texts.
pub(crate) fn all() -> Vec<String> {
    let mut source = Source(Xoshiro256PlusPlus::seed_from_u64(6));
    (0..COUNT).map(|index| text(index % 12, &mut source)).collect()
}
