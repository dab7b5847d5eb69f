//! `gpubuild detect`: the verdicts as a document.

use serde::Serialize;

use super::Schema;
use crate::backend::Backend;
use crate::facts::{Facts, Gpu, Vendor};
use crate::matrix::{Matrix, Presence, Readiness, Reason, Verdict};
use crate::toolkit::description::Kind;
use crate::toolkit::{Catalogue, Installation, Inventory};

/// The document of `detect --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    schema: Schema,
    host: Host,
    backends: Vec<BackendEntry>,
    tools: Vec<Toolkit>,
    recommended: Recommended,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overrides: Vec<Override>,
}

/// The machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    os: &'static str,
    arch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    distro: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    libc: Option<String>,
    container: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_kind: Option<String>,
    wsl: bool,
    cpu: Cpu,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Cpu {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    features: Vec<String>,
}

/// A backend with its three answers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendEntry {
    id: Backend,
    hardware: Hardware,
    build: Build,
    run: Run,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Hardware {
    state: Presence,
    devices: Vec<Device>,
    #[serde(flatten)]
    why: Why,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Build {
    state: Readiness,
    toolkits: Vec<Toolkit>,
    #[serde(flatten)]
    why: Why,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Run {
    state: Readiness,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    #[serde(flatten)]
    why: Why,
}

/// Reasons for people, the ids of their findings beside them, and what to do.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Why {
    reasons: Vec<String>,
    findings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Device {
    name: String,
    #[cfg_attr(test, schemars(with = "String"))]
    vendor: Vendor,
    #[serde(skip_serializing_if = "Option::is_none")]
    pci: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    integrated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    found_via: Vec<String>,
}

/// One copy of a toolkit or tool.
#[expect(clippy::struct_field_names, reason = "the key of the contract")]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Toolkit {
    toolkit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    found_via: Vec<String>,
    chosen: bool,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Recommended {
    run: Backend,
    build: Vec<Backend>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Override {
    key: String,
    value: String,
    origin: String,
}

impl Document {
    /// The document about a machine, on these backends.
    #[must_use]
    pub fn new(
        facts: &Facts,
        inventory: &Inventory,
        catalogue: &Catalogue,
        matrix: &Matrix,
        backends: &[Backend],
    ) -> Self {
        let wanted = |verdict: &&Verdict| backends.contains(&verdict.backend);
        let is_tool = |id: &str| catalogue.get(id).is_some_and(|one| one.kind == Kind::Tool);
        let tools = inventory.installations.iter().filter(|(id, _)| is_tool(id));
        Self {
            schema: Schema { name: "detect", version: 1 },
            host: Host::new(facts),
            backends: backend_entries(matrix.verdicts.iter().filter(wanted)),
            tools: tools.flat_map(|(_, copies)| copies).map(Toolkit::new).collect(),
            recommended: Recommended { run: matrix.recommended_run, build: matrix.recommended_build.clone() },
            overrides: facts
                .overrides
                .iter()
                .map(|one| Override {
                    key: one.key.clone(),
                    value: one.value.clone(),
                    origin: one.origin.clone(),
                })
                .collect(),
        }
    }
}

/// The backends as every document shows them.
pub fn backend_entries<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Vec<BackendEntry> {
    verdicts.map(BackendEntry::new).collect()
}

impl Host {
    /// The machine as every document shows it.
    #[must_use]
    pub fn new(facts: &Facts) -> Self {
        Self {
            os: facts.platform.os.id(),
            arch: facts.platform.arch.id(),
            distro: facts.distro.as_ref().map(|fact| fact.value.label()),
            kernel: facts.kernel.as_ref().map(|fact| fact.value.clone()),
            libc: facts.libc.as_ref().map(|fact| fact.value.label()),
            container: facts.container.is_some(),
            container_kind: facts.container.as_ref().map(|fact| fact.value.clone()),
            wsl: facts.wsl.is_some(),
            cpu: Cpu {
                name: facts.cpu.name.clone(),
                threads: facts.cpu.threads,
                level: facts.cpu.level.clone(),
                features: facts.cpu.features.clone(),
            },
            memory_bytes: facts.memory.total_bytes,
        }
    }
}

impl BackendEntry {
    fn new(verdict: &Verdict) -> Self {
        Self {
            id: verdict.backend,
            hardware: Hardware {
                state: verdict.hardware,
                devices: verdict.devices.iter().map(Device::new).collect(),
                why: Why::new(&verdict.hardware_reasons),
            },
            build: Build {
                state: verdict.build,
                toolkits: verdict.toolkits.iter().map(Toolkit::new).collect(),
                why: Why::new(&verdict.build_reasons),
            },
            run: Run {
                state: verdict.run,
                driver: verdict.driver.as_ref().map(ToString::to_string),
                why: Why::new(&verdict.run_reasons),
            },
        }
    }
}

impl Why {
    fn new(reasons: &[Reason]) -> Self {
        Self {
            reasons: reasons.iter().map(|reason| format!("{} [{}]", reason.text, reason.id)).collect(),
            findings: reasons.iter().map(|reason| reason.id.clone()).collect(),
            hints: reasons.iter().filter_map(|reason| reason.hint.clone()).collect(),
        }
    }
}

impl Device {
    fn new(gpu: &Gpu) -> Self {
        Self {
            name: gpu.name.clone(),
            vendor: gpu.vendor,
            pci: gpu.pci.clone(),
            arch: gpu.arch.clone(),
            memory_bytes: gpu.memory_bytes,
            integrated: gpu.integrated,
            kernel_driver: gpu.kernel_driver.clone(),
            uuid: gpu.uuid.clone(),
            found_via: gpu.found_via.clone(),
        }
    }
}

impl Toolkit {
    fn new(copy: &Installation) -> Self {
        Self {
            toolkit: copy.toolkit.clone(),
            version: copy.version().map(ToString::to_string),
            root: copy.root.to_string(),
            program: copy.part("program").map(ToString::to_string),
            found_via: copy.found_via.clone(),
            chosen: copy.chosen,
            reason: copy.reason.clone(),
            missing: copy.missing_parts().into_iter().map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_document_changes_only_on_purpose() {
        insta::assert_json_snapshot!(schemars::schema_for!(Document));
    }
}
