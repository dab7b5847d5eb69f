//! Test data: hostile names of devices, paths, variables and files, and documents of the doctor that contain such a value everywhere.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Consequence, Evidence, EvidenceKind, Finding, Remedy, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::description::PipelineStage;
use gpubuild_doctor::arch_plan::{BuiltArchs, By, DiagnosedArchs, RemovedArch};
use gpubuild_doctor::snapshot::SnapshotChange;
use gpubuild_doctor::validate::TrialOutcome;

use super::detect::{
    BackendEntry, BuildColumn, CpuReport, DeviceReport, HardwareColumn, HostReport, ReasonReport,
    Recommended, RunColumn, ToolkitReport,
};
use super::doctor::DoctorReport;
pub(super) use super::hostile_samples::samples;

/// A value without special meaning in any format.
pub(super) const HARMLESS: &str = "harmless";

/// The values with which a document is filled.
#[derive(Debug, Clone)]
pub(super) struct HostileValues {
    /// The value of every text.
    pub(super) text: String,
    /// The value of every command.
    pub(super) command: String,
}

impl HostileValues {
    /// Uses one value for texts and commands.
    pub(super) fn all(value: &str) -> Self {
        Self { text: value.to_owned(), command: value.to_owned() }
    }
}

/// The document of a machine with an error, a warning and a note.
pub(super) fn machine(values: &HostileValues) -> DoctorReport {
    let value = &values.text;
    DoctorReport {
        host: Some(HostReport {
            os: "linux",
            arch: "x86_64",
            distro: Some(value.clone()),
            kernel: Some(value.clone()),
            libc: Some(value.clone()),
            container: true,
            container_kind: Some(value.clone()),
            wsl: false,
            cpu: CpuReport {
                name: Some(value.clone()),
                threads: Some(8),
                level: None,
                features: vec![value.clone()],
            },
            memory_bytes: None,
        }),
        backends: vec![backend(Backend::Cpu, value), backend(Backend::Cuda, value)],
        changes: Some(vec![
            SnapshotChange { name: value.clone(), before: Some(value.clone()), after: Some(value.clone()) },
            SnapshotChange { name: "driver".to_owned(), before: None, after: Some(value.clone()) },
        ]),
        validation: Some(vec![TrialOutcome {
            backend: Backend::Cpu,
            ok: false,
            failed: Some(PipelineStage::Run),
            device: Some(value.clone()),
            message: format!("said {value}"),
            command: vec![value.clone()],
            output: value.clone(),
        }]),
        recommended: Some(Recommended { run: Backend::Cuda, build: vec![Backend::Cpu] }),
        checked: ["cpu.compiler-missing", "probe.crashed", "probe.failed", "probe.timeout"]
            .map(str::to_owned)
            .into(),
        ..file(values)
    }
}

/// The document of a file.
pub(super) fn file(values: &HostileValues) -> DoctorReport {
    let findings = vec![
        finding(id!("probe.failed"), Severity::Error, values),
        finding(id!("toolkit.missing"), Severity::Warning, values),
        finding(id!("probe.timeout"), Severity::Info, values),
    ];
    DoctorReport {
        arch_plan: vec![DiagnosedArchs {
            backend: Backend::Cuda,
            toolkit: values.text.clone(),
            origin: values.text.clone(),
            built: vec![BuiltArchs { arch: values.text.clone(), why: values.text.clone() }],
            removed: vec![RemovedArch {
                arch: values.text.clone(),
                by: By::Driver,
                why: values.text.clone(),
            }],
            blocked: None,
        }],
        ..DoctorReport::of_findings(findings)
    }
}

/// A finding with the value in every field that comes from a machine.
pub(super) fn finding(id: DiagnosticId, severity: Severity, values: &HostileValues) -> Finding {
    let value = &values.text;
    Finding {
        id,
        severity,
        backend: Some(Backend::Cuda),
        affects: vec![Affects::Run],
        summary: format!("the device `{value}` in {value} says no"),
        evidence: vec![
            Evidence::file(format!("{value}:12"), value.clone()),
            Evidence::env(value.clone(), value.clone()),
            Evidence::new(EvidenceKind::Exec, value.clone(), value.clone()),
        ],
        remedy: Remedy {
            text: format!("see `{value}` or {value}"),
            commands: vec!["gpubuild clean".to_owned(), values.command.clone()],
            needs: vec!["sudo".to_owned(), "relogin".to_owned()],
            verify: Some("gpubuild detect".to_owned()),
            safe: false,
        },
        links: vec!["https://docs.example/a".to_owned()],
        consequences: vec![Consequence {
            id: id!("probe.crashed"),
            backend: Some(Backend::Vulkan),
            summary: format!("{value} has no `{value}`"),
        }],
    }
}

fn backend(id: Backend, value: &str) -> BackendEntry {
    let why = || ReasonReport {
        reasons: vec![value.to_owned()],
        findings: Vec::new(),
        hints: vec![value.to_owned()],
    };
    BackendEntry {
        id,
        hardware: HardwareColumn {
            state: Presence::Present,
            devices: vec![DeviceReport {
                name: value.to_owned(),
                vendor: Vendor::Nvidia,
                pci: Some(value.to_owned()),
                arch: None,
                memory_bytes: None,
                integrated: None,
                kernel_driver: Some(value.to_owned()),
                uuid: None,
                found_via: vec![value.to_owned()],
            }],
            why: why(),
        },
        build: BuildColumn {
            state: Readiness::Ready,
            toolkits: vec![ToolkitReport {
                toolkit: "cuda".to_owned(),
                version: Some(value.to_owned()),
                root: value.to_owned(),
                program: Some(value.to_owned()),
                found_via: vec![value.to_owned()],
                chosen: true,
                reason: value.to_owned(),
                missing: Vec::new(),
            }],
            why: why(),
        },
        run: RunColumn { state: Readiness::Blocked, driver: Some(value.to_owned()), why: why() },
    }
}
