//! The bytes of a model from the header of its GGUF file.

use gpubuild_gguf::{Gguf, Problem, TensorType, Value};

use super::model::{CacheSettings, DEFAULT_CONTEXT, ModelNeeds, OVERFLOW, activations, cache_row, mul};

impl ModelNeeds {
    /// Computes the bytes from the header of a file.
    ///
    /// # Errors
    /// A key is missing or has a wrong type, or the architecture has another kind of cache.
    pub fn of_file(gguf: &Gguf, cache: CacheSettings) -> Result<Self, String> {
        let keys = FileKeys::new(gguf)?;
        let (layers, embedding) = (keys.required("block_count")?, keys.required("embedding_length")?);
        for other in ["attention.kv_lora_rank", "ssm.state_size", "wkv.head_size"] {
            if gguf.value(&keys.name(other)).is_some() {
                return Err(format!("the cache of architecture `{}` is not known", keys.architecture));
            }
        }
        let heads = keys.first("attention.head_count")?;
        let key = keys.optional("attention.key_length")?.unwrap_or(embedding / heads.max(1));
        let value = keys.optional("attention.value_length")?.unwrap_or(key);
        let mut cache_per_token = 0_u64;
        for (kv_heads, count) in keys.kv_heads(layers, heads)? {
            let row = cache_row(cache.kind, mul(kv_heads, key)?)?
                .saturating_add(cache_row(cache.kind, mul(kv_heads, value)?)?);
            cache_per_token = cache_per_token.checked_add(mul(row, count)?).ok_or(OVERFLOW)?;
        }
        let supported_context = keys.optional("context_length")?;
        let context = cache.context.unwrap_or(DEFAULT_CONTEXT.min(supported_context.unwrap_or(u64::MAX)));
        let tensors = Tensors::of(gguf, keys.optional("expert_used_count")?, keys.optional("expert_count")?);
        let name = gguf.string("general.name").map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.unwrap_or_else(|| gguf.name()).to_owned(),
            kind: tensors.kind,
            parameters: tensors.parameters,
            weights: tensors.bytes,
            read_per_token: tensors.read,
            cache_per_token,
            context,
            supported_context,
            cache: mul(cache_per_token, context)?,
            activations: activations(embedding, tensors.vocabulary)?,
        })
    }
}

/// The keys of a file with the prefix of its architecture.
struct FileKeys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl<'a> FileKeys<'a> {
    fn new(gguf: &'a Gguf) -> Result<Self, String> {
        const KEY: &str = "general.architecture";
        let architecture = gguf.string(KEY).and_then(|value| gguf.required(KEY, value));
        Ok(Self { gguf, architecture: architecture.map_err(|error| error.to_string())? })
    }

    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn optional(&self, key: &str) -> Result<Option<u64>, String> {
        let value = self.gguf.integer(&self.name(key)).map_err(|error| error.to_string())?;
        Ok(value.map(u64::from))
    }

    fn required(&self, key: &str) -> Result<u64, String> {
        let missing = || self.gguf.key_error(&self.name(key), Problem::Missing).to_string();
        self.optional(key)?.ok_or_else(missing)
    }

    /// The numbers of an integer or of an array of integers, one per layer.
    fn numbers(&self, key: &str) -> Result<Option<Vec<u64>>, String> {
        let name = self.name(key);
        if !matches!(self.gguf.value(&name), Some(Value::Array { .. })) {
            return Ok(self.optional(key)?.map(|number| vec![number]));
        }
        let integer = |value| match value {
            Value::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        };
        self.gguf
            .array(&name, "an integer or an array of integers", integer)
            .map_err(|error| error.to_string())
    }

    fn first(&self, key: &str) -> Result<u64, String> {
        let numbers = self.numbers(key)?.unwrap_or_default();
        let missing = || self.gguf.key_error(&self.name(key), Problem::Missing).to_string();
        numbers.into_iter().max().ok_or_else(missing)
    }

    /// Numbers of key and value heads, each with the number of layers that have it.
    fn kv_heads(&self, layers: u64, heads: u64) -> Result<Vec<(u64, u64)>, String> {
        Ok(match self.numbers("attention.head_count_kv")? {
            Some(numbers) if numbers.len() > 1 => numbers.into_iter().map(|number| (number, 1)).collect(),
            Some(numbers) => vec![(numbers.first().copied().unwrap_or(heads), layers)],
            None => vec![(heads, layers)],
        })
    }
}

/// Sums over the tensors of a file.
struct Tensors {
    bytes: u64,
    parameters: u64,
    read: u64,
    vocabulary: u64,
    kind: String,
}

impl Tensors {
    fn of(gguf: &Gguf, used_experts: Option<u64>, experts: Option<u64>) -> Self {
        let mut all = Self { bytes: 0, parameters: 0, read: 0, vocabulary: 0, kind: String::new() };
        let mut kinds: Vec<(TensorType, u64)> = Vec::new();
        let tied = gguf.tensor("output.weight").is_none();
        for (name, tensor) in gguf.tensor_names().filter_map(|name| Some((name, gguf.tensor(name)?))) {
            let bytes = tensor.data.len() as u64;
            all.bytes = all.bytes.saturating_add(bytes);
            all.parameters = all.parameters.saturating_add(tensor.shape.iter().product());
            let is_table = name == "token_embd.weight";
            if is_table {
                all.vocabulary = tensor.shape.get(1).copied().unwrap_or(1);
            }
            let read = match (used_experts, experts) {
                (Some(used), Some(count)) if name.contains("_exps.") && count > 0 => {
                    bytes / count * used.min(count)
                }
                _ if is_table && !tied => 0,
                _ => bytes,
            };
            all.read = all.read.saturating_add(read);
            match kinds.iter_mut().find(|(kind, _)| *kind == tensor.kind) {
                Some((_, sum)) => *sum += bytes,
                None => kinds.push((tensor.kind, bytes)),
            }
        }
        let most = kinds.into_iter().max_by_key(|(_, sum)| *sum);
        all.kind = most.map(|(kind, _)| kind.name().to_owned()).unwrap_or_default();
        all
    }
}
