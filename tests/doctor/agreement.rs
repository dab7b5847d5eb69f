//! The planner and the doctor on every recorded host: they agree which architectures are errors and which are
//! warnings.

use std::path::{Path, PathBuf};

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::toolkit;
use gpubuild_detect::toolkit::range::Basis;
use gpubuild_doctor as doctor;
use gpubuild_doctor::{DiagnosisCase, Filter};
use gpubuild_host::{Environment, HostInfo, InspectHost, RecordedHost};
use gpubuild_plan::machine::{self, MachineState};
use gpubuild_plan::plan::archs::{self, ArchSelection};
use gpubuild_plan::plan::kits::kits;

use crate::{CATALOGUE, FINDINGS};

/// Requested architectures: only the recorded ones, removed ones, new ones, and unknown ones.
const REQUESTS: [Option<&str>; 10] = [
    None,
    Some("35"),
    Some("61-real"),
    Some("75;90"),
    Some("87"),
    Some("101"),
    Some("107"),
    Some("120f"),
    Some("90;130"),
    Some("990"),
];

/// All recordings below a folder.
pub(crate) fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            recordings(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

/// The findings on a request: the error, or the warnings.
type Verdicts = Vec<(Severity, DiagnosticId)>;

/// The findings of the planner on the request in an environment, and the basis of its knowledge. `None` without a
/// toolkit or a request.
fn planner(state: &MachineState, env: &Environment) -> Option<(Verdicts, Basis)> {
    let kits = kits(&state.inventory, &state.catalogue, state.facts.platform);
    let kit = kits.get(&Backend::Cuda)?.first()?;
    let request = ArchSelection::cuda(None, env, None);
    if matches!(request.text.as_str(), "auto" | "native") {
        return None;
    }
    let devices = &state.matrix.verdict(Backend::Cuda).devices;
    let devices: Vec<_> = devices.iter().filter_map(|gpu| gpu.arch.as_deref()?.parse().ok()).collect();
    let verdicts = match archs::cuda(&request, &devices, &kit.archs, &kit.default_cuda) {
        Ok(plan) => plan.warnings.into_iter().map(|reason| (Severity::Warning, reason.id)).collect(),
        Err(reason) => vec![(Severity::Error, reason.id)],
    };
    Some((verdicts, kit.archs.basis.clone()))
}

/// The findings of the doctor. It examines the host once; only the request changes.
fn doctor(host: &dyn InspectHost) -> impl Fn(&Environment) -> Verdicts {
    let catalogue = &*CATALOGUE;
    let facts = facts::gather(host);
    let mut inventory = toolkit::probe(host, catalogue);
    toolkit::query_programs(host, catalogue, &mut inventory);
    let probes = toolkit::probe_drivers(host, &Backend::ALL);
    let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, catalogue, &probes);
    let signs = doctor::observe(host, &facts, &inventory, catalogue);
    move |env| {
        let case = DiagnosisCase {
            facts: &facts,
            inventory: &inventory,
            catalogue,
            matrix: &matrix,
            probes: &probes,
            signs: &signs,
            env,
            asked: Some(&[Backend::Cuda]),
            project: None,
        };
        verdicts_on_requests(&doctor::diagnose(&case, &FINDINGS, &Filter::default()))
    }
}

fn verdicts_on_requests(findings: &[Finding]) -> Verdicts {
    // Architectures of the devices are not requests: they get PTX or are skipped.
    let is_request = |id: &str, summary: &str| {
        id.starts_with("cuda.arch.")
            && ["CUDAARCHS=", "CUDA_COMPUTE_CAP="].iter().any(|name| summary.contains(name))
    };
    let own = findings.iter().map(|one| (one.severity, one.id, one.summary.as_str()));
    // Consequences have the severity of their cause.
    let folded = findings.iter().flat_map(|one| {
        one.consequences.iter().map(|folded| (one.severity, folded.id, folded.summary.as_str()))
    });
    own.chain(folded)
        .filter(|(_, id, summary)| is_request(id.as_str(), summary))
        .map(|(severity, id, _)| (severity, id))
        .collect()
}

#[test]
fn planner_and_doctor_agree_on_architectures_of_every_recorded_host() {
    let mut files = Vec::new();
    recordings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts"), &mut files);
    files.sort();
    assert!(files.len() > 200, "{} recordings", files.len());
    let (mut refused, mut warned, mut taken) = (0, 0, 0);
    let mut differences = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let recorded = RecordedHost::parse(&file.display().to_string(), &text).unwrap();
        let state = machine::inspect(&recorded, CATALOGUE.clone());
        if planner(&state, &recorded.env().with("CUDAARCHS", Some("90"))).is_none() {
            continue;
        }
        let doctor = doctor(&recorded);
        // The facts keep the recorded list, so other requests would be compared with it.
        let is_invalid =
            facts::gather(&recorded).variables.iter().any(|wrong| wrong.id == "cuda.arch.invalid");
        for request in REQUESTS.into_iter().filter(|request| request.is_none() || !is_invalid) {
            let env = match request {
                Some(_) => recorded.env().with("CUDAARCHS", request),
                None => recorded.env().clone(),
            };
            let Some((planner, basis)) = planner(&state, &env) else { continue };
            match planner.first() {
                Some((Severity::Error, _)) => refused += 1,
                Some(_) => warned += 1,
                None => taken += 1,
            }
            // Only nvcc can report the release of this copy. The planner starts no process and rejects nothing on a
            // guess.
            if basis == Basis::Guess {
                assert!(planner.iter().all(|(severity, _)| *severity > Severity::Error), "{planner:?}");
                continue;
            }
            let doctor = doctor(&env);
            if planner != doctor {
                differences
                    .push(format!("{} {request:?}: plan {planner:?}, doctor {doctor:?}", file.display()));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:
{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(refused > 50 && warned > 2 && taken > 50, "{refused} refused, {warned} warned, {taken} taken");
}
