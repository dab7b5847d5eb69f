//! A model with random weights in whisper.cpp's format: one encoder layer and one decoder layer.

use crate::gguf::Random;

const MAGIC: i32 = 0x6767_6d6c;
/// Special tokens have fixed ids, so the vocabulary has its full size.
const WORDS: i32 = 51_864;
const WIDTH: i32 = 64;
const FRAMES: i32 = 32;
const TEXT: i32 = 16;
const MELS: i32 = 80;
const SPECTRUM: i32 = 201;
const F32: i32 = 0;
const F16: i32 = 1;

struct Writer {
    bytes: Vec<u8>,
    random: Random,
}

impl Writer {
    fn integers(&mut self, values: &[i32]) {
        self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn numbers(&mut self, count: i32) {
        for _ in 0..count {
            let value = self.random.next();
            self.bytes.extend(value.to_le_bytes());
        }
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
            self.bytes.extend(bits.to_le_bytes());
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

/// The bytes of the file.
pub(crate) fn random_whisper() -> Vec<u8> {
    let mut writer = Writer { bytes: Vec::new(), random: Random(0x2545_f491) };
    let (heads, layers) = (2, 1);
    writer.integers(&[MAGIC, WORDS, FRAMES, WIDTH, heads, layers, TEXT, WIDTH, heads, layers, MELS, F16]);
    writer.integers(&[MELS, SPECTRUM]);
    writer.numbers(MELS * SPECTRUM);
    // The tokens have no text: tests use only their ids.
    writer.integers(&[0]);
    writer.tensor("encoder.positional_embedding", &[WIDTH, FRAMES]);
    writer.weights("encoder.conv1.weight", &[3, MELS, WIDTH]);
    writer.tensor("encoder.conv1.bias", &[1, WIDTH]);
    writer.weights("encoder.conv2.weight", &[3, WIDTH, WIDTH]);
    writer.tensor("encoder.conv2.bias", &[1, WIDTH]);
    writer.norm("encoder.ln_post");
    writer.block("encoder.blocks.0");
    writer.tensor("decoder.positional_embedding", &[WIDTH, TEXT]);
    writer.weights("decoder.token_embedding.weight", &[WIDTH, WORDS]);
    writer.norm("decoder.ln");
    writer.block("decoder.blocks.0");
    writer.attention("decoder.blocks.0", "cross_attn");
    writer.bytes
}
