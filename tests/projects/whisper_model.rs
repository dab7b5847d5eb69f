//! Models in whisper.cpp's format with one encoder and one decoder layer.

use crate::gguf::Random;

const MAGIC: i32 = 0x6767_6d6c;
/// Special tokens have fixed ids, so the vocabulary has its full size.
const WORDS: i32 = 51_864;
const WIDTH: i32 = 64;
const FRAMES: i32 = 32;
const TEXT: i32 = 32;
const MELS: i32 = 80;
const SPECTRUM: i32 = 201;
const F32: i32 = 0;
const F16: i32 = 1;
/// Tokens with text. whisper.cpp looks for the blank.
const VOCABULARY: [&str; 3] = [" ", " Hello", " world"];
/// The end of the text, and the first timestamp, in models for English. Each timestamp is 20 ms later.
const END: i32 = 50_256;
const START: i32 = 50_363;
/// What the model says, with its timestamps.
pub(crate) const SAID: &str = "[00:00.00 - 00:01.00] Hello world\n";
const TOKENS: [i32; 5] = [START, 1, 2, START + 50, END];

struct Writer {
    bytes: Vec<u8>,
    random: Random,
    /// Whether weights are zero.
    is_zero: bool,
}

impl Writer {
    fn integers(&mut self, values: &[i32]) {
        self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn numbers(&mut self, count: i32) {
        for _ in 0..count {
            let value = self.random.next();
            self.float(if self.is_zero { 0.0 } else { value });
        }
    }

    fn float(&mut self, value: f32) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn head(&mut self, name: &str, shape: &[i32], kind: i32) {
        let length = |length: usize| i32::try_from(length).unwrap();
        self.integers(&[length(shape.len()), length(name.len()), kind]);
        self.integers(shape);
        self.bytes.extend(name.as_bytes());
    }

    fn tensor(&mut self, name: &str, shape: &[i32]) {
        self.head(name, shape, F32);
        self.numbers(shape.iter().product());
    }

    /// Half-precision weights between 1/16 and 1/8, with random signs.
    fn weights(&mut self, name: &str, shape: &[i32]) {
        self.head(name, shape, F16);
        for _ in 0..shape.iter().product::<i32>() {
            let bits = self.random.bits() & 0x83ff | 11 << 10;
            self.bytes.extend(if self.is_zero { 0 } else { bits }.to_le_bytes());
        }
    }

    fn norm(&mut self, name: &str) {
        self.tensor(&format!("{name}.weight"), &[WIDTH]);
        self.tensor(&format!("{name}.bias"), &[WIDTH]);
    }

    fn linear(&mut self, name: &str, from: i32, to: i32) {
        self.weights(&format!("{name}.weight"), &[from, to]);
        self.tensor(&format!("{name}.bias"), &[to]);
    }

    fn attention(&mut self, block: &str, name: &str) {
        self.norm(&format!("{block}.{name}_ln"));
        for part in ["query", "value", "out"] {
            self.linear(&format!("{block}.{name}.{part}"), WIDTH, WIDTH);
        }
        self.weights(&format!("{block}.{name}.key.weight"), &[WIDTH, WIDTH]);
    }

    fn block(&mut self, block: &str) {
        self.attention(block, "attn");
        self.norm(&format!("{block}.mlp_ln"));
        self.linear(&format!("{block}.mlp.0"), WIDTH, 4 * WIDTH);
        self.linear(&format!("{block}.mlp.2"), 4 * WIDTH, WIDTH);
    }
}

/// The value of a half-precision number that [`Writer::weights`] writes.
fn half(bits: [u8; 2]) -> f32 {
    let bits = u16::from_le_bytes(bits);
    let value = (1.0 + f32::from(bits & 0x3ff) / 1024.0) / 16.0;
    if bits & 0x8000 == 0 { value } else { -value }
}

/// Hyperparameters, vocabulary and the encoder, with random weights.
fn encoder() -> Writer {
    let mut writer = Writer { bytes: Vec::new(), random: Random(0x2545_f491), is_zero: false };
    let (heads, layers) = (2, 1);
    writer.integers(&[MAGIC, WORDS, FRAMES, WIDTH, heads, layers, TEXT, WIDTH, heads, layers, MELS, F16]);
    writer.integers(&[MELS, SPECTRUM]);
    writer.numbers(MELS * SPECTRUM);
    writer.integers(&[i32::try_from(VOCABULARY.len()).unwrap()]);
    for word in VOCABULARY {
        writer.integers(&[i32::try_from(word.len()).unwrap()]);
        writer.bytes.extend(word.as_bytes());
    }
    writer.tensor("encoder.positional_embedding", &[WIDTH, FRAMES]);
    writer.weights("encoder.conv1.weight", &[3, MELS, WIDTH]);
    writer.tensor("encoder.conv1.bias", &[1, WIDTH]);
    writer.weights("encoder.conv2.weight", &[3, WIDTH, WIDTH]);
    writer.tensor("encoder.conv2.bias", &[1, WIDTH]);
    writer.norm("encoder.ln_post");
    writer.block("encoder.blocks.0");
    writer
}

/// A model with random weights.
pub(crate) fn random_whisper() -> Vec<u8> {
    let mut writer = encoder();
    writer.tensor("decoder.positional_embedding", &[WIDTH, TEXT]);
    writer.weights("decoder.token_embedding.weight", &[WIDTH, WORDS]);
    writer.norm("decoder.ln");
    writer.block("decoder.blocks.0");
    writer.attention("decoder.blocks.0", "cross_attn");
    writer.bytes
}

/// A model that says [`SAID`] about every recording. Its decoder layer changes nothing, so the position determines the next token: the
/// vector of a position is a multiple of a token's.
pub(crate) fn speaking_whisper() -> Vec<u8> {
    let mut writer = encoder();
    writer.weights("decoder.token_embedding.weight", &[WIDTH, WORDS]);
    let width = usize::try_from(WIDTH).unwrap();
    let rows = writer.bytes.len() - 2 * width * usize::try_from(WORDS).unwrap();
    writer.head("decoder.positional_embedding", &[WIDTH, TEXT], F32);
    for position in 0..usize::try_from(TEXT).unwrap() {
        let token = usize::try_from(*TOKENS.get(position).unwrap_or(&END)).unwrap();
        for column in 0..width {
            let at = rows + 2 * (token * width + column);
            writer.float(100.0 * half([writer.bytes[at], writer.bytes[at + 1]]));
        }
    }
    // Ten times the norm: the token's probability is about 1.
    writer.head("decoder.ln.weight", &[WIDTH], F32);
    (0..WIDTH).for_each(|_| writer.float(10.0));
    writer.is_zero = true;
    writer.tensor("decoder.ln.bias", &[WIDTH]);
    writer.block("decoder.blocks.0");
    writer.attention("decoder.blocks.0", "cross_attn");
    writer.bytes
}
