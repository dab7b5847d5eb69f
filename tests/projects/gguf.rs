//! A GGUF file with random weights: a one-layer architecture that llama.cpp loads and runs.

const ALIGNMENT: usize = 32;
const WIDTH: u64 = 64;
const WORDS: u64 = 48;
const INNER: u64 = 128;

struct Writer {
    keys: Vec<u8>,
    key_count: u64,
    infos: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
    random: Random,
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl Writer {
    fn key(&mut self, name: &str, kind: u32, value: &[u8]) {
        text(&mut self.keys, name);
        self.keys.extend(kind.to_le_bytes());
        self.keys.extend(value);
        self.key_count += 1;
    }

    fn integer(&mut self, name: &str, value: u64) {
        self.key(name, 4, &u32::try_from(value).unwrap().to_le_bytes());
    }

    fn string(&mut self, name: &str, value: &str) {
        let mut bytes = Vec::new();
        text(&mut bytes, value);
        self.key(name, 8, &bytes);
    }

    /// Writes a matrix of small random numbers, or a vector of ones.
    fn tensor(&mut self, name: &str, shape: &[u64]) {
        text(&mut self.infos, name);
        self.infos.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
        self.infos.extend(shape.iter().flat_map(|length| length.to_le_bytes()));
        self.infos.extend(0_u32.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.tensor_count += 1;
        for _ in 0..shape.iter().product::<u64>() {
            let value = if shape.len() == 1 { 1.0 } else { self.random.next() };
            self.data.extend(value.to_le_bytes());
        }
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Deterministic small random numbers around zero.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> f32 {
        (f32::from(self.bits()) / f32::from(u16::MAX) - 0.5) * 0.4
    }

    pub(crate) fn bits(&mut self) -> u16 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u16::try_from(self.0 >> 48).unwrap()
    }
}

/// The bytes of the file.
pub(crate) fn random_llama() -> Vec<u8> {
    let mut writer = Writer {
        keys: Vec::new(),
        key_count: 0,
        infos: Vec::new(),
        tensor_count: 0,
        data: Vec::new(),
        random: Random(0x9e37_79b9),
    };
    writer.string("general.architecture", "llama");
    writer.string("tokenizer.ggml.model", "no_vocab");
    for (name, value) in [
        ("vocab_size", WORDS),
        ("context_length", 64),
        ("embedding_length", WIDTH),
        ("block_count", 1),
        ("feed_forward_length", INNER),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 2),
        ("rope.dimension_count", WIDTH / 2),
    ] {
        writer.integer(&format!("llama.{name}"), value);
    }
    writer.key("llama.attention.layer_norm_rms_epsilon", 6, &1e-5_f32.to_le_bytes());
    writer.tensor("token_embd.weight", &[WIDTH, WORDS]);
    writer.tensor("output_norm.weight", &[WIDTH]);
    writer.tensor("output.weight", &[WIDTH, WORDS]);
    for norm in ["attn_norm", "ffn_norm"] {
        writer.tensor(&format!("blk.0.{norm}.weight"), &[WIDTH]);
    }
    for part in ["attn_q", "attn_k", "attn_v", "attn_output"] {
        writer.tensor(&format!("blk.0.{part}.weight"), &[WIDTH, WIDTH]);
    }
    writer.tensor("blk.0.ffn_gate.weight", &[WIDTH, INNER]);
    writer.tensor("blk.0.ffn_up.weight", &[WIDTH, INNER]);
    writer.tensor("blk.0.ffn_down.weight", &[INNER, WIDTH]);
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(writer.tensor_count.to_le_bytes());
    bytes.extend(writer.key_count.to_le_bytes());
    bytes.extend(writer.keys);
    bytes.extend(writer.infos);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes.extend(writer.data);
    bytes
}
