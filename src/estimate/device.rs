//! Compares the needs of a model with the devices of a machine, and selects one.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::matrix::{Matrix, PREFERENCE, Readiness, Reason, Verdict};
use serde::Serialize;

use super::model::ModelNeeds;
use super::table::table;

/// Memory of the machine that is left for everything else, in bytes.
const HOST_RESERVE: u64 = 256 << 20;

/// A device, and whether a model fits into it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceEstimate {
    /// Name of the device.
    pub name: String,
    /// The backend to use on it; absent if none can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Why this backend, or why none.
    pub reason: String,
    /// Its memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Who names the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_source: Option<MemorySource>,
    /// Whether the model fits into it; absent if the memory is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    /// The longest context that fits and that the model supports, in tokens; 0 if the weights do not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_context: Option<u64>,
    /// Published bandwidth of its memory in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
    /// Where the bandwidth is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_source: Option<String>,
    /// Upper bounds of the speed; absent if the bandwidth is unknown or the model does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<SpeedBound>,
}

/// Who names the memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// The machine.
    Machine,
    /// The vendor's figure for this model of device.
    Published,
    /// It is the machine's main memory.
    Shared,
}

/// Upper bounds of the speed of token generation. Not measured: bandwidth divided by the bytes that one token has to read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpeedBound {
    /// Tokens per second at most with an empty cache.
    pub empty_cache: f64,
    /// Tokens per second at most at the end of the context.
    pub full_cache: f64,
}

/// The estimates for all GPUs, then for the processor.
#[must_use]
pub fn devices(needs: &ModelNeeds, facts: &Facts, matrix: &Matrix) -> Vec<DeviceEstimate> {
    let is_real = |gpu: &&Gpu| !matches!(gpu.vendor, Vendor::Software | Vendor::Virtual);
    let mut all: Vec<DeviceEstimate> =
        facts.gpus.iter().filter(is_real).map(|gpu| of_gpu(needs, facts, matrix, gpu)).collect();
    let memory = facts.memory.available_bytes.or(facts.memory.total_bytes);
    let name = facts.cpu.name.clone().unwrap_or_else(|| "processor".to_owned());
    let cpu = matrix.verdict(Backend::Cpu);
    all.push(DeviceEstimate {
        backend: Some(cpu.backend),
        reason: "every machine has it".to_owned(),
        ..compared(needs, &name, memory.map(|bytes| (bytes, MemorySource::Shared)))
    });
    all
}

fn of_gpu(needs: &ModelNeeds, facts: &Facts, matrix: &Matrix, gpu: &Gpu) -> DeviceEstimate {
    let published = table().device(&gpu.name).and_then(|row| row.memory).map(|gib| gib << 30);
    let machine = facts.memory.available_bytes.or(facts.memory.total_bytes);
    let memory = match gpu.integrated {
        Some(true) => machine.map(|bytes| (bytes, MemorySource::Shared)),
        _ => gpu
            .memory_bytes
            .map(|bytes| (bytes, MemorySource::Machine))
            .or_else(|| published.map(|bytes| (bytes, MemorySource::Published))),
    };
    let (backend, reason) = backend(matrix, gpu);
    DeviceEstimate { backend, reason, ..compared(needs, &gpu.name, memory) }
}

/// Compares the needs with a memory. Of a card, 5 % stay free; of the main memory, 256 MiB.
fn compared(needs: &ModelNeeds, name: &str, memory: Option<(u64, MemorySource)>) -> DeviceEstimate {
    let usable = memory.map(|(bytes, source)| match source {
        MemorySource::Shared => bytes.saturating_sub(HOST_RESERVE),
        MemorySource::Machine | MemorySource::Published => bytes - bytes / 20,
    });
    let fits = usable.map(|usable| needs.total() <= usable);
    let left = usable.map(|usable| usable.saturating_sub(needs.without_cache()));
    let row = table().device(name);
    let bound = row.filter(|_| fits != Some(false)).map(|row| bound(needs, row.bandwidth));
    DeviceEstimate {
        name: name.to_owned(),
        backend: None,
        reason: String::new(),
        memory: memory.map(|(bytes, _)| bytes),
        memory_source: memory.map(|(_, source)| source),
        fits,
        longest_context: left
            .and_then(|left| left.checked_div(needs.cache_per_token))
            .map(|tokens| tokens.min(needs.supported_context.unwrap_or(tokens))),
        bandwidth: row.map(|row| row.bandwidth),
        bandwidth_source: row.map(|row| row.source.clone()),
        bound,
    }
}

/// The bounds for a bandwidth in GB/s.
fn bound(needs: &ModelNeeds, bandwidth: f64) -> SpeedBound {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let speed = |bytes: u64| bandwidth * 1e9 / bytes.max(1) as f64;
    SpeedBound {
        empty_cache: speed(needs.read_per_token),
        full_cache: speed(needs.read_per_token.saturating_add(needs.cache)),
    }
}

/// The backend to use on a GPU: the first in the usual order that can run there, with the reasons against better ones.
fn backend(matrix: &Matrix, gpu: &Gpu) -> (Option<Backend>, String) {
    let is_this = |other: &Gpu| if gpu.pci.is_some() { other.pci == gpu.pci } else { other.name == gpu.name };
    let serves = |verdict: &&Verdict| verdict.devices.iter().any(is_this);
    let verdicts = PREFERENCE.into_iter().map(|backend| matrix.verdict(backend));
    let mut blocked = Vec::new();
    for verdict in verdicts.filter(serves) {
        if verdict.run != Readiness::Blocked {
            let state = if verdict.run == Readiness::Ready { "can run here" } else { "may run here" };
            blocked.push(format!("{} {state}", verdict.backend));
            return (Some(verdict.backend), blocked.join("; "));
        }
        let why = verdict.run_reasons.first().map(Reason::line).unwrap_or_default();
        blocked.push(format!("not {}: {why}", verdict.backend));
    }
    let reason = if blocked.is_empty() { "no backend supports it".to_owned() } else { blocked.join("; ") };
    (None, reason)
}

/// The device to use: of those that the model fits into and on which a backend runs, the one with the highest bound; without bounds, the
/// first.
#[must_use]
pub fn best(devices: &[DeviceEstimate]) -> Option<&DeviceEstimate> {
    let able = devices.iter().filter(|one| one.fits == Some(true) && one.backend.is_some());
    let speed = |one: &DeviceEstimate| one.bound.map_or(0.0, |bound| bound.full_cache);
    able.fold(None, |best: Option<&DeviceEstimate>, one| match best {
        Some(best) if speed(best) >= speed(one) => Some(best),
        _ => Some(one),
    })
}
