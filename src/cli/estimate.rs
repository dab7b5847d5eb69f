//! `gpubuild estimate`: whether a language model fits into the devices of a machine, which backend to use, and how fast it is at most.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_gguf::{Bytes, Gguf, TensorType};
use gpubuild_host::{Host, HostPath};

use super::machine::{self, HostArguments};
use super::{CommandContext, Exit, Failure, absolute};
use crate::estimate::device::devices;
use crate::estimate::model::{CacheSettings, Dimensions, ModelNeeds};
use crate::estimate::table::table;
use crate::report::estimate::{EstimateReport, MeasuredSpeed};

/// The most bytes that are read of a file. The header of a model with a large vocabulary has about 10 MiB.
const HEADER: usize = 64 << 20;
/// The largest document of `gpubuild bench` that is read, in bytes.
const MAX_DOCUMENT: u64 = 1 << 20;

/// Arguments of `estimate`.
#[derive(Debug, clap::Args)]
pub struct EstimateArguments {
    /// A GGUF file, or a typical size: 1B, 3B, 8B, 14B, 32B, 70B
    #[arg(value_name = "MODEL", required_unless_present = "layers", conflicts_with = "layers")]
    model: Option<String>,
    /// Number of layers, instead of MODEL
    #[arg(long, value_name = "N", requires_all = ["embedding", "heads", "feed_forward", "vocabulary"])]
    layers: Option<u64>,
    /// Width of the embedding
    #[arg(long, value_name = "N", requires = "layers")]
    embedding: Option<u64>,
    /// Number of query heads
    #[arg(long, value_name = "N", requires = "layers", value_parser = clap::value_parser!(u64).range(1..))]
    heads: Option<u64>,
    /// Number of key and value heads [default: `--heads`]
    #[arg(long, value_name = "N", requires = "layers")]
    kv_heads: Option<u64>,
    /// Width of a head [default: `--embedding` / `--heads`]
    #[arg(long, value_name = "N", requires = "layers")]
    head_size: Option<u64>,
    /// Width of the feed-forward part
    #[arg(long, value_name = "N", requires = "layers")]
    feed_forward: Option<u64>,
    /// Tokens of the vocabulary
    #[arg(long, value_name = "N", requires = "layers")]
    vocabulary: Option<u64>,
    /// The output matrix is the embedding table (tied weights)
    #[arg(long, requires = "layers")]
    tied: bool,
    /// Type of the weights, unless MODEL is a file: f16, bf16, q8_0, q4_0, q4_k, q6_k [default: q4_k]
    #[arg(long = "type", value_name = "TYPE", value_parser = TensorType::weight_named)]
    kind: Option<TensorType>,
    /// Tokens of the context [default: 4096, or what the model supports]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    context: Option<u64>,
    /// Type of the key and value cache
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = TensorType::weight_named)]
    cache_type: TensorType,
    /// Also query the drivers, each in a child process, for the memory of the devices
    #[arg(long)]
    probe: bool,
    /// Print the speeds in this document of `gpubuild bench --json` beside the bounds
    #[arg(long, value_name = "FILE")]
    measured: Option<String>,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints the estimate.
pub fn run(arguments: &EstimateArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let needs = needs(arguments, context)?;
    let measured = measured(arguments, context)?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let probed: &[Backend] = if arguments.probe { &Backend::ALL } else { &[] };
    let machine = machine::inspect_with_states(host, arguments.host.catalogue(context)?, probed)?;
    let devices = devices(&needs, &machine.facts, &machine.matrix);
    let report = EstimateReport::new(needs, devices, measured);
    if arguments.json {
        context.printer.json(&report)?;
    } else {
        context.printer.print(&report.text())?;
    }
    Ok(Exit::Done)
}

/// The bytes of the file, of the typical model, or of the dimensions.
fn needs(arguments: &EstimateArguments, context: &CommandContext<'_>) -> Result<ModelNeeds, Failure> {
    let cache = CacheSettings { context: arguments.context, kind: arguments.cache_type };
    let invalid = |what: String| {
        Failure::usage(id!("estimate.model-invalid"), what)
            .hint("name a GGUF file of a language model, a size such as `8B`, or all dimensions")
    };
    let kind = arguments.kind.unwrap_or(TensorType::Q4_K);
    let Some(model) = &arguments.model else {
        return ModelNeeds::of_dimensions("model", dimensions(arguments), kind, cache).map_err(invalid);
    };
    if let Some(typical) = table().model(model) {
        let name = format!("{} (as {})", typical.name, typical.like);
        let needs = ModelNeeds::of_dimensions(&name, typical.dimensions, kind, cache).map_err(invalid)?;
        return Ok(ModelNeeds { supported_context: Some(typical.context), ..needs });
    }
    if arguments.kind.is_some() {
        return Err(Failure::usage(
            id!("usage.conflict"),
            "a file has its own types, so `--type` does not apply",
        ));
    }
    let path = absolute(context, model)?;
    let gguf = header(context.host, &path).map_err(invalid)?;
    ModelNeeds::of_file(&gguf, cache).map_err(|what| invalid(format!("`{path}`: {what}")))
}

fn header(host: &dyn Host, path: &HostPath) -> Result<Gguf, String> {
    let unreadable = |error: std::io::Error| format!("failed to read `{path}`: {error}");
    let length = host.stat(path).map_err(unreadable)?.size;
    let bytes = host.read_start(path, HEADER).map_err(unreadable)?;
    Gguf::header(path.as_str(), Bytes::Owned(bytes), length).map_err(|error| error.to_string())
}

fn dimensions(arguments: &EstimateArguments) -> Dimensions {
    // clap requires the options that have no default.
    let embedding = arguments.embedding.unwrap_or_default();
    let heads = arguments.heads.unwrap_or(1);
    Dimensions {
        layers: arguments.layers.unwrap_or_default(),
        embedding,
        heads,
        kv_heads: arguments.kv_heads.unwrap_or(heads),
        head_size: arguments.head_size.unwrap_or(embedding / heads),
        feed_forward: arguments.feed_forward.unwrap_or_default(),
        vocabulary: arguments.vocabulary.unwrap_or_default(),
        tied: arguments.tied,
    }
}

fn measured(
    arguments: &EstimateArguments,
    context: &CommandContext<'_>,
) -> Result<Vec<MeasuredSpeed>, Failure> {
    let Some(file) = &arguments.measured else { return Ok(Vec::new()) };
    let path = absolute(context, file)?;
    let bytes = context.host.read_input(&path, MAX_DOCUMENT).map_err(|error| {
        Failure::usage(id!("estimate.measured-invalid"), format!("failed to read `{path}`: {error}"))
    })?;
    MeasuredSpeed::read(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
        Failure::usage(id!("estimate.measured-invalid"), format!("`{path}` is not a document of `bench`"))
            .hint("write one with `gpubuild bench --json > FILE`")
    })
}
