//! The document of `gpubuild estimate`, and its text.

use std::fmt::Write as _;

use gpubuild_plan::plan::bytes;
use serde::Serialize;

use super::Schema;
use super::rows;
use crate::estimate::device::{DeviceEstimate, MemorySource, best};
use crate::estimate::model::ModelNeeds;

/// The document of `estimate --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EstimateReport {
    schema: Schema,
    /// The bytes of the model.
    model: ModelNeeds,
    /// All bytes of the model.
    total: u64,
    /// The GPUs, then the processor.
    devices: Vec<DeviceEstimate>,
    /// What to use, in one sentence.
    advice: String,
    /// Speeds that `gpubuild bench` measured, from `--measured`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    measured: Vec<MeasuredSpeed>,
}

/// A speed that `gpubuild bench` measured.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredSpeed {
    /// Id of the backend.
    backend: String,
    /// Name of the measured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Token generation, in tokens per second: the best round.
    tokens_per_second: f64,
}

impl MeasuredSpeed {
    /// The speeds in a document of `gpubuild bench --json`; `None` if it is another document.
    #[must_use]
    pub fn read(text: &str) -> Option<Vec<Self>> {
        let document = gpubuild_detect::json::parse(text)?;
        if document["schema"]["name"] != "bench" || document["schema"]["version"] != 1 {
            return None;
        }
        let speed = |one: &serde_json::Value| {
            Some(Self {
                backend: one["id"].as_str()?.to_owned(),
                model: one["model"].as_str().map(str::to_owned),
                tokens_per_second: one["decode"]["best_tokens_per_second"].as_f64()?,
            })
        };
        Some(document["backends"].as_array()?.iter().filter_map(speed).collect())
    }
}

impl EstimateReport {
    /// The document.
    #[must_use]
    pub fn new(model: ModelNeeds, devices: Vec<DeviceEstimate>, measured: Vec<MeasuredSpeed>) -> Self {
        let advice = advice(&model, &devices);
        let schema = Schema { name: "estimate", version: 1 };
        Self { schema, total: model.total(), model, devices, advice, measured }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { model, .. } = self;
        let mut text = format!("{}: {} weights, {}\n", model.name, count(model.parameters), model.kind);
        for (what, size, remark) in [
            ("weights", model.weights, String::new()),
            ("cache", model.cache, format!(" ({} tokens)", model.context)),
            ("activations", model.activations, " (estimated)".to_owned()),
            ("total", self.total, String::new()),
        ] {
            let _ = writeln!(text, "  {what:<12} {}{remark}", bytes::show(size));
        }
        text.push('\n');
        for line in rows::table(&self.rows()) {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "\n{}", self.advice);
        text.push_str("`at most` is not measured: published bandwidth / bytes that a token reads, with an empty and a full cache\n");
        for one in &self.measured {
            let model = one.model.as_deref().unwrap_or("unknown");
            let _ = writeln!(
                text,
                "measured by `gpubuild bench` with model {model}: {}, {:.1} tokens/s",
                one.backend, one.tokens_per_second
            );
        }
        text
    }

    fn rows(&self) -> Vec<[String; 6]> {
        let header = ["device", "backend", "memory", "fits", "longest context", "at most, tokens/s"];
        let unknown = || "unknown".to_owned();
        let row = |one: &DeviceEstimate| {
            let memory = one.memory.map_or_else(unknown, |size| match one.memory_source {
                Some(MemorySource::Published) => format!("{} (published)", bytes::show(size)),
                _ => bytes::show(size),
            });
            [
                one.name.clone(),
                one.backend.map_or_else(|| "none".to_owned(), |backend| backend.id().to_owned()),
                memory,
                one.fits.map_or_else(unknown, |fits| if fits { "yes" } else { "no" }.to_owned()),
                one.longest_context.map_or_else(unknown, |tokens| tokens.to_string()),
                match (one.bound, one.fits) {
                    (Some(bound), _) => format!("{:.0} to {:.0}", bound.empty_cache, bound.full_cache),
                    (None, Some(false)) => String::new(),
                    (None, _) => unknown(),
                },
            ]
        };
        std::iter::once(header.map(str::to_owned)).chain(self.devices.iter().map(row)).collect()
    }
}

/// A number of weights: `8.03 billion`.
fn count(weights: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let millions = weights as f64 / 1e6;
    if millions < 1000.0 {
        format!("{millions:.2} million")
    } else {
        format!("{:.2} billion", millions / 1e3)
    }
}

/// What to use.
fn advice(model: &ModelNeeds, devices: &[DeviceEstimate]) -> String {
    if let Some(best) = best(devices)
        && let Some(backend) = best.backend
    {
        let why = match best.bandwidth {
            Some(bandwidth) => format!("the model fits, and the memory has {bandwidth} GB/s"),
            None => "the model fits".to_owned(),
        };
        let unknown = devices.iter().find(|one| one.backend.is_some() && one.fits.is_none());
        let unknown = unknown.map_or_else(String::new, |one| {
            format!("; the memory of {} is unknown, `--probe` asks its driver", one.name)
        });
        return format!("use {backend} on {}: {why}; {}{unknown}", best.name, best.reason);
    }
    let longest = devices.iter().filter(|one| one.backend.is_some()).filter_map(|one| one.longest_context);
    match longest.max().filter(|tokens| *tokens > 0) {
        Some(tokens) => {
            format!("the model fits with a context of at most {tokens} tokens: try `--context {tokens}`")
        }
        None if devices.iter().any(|one| one.backend.is_some() && one.fits.is_none()) => {
            "the memory of a device is unknown; `--probe` asks its driver".to_owned()
        }
        None => format!(
            "the model fits no device of this machine: {} are needed; use a smaller model or weight type",
            bytes::show(model.total())
        ),
    }
}
