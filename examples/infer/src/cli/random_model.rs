//! `infer random-model`: writes a random model to a file, for comparisons and measurements.

use super::Failure;
use super::printer::Printer;
use crate::Error;
use crate::gguf::TensorType;
use crate::model::rope::{SCALINGS, Scaling};
use crate::model::{Architecture, Recipe};
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Args)]
pub(super) struct RandomModelArgs {
    /// File to write
    file: PathBuf,
    /// Architecture: llama, qwen2 or qwen3
    #[arg(long, value_name = "NAME", default_value = "llama", value_parser = parse_architecture)]
    arch: &'static Architecture,
    /// Type of the matrices: f32, f16, bf16, q8_0, q4_0, q4_k or q6_k
    #[arg(long = "type", value_name = "TYPE", default_value = "q8_0", value_parser = TensorType::weight_named)]
    kind: TensorType,
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Use the embedding table as output matrix
    #[arg(long)]
    tied: bool,
    /// Also write the optional biases of the architecture
    #[arg(long)]
    biases: bool,
    /// Divide the rotation frequencies as Llama 3 does
    #[arg(long)]
    rope_factors: bool,
    /// Rope scaling: none, linear or yarn
    #[arg(long, value_name = "RULE", default_value = "none")]
    rope_scaling: String,
    /// Growth of the context by rope scaling
    #[arg(long, value_name = "X", default_value_t = 4.0)]
    rope_factor: f64,
    /// Layers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    layers: u32,
    /// Width of the residual stream
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = size())]
    width: u32,
    /// Query heads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = size())]
    heads: u32,
    /// Key and value heads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = size())]
    heads_kv: u32,
    /// Width of a head
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = size())]
    head_width: u32,
    /// Width of the feed-forward part
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = size())]
    ff: u32,
    /// Tokens of the vocabulary
    #[arg(long, value_name = "N", default_value_t = 320, value_parser = size())]
    vocab: u32,
    /// Longest text in tokens
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = size())]
    ctx: u32,
}

fn size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 24)
}

fn parse_architecture(text: &str) -> Result<&'static Architecture, String> {
    Architecture::named(text).ok_or_else(|| format!("use {}", Architecture::names()))
}

impl RandomModelArgs {
    fn scaling(&self) -> Result<Scaling, Error> {
        if !(self.rope_factor.is_finite() && self.rope_factor > 0.0) {
            return Err(Error::message(format!("`--rope-factor {}` is not positive", self.rope_factor)));
        }
        let factor = self.rope_factor;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, at most the context"
        )]
        let original = (f64::from(self.ctx) / factor).max(1.0) as u32;
        match self.rope_scaling.as_str() {
            "none" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear { factor }),
            "yarn" => Ok(Scaling::Yarn { factor, original, beta_fast: 32.0, beta_slow: 1.0 }),
            other => {
                Err(Error::message(format!("rope scaling `{other}` is not known; there are {SCALINGS}")))
            }
        }
    }
}

pub(super) fn random_model(args: &RandomModelArgs, printer: &mut Printer) -> Result<(), Failure> {
    if !args.heads.is_multiple_of(args.heads_kv) {
        let (heads, kv) = (args.heads, args.heads_kv);
        return Err(Error::message(format!("{kv} key heads do not divide {heads} query heads")).into());
    }
    let recipe = Recipe {
        tied: args.tied,
        biases: args.biases,
        rope_factors: args.rope_factors,
        scaling: args.scaling()?,
        n_embd: args.width,
        n_layer: args.layers,
        n_head: args.heads,
        n_head_kv: args.heads_kv,
        d_head: args.head_width,
        n_ff: args.ff,
        n_vocab: args.vocab,
        n_ctx: args.ctx,
        ..Recipe::new(args.arch, args.kind, args.seed)
    };
    let writer = recipe.write()?;
    save(&writer, &args.file)
        .map_err(|error| Error::message(format!("cannot write `{}`: {error}", args.file.display())))?;
    printer.note(format_args!("wrote `{}` to {}", recipe.config().name, args.file.display()));
    Ok(())
}

/// Writes to a temporary file in the same folder first, so that the target is always complete.
fn save(writer: &crate::gguf::Writer, path: &Path) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part).map(BufWriter::new).and_then(|mut file| {
        writer.write_to(&mut file)?;
        file.flush()
    });
    let done = written.and_then(|()| std::fs::rename(&part, path));
    if done.is_err() {
        // The file may not exist; the earlier error is the relevant one.
        let _: std::io::Result<()> = std::fs::remove_file(&part);
    }
    done
}
