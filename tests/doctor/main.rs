//! The doctor on recorded hosts: one complete host per fault, and healthy hosts that must have no findings.
//!
//! Each host is in `tests/hosts/doctor/`, for use with `gpubuild doctor --host`. `GPUBUILD_UPDATE_HOSTS=1` rewrites
//! the files; otherwise they must match the code here.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads and writes its own files")]
#![expect(dead_code, unreachable_pub, reason = "not every layer of the host builder is in use")]

mod agreement;
mod container;
mod cuda;
#[cfg(target_os = "linux")]
mod faults;
mod files;
mod generated;
mod graphics;
mod grid;
mod machine;
mod modules;
mod nvidia;
mod nvidia_packages;
mod partial;
mod remedies;
#[path = "../common/requirements.rs"]
mod requirements;
mod rocm;
mod states;
mod systems;
mod unseen;
mod variables;

use std::path::PathBuf;
use std::sync::LazyLock;

use gpubuild_core::Backend;
use gpubuild_detect::facts;
use gpubuild_detect::finding::{EvidenceKind, Finding, Findings, Severity};
use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_doctor as doctor;
use gpubuild_doctor::{DiagnosisCase, Filter};
use gpubuild_host::{HostInfo, RecordedHost};

use machine::Machine;

/// Parsed once: in debug builds parsing takes longer than examining a host.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::embedded);
static FINDINGS: LazyLock<Findings> = LazyLock::new(Findings::embedded);

/// The findings of the doctor.
fn diagnose(machine: &Machine, asked: Option<&[Backend]>) -> Vec<Finding> {
    diagnose_host(&machine.host(), asked)
}

fn diagnose_host(host: &RecordedHost, asked: Option<&[Backend]>) -> Vec<Finding> {
    let catalogue = &*CATALOGUE;
    let facts = facts::gather(host);
    let mut inventory = toolkit::probe(host, catalogue);
    toolkit::query_programs(host, catalogue, &mut inventory);
    let probes = toolkit::probe_drivers(host, &Backend::ALL);
    let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, catalogue, &probes);
    let signs = doctor::observe(host, &facts, &inventory, catalogue);
    let case = DiagnosisCase {
        facts: &facts,
        inventory: &inventory,
        catalogue,
        matrix: &matrix,
        probes: &probes,
        signs: &signs,
        env: host.env(),
        asked,
        project: None,
    };
    doctor::diagnose(&case, &FINDINGS, &Filter::default())
}

fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let folded: Vec<&str> = finding.consequences.iter().map(|one| one.id.as_str()).collect();
        format!("{:?} {}: {} (so: {})", finding.severity, finding.id, finding.summary, folded.join(", "))
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn ids(findings: &[Finding], least: Severity) -> Vec<&str> {
    findings.iter().filter(|one| one.severity <= least).map(|one| one.id.as_str()).collect()
}

/// Writes the recording of the host, or compares it with the existing file.
fn check_recording(name: &str, machine: &Machine) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hosts/doctor");
    let path = folder.join(format!("{name}.toml"));
    let text = machine.recording().to_toml();
    if std::env::var_os("GPUBUILD_UPDATE_HOSTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} differs from what the test generates: run with GPUBUILD_UPDATE_HOSTS=1",
        path.display()
    );
}

/// Checks a faulty host: its errors and warnings are exactly these causes, in this order.
fn check(name: &str, machine: &Machine, causes: &[&str]) -> Vec<Finding> {
    check_asked(name, machine, None, causes)
}

/// Like [`check`], with requested backends.
fn check_asked(name: &str, machine: &Machine, asked: Option<&[Backend]>, causes: &[&str]) -> Vec<Finding> {
    check_recording(name, machine);
    let findings = diagnose(machine, asked);
    assert_eq!(ids(&findings, Severity::Warning), causes, "{name}:\n{}", lines(&findings));
    let evidence = findings.iter().flat_map(|one| &one.evidence).filter(|one| one.kind == EvidenceKind::File);
    let unfilled: Vec<&str> =
        evidence.map(|one| one.place.as_str()).filter(|place| place.contains('{')).collect();
    assert!(unfilled.is_empty(), "{name}: {unfilled:?}");
    for finding in findings.iter().filter(|one| one.severity <= Severity::Warning) {
        assert!(!finding.remedy.text.is_empty(), "{name}: no fix for {}", finding.id);
        assert!(!finding.summary.contains('{') && !finding.remedy.text.contains('{'), "{name}: {finding:?}");
        assert!(finding.remedy.commands.iter().all(|one| !one.contains('{')), "{name}: {finding:?}");
        assert!(!finding.evidence.is_empty(), "{name}: no evidence for {}", finding.id);
    }
    findings
}

/// Checks that a host has no errors or warnings.
fn healthy(name: &str, machine: &Machine) -> Vec<Finding> {
    check(name, machine, &[])
}

#[test]
fn workstation_with_cuda_is_healthy() {
    let machine = Machine::ubuntu("22.04").nvidia(machine::RTX_4090, "550.144.03").cuda("12.4.1");
    healthy("healthy-ubuntu-22.04-rtx4090", &machine);
}
