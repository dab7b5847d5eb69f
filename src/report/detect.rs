//! `gpubuild detect`: the verdicts as a document.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::matrix::{Matrix, Presence, Readiness, Reason, Verdict};
use gpubuild_detect::toolkit::description::ToolkitKind;
use gpubuild_detect::toolkit::{Catalogue, Installation, Inventory};
use serde::Serialize;

use super::Schema;

/// The document of `detect --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DetectReport {
    pub(super) schema: Schema,
    pub(super) host: HostReport,
    pub(super) backends: Vec<BackendEntry>,
    pub(super) tools: Vec<ToolkitReport>,
    pub(super) recommended: Recommended,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<OverrideReport>,
}

/// The machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostReport {
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) distro: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) libc: Option<String>,
    pub(super) container: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container_kind: Option<String>,
    pub(super) wsl: bool,
    pub(super) cpu: CpuReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CpuReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<String>,
    pub(super) features: Vec<String>,
}

/// A backend with its three answers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendEntry {
    pub(super) id: Backend,
    pub(super) hardware: HardwareColumn,
    pub(super) build: BuildColumn,
    pub(super) run: RunColumn,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HardwareColumn {
    pub(super) state: Presence,
    pub(super) devices: Vec<DeviceReport>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BuildColumn {
    pub(super) state: Readiness,
    pub(super) toolkits: Vec<ToolkitReport>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RunColumn {
    pub(super) state: Readiness,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
    #[serde(flatten)]
    pub(super) why: ReasonReport,
}

/// Reasons for people, the ids of their findings beside them, and what to do.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReasonReport {
    pub(super) reasons: Vec<String>,
    pub(super) findings: Vec<DiagnosticId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hints: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeviceReport {
    pub(super) name: String,
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) vendor: Vendor,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pci: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) integrated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel_driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uuid: Option<String>,
    pub(super) found_via: Vec<String>,
}

/// One copy of a toolkit or tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolkitReport {
    pub(super) toolkit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    pub(super) root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    pub(super) found_via: Vec<String>,
    pub(super) chosen: bool,
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

/// What is best used.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Recommended {
    pub(super) run: Backend,
    pub(super) build: Vec<Backend>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OverrideReport {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) origin: String,
}

impl DetectReport {
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
        let is_tool = |id: &str| catalogue.get(id).is_some_and(|one| one.kind == ToolkitKind::Tool);
        let tools = inventory.installations.iter().filter(|(id, _)| is_tool(id));
        Self {
            schema: Schema { name: "detect", version: 1 },
            host: HostReport::new(facts),
            backends: backend_entries(matrix.verdicts.iter().filter(wanted)),
            tools: tools.flat_map(|(_, copies)| copies).map(ToolkitReport::new).collect(),
            recommended: Recommended::new(matrix),
            overrides: facts
                .overrides
                .iter()
                .map(|one| OverrideReport {
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

impl HostReport {
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
            cpu: CpuReport {
                name: facts.cpu.name.clone(),
                threads: facts.cpu.threads,
                level: facts.cpu.level.clone(),
                features: facts.cpu.features.clone(),
            },
            memory_bytes: facts.memory.total_bytes,
        }
    }
}

impl Recommended {
    /// As the matrix has it.
    #[must_use]
    pub fn new(matrix: &Matrix) -> Self {
        Self { run: matrix.recommended_run, build: matrix.recommended_build.clone() }
    }
}

impl BackendEntry {
    fn new(verdict: &Verdict) -> Self {
        Self {
            id: verdict.backend,
            hardware: HardwareColumn {
                state: verdict.hardware,
                devices: verdict.devices.iter().map(DeviceReport::new).collect(),
                why: ReasonReport::new(&verdict.hardware_reasons),
            },
            build: BuildColumn {
                state: verdict.build,
                toolkits: verdict.toolkits.iter().map(ToolkitReport::new).collect(),
                why: ReasonReport::new(&verdict.build_reasons),
            },
            run: RunColumn {
                state: verdict.run,
                driver: verdict.driver.as_ref().map(ToString::to_string),
                why: ReasonReport::new(&verdict.run_reasons),
            },
        }
    }
}

impl ReasonReport {
    fn new(reasons: &[Reason]) -> Self {
        Self {
            reasons: reasons.iter().map(|reason| format!("{} [{}]", reason.text, reason.id)).collect(),
            findings: reasons.iter().map(|reason| reason.id).collect(),
            hints: reasons.iter().filter_map(|reason| reason.hint.clone()).collect(),
        }
    }
}

impl DeviceReport {
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

impl ToolkitReport {
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
        insta::assert_json_snapshot!(schemars::schema_for!(DetectReport));
    }
}
