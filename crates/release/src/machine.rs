//! The properties of a machine that determine which variant fits it. Pure.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::visible::{CUDA_VISIBLE_DEVICES, why_none_visible};
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Presence, Readiness, Reason};
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{Environment, Os};
use serde::Serialize;

/// The properties of a machine that variants can require.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseMachine {
    /// `linux-x86_64`.
    pub platform: String,
    /// Family and version of the C library, on Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libc: Option<(String, Option<Version>)>,
    /// Release of the operating system, on macOS and Windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<Version>,
    /// The processor level, `x86-64-v3`; `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Hardware and driver for each backend except `cpu`.
    pub backends: BTreeMap<Backend, ObservedMachine>,
}

/// Hardware and driver for one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedMachine {
    /// Whether its hardware is present. Software devices do not count.
    pub hardware: Presence,
    /// Whether the backend can run.
    pub run: Readiness,
    /// Why it cannot run, the root cause first; each reason ends with its id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Version>,
    /// The newest CUDA release whose PTX the driver translates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translates: Option<Version>,
    /// The devices that a variant has to cover.
    pub devices: Vec<MachineDevice>,
}

/// A device that a variant has to cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineDevice {
    /// The device's name as the driver reports it.
    pub name: String,
    /// The architecture, `sm_90` or `gfx942`; `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
}

impl ReleaseMachine {
    /// Derives the properties from the facts and verdicts about a machine.
    #[must_use]
    pub fn of(facts: &Facts, matrix: &Matrix, catalogue: &Catalogue) -> Self {
        let platform = facts.platform;
        let libc = facts.libc.as_ref().filter(|_| platform.os == Os::Linux);
        let os = facts.distro.as_ref().filter(|_| platform.os != Os::Linux);
        let cuda = catalogue.for_backend(Backend::Cuda);
        let backends =
            matrix.verdicts.iter().filter(|verdict| verdict.backend != Backend::Cpu).map(|verdict| {
                let real: Vec<&Gpu> =
                    verdict.devices.iter().filter(|gpu| gpu.vendor != Vendor::Software).collect();
                let translates = cuda
                    .filter(|_| verdict.backend == Backend::Cuda)
                    .and_then(|cuda| cuda.newest_for_driver(verdict.driver.as_ref()?))
                    .cloned();
                let reasons = verdict.hardware_reasons.iter().chain(&verdict.run_reasons);
                let seen = ObservedMachine {
                    hardware: verdict.hardware,
                    run: verdict.run,
                    reasons: reasons.map(Reason::line).collect(),
                    driver: verdict.driver.clone(),
                    translates,
                    devices: relevant(real),
                };
                (verdict.backend, seen)
            });
        Self {
            platform: format!("{}-{}", platform.os.id(), platform.arch.id()),
            libc: libc.map(|libc| (libc.value.family.clone(), libc.value.version.clone())),
            os: os.and_then(|distro| distro.value.version.parse().ok()),
            cpu: facts.cpu.level.clone(),
            backends: backends.collect(),
        }
    }

    /// Blocks CUDA if `CUDA_VISIBLE_DEVICES` hides all GPUs from programs. An empty variable does not exist on Windows.
    #[must_use]
    pub fn with_hidden_devices(mut self, env: &Environment, os: Os) -> Self {
        let value = env.get_raw(CUDA_VISIBLE_DEVICES).filter(|value| os != Os::Windows || !value.is_empty());
        if let Some(why) = value.and_then(why_none_visible)
            && let Some(cuda) = self.backends.get_mut(&Backend::Cuda)
            && cuda.run != Readiness::Blocked
        {
            let text = format!("`{CUDA_VISIBLE_DEVICES}` {why}: CUDA programs see no GPU");
            cuda.run = Readiness::Blocked;
            cuda.reasons.insert(0, Reason::new(id!("nv.device-hidden"), text).line());
        }
        self
    }
}

/// The devices that a variant has to cover: integrated GPUs are ignored if there is a discrete one.
fn relevant(gpus: Vec<&Gpu>) -> Vec<MachineDevice> {
    let is_discrete = |gpu: &&&Gpu| gpu.integrated != Some(true);
    let any_discrete = gpus.iter().any(|gpu| is_discrete(&gpu));
    let relevant = gpus.into_iter().filter(|gpu| !any_discrete || is_discrete(&gpu));
    relevant.map(|gpu| MachineDevice { name: gpu.name.clone(), arch: gpu.arch.clone() }).collect()
}

/// The architecture of a processor level and its rank there: `("x86-64", 3)` for `x86-64-v3`.
#[must_use]
pub fn level(text: &str) -> Option<(&str, u8)> {
    if text == "armv8-a" {
        return Some((text, 1));
    }
    let rank = text.strip_prefix("x86-64-v")?.parse().ok().filter(|rank| (1..=4).contains(rank))?;
    Some(("x86-64", rank))
}
