//! Limits on parallel compilers.

use serde::{Deserialize, Serialize};

use super::bytes;
use super::make::PlanInputs;
use crate::project::Project;

const DEFAULT_MEMORY_PER_DEVICE_JOB: u64 = 2 << 30;

/// Limits on parallel work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jobs {
    /// Maximum number of parallel compilers over all trees.
    pub total: u32,
    /// Maximum number of parallel CUDA and HIP compilers.
    pub device: u32,
    /// Whether the user has set `total`.
    #[serde(skip)]
    pub is_fixed: bool,
    /// How the limits were determined.
    pub reason: String,
}

/// The memory in bytes that a CUDA or HIP compiler may take: from gpubuild.toml, else from the profile, else 2 GiB.
#[must_use]
pub fn memory_per_device_job(project: &Project) -> u64 {
    let limit = project.file.limits.memory_per_cuda_job.as_deref();
    limit
        .or(project.profile.memory_per_device_job.as_deref())
        .and_then(bytes::parse)
        .unwrap_or(DEFAULT_MEMORY_PER_DEVICE_JOB)
        .max(1)
}

/// The number of processor threads, and for device compilers also the available memory.
pub(super) fn jobs(inputs: &PlanInputs<'_>) -> Jobs {
    let limits = &inputs.project.file.limits;
    let threads = inputs.facts.cpu.threads.unwrap_or(1).max(1);
    let requested = inputs.jobs.or(limits.jobs);
    let total = requested.unwrap_or(threads).max(1);
    let is_fixed = requested.is_some();
    let each = memory_per_device_job(inputs.project);
    let Some(available) = inputs.facts.memory.available_bytes else {
        return Jobs {
            total,
            device: total,
            is_fixed,
            reason: format!("memory unknown; {threads} processor threads"),
        };
    };
    let fit = u32::try_from(available / each).unwrap_or(u32::MAX).max(1);
    let reason = format!(
        "{} of memory available, {} per device compiler; {threads} processor threads",
        bytes::show(available),
        bytes::show(each)
    );
    Jobs { total, device: total.min(fit), is_fixed, reason }
}
