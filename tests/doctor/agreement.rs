//! The planner and the doctor on every recorded machine: what one refuses of the architectures that somebody names, the other
//! does not call healthy, and the other way round.

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
use gpubuild_plan::look::{self, MachineState};
use gpubuild_plan::plan::archs::{self, ArchSelection};
use gpubuild_plan::plan::kits::kits;

use crate::{CATALOGUE, FINDINGS};

/// What is asked for: nothing but what was recorded, what went away, what came and what nobody knows yet.
const WISHES: [Option<&str>; 10] = [
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

/// Files of recorded machines, also those in folders.
fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            recordings(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

/// What one of them says of a wish: the finding that refuses it, or those that warn.
type Said = Vec<(Severity, DiagnosticId)>;

/// What the planner says of the wish in an environment, and what it knows of the toolkit. `None`: there is no toolkit to plan
/// with, or nobody wishes for anything.
fn planner(sight: &MachineState, env: &Environment) -> Option<(Said, Basis)> {
    let kits = kits(&sight.inventory, &sight.catalogue, sight.facts.platform);
    let kit = kits.get(&Backend::Cuda)?.first()?;
    let wish = ArchSelection::cuda(None, env, None);
    if matches!(wish.text.as_str(), "auto" | "native") {
        return None;
    }
    let devices = &sight.matrix.verdict(Backend::Cuda).devices;
    let devices: Vec<_> = devices.iter().filter_map(|gpu| gpu.arch.as_deref()?.parse().ok()).collect();
    let said = match archs::cuda(&wish, &devices, &kit.archs, &kit.default_cuda) {
        Ok(plan) => plan.warnings.into_iter().map(|reason| (Severity::Warning, reason.id)).collect(),
        Err(reason) => vec![(Severity::Error, reason.id)],
    };
    Some((said, kit.archs.basis.clone()))
}

/// What the doctor says of it. It looks at the machine once; only the wish is another.
fn doctor(host: &dyn InspectHost) -> impl Fn(&Environment) -> Said {
    let catalogue = &*CATALOGUE;
    let facts = facts::gather(host);
    let mut inventory = toolkit::probe(host, catalogue);
    toolkit::ask_programs(host, catalogue, &mut inventory);
    let probes = toolkit::ask_drivers(host, &Backend::ALL);
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
        said_of_wishes(&doctor::diagnose(&case, &FINDINGS, &Filter::default()))
    }
}

fn said_of_wishes(findings: &[Finding]) -> Said {
    // What cards ask for is no wish: they get PTX, or are left out.
    let is_wish = |id: &str, summary: &str| {
        id.starts_with("cuda.arch.")
            && ["CUDAARCHS=", "CUDA_COMPUTE_CAP="].iter().any(|name| summary.contains(name))
    };
    let own = findings.iter().map(|one| (one.severity, one.id, one.summary.as_str()));
    // What follows from something else is as bad as that.
    let folded = findings.iter().flat_map(|one| {
        one.consequences.iter().map(|folded| (one.severity, folded.id, folded.summary.as_str()))
    });
    own.chain(folded)
        .filter(|(_, id, summary)| is_wish(id.as_str(), summary))
        .map(|(severity, id, _)| (severity, id))
        .collect()
}

#[test]
fn the_planner_and_the_doctor_agree_about_architectures_on_every_recorded_machine() {
    let mut files = Vec::new();
    recordings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts"), &mut files);
    files.sort();
    assert!(files.len() > 200, "{} recordings", files.len());
    let (mut refused, mut warned, mut taken) = (0, 0, 0);
    let mut apart = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let recorded = RecordedHost::parse(&file.display().to_string(), &text).unwrap();
        let sight = look::look(&recorded, CATALOGUE.clone());
        if planner(&sight, &recorded.env().with("CUDAARCHS", Some("90"))).is_none() {
            continue;
        }
        let doctor = doctor(&recorded);
        for wish in WISHES {
            let env = match wish {
                Some(_) => recorded.env().with("CUDAARCHS", wish),
                None => recorded.env().clone(),
            };
            let Some((planner, basis)) = planner(&sight, &env) else { continue };
            match planner.first() {
                Some((Severity::Error, _)) => refused += 1,
                Some(_) => warned += 1,
                None => taken += 1,
            }
            // Only nvcc itself tells this copy's release. The planner starts nothing, and refuses nothing on a guess.
            if basis == Basis::Guess {
                assert!(planner.iter().all(|(severity, _)| *severity > Severity::Error), "{planner:?}");
                continue;
            }
            let doctor = doctor(&env);
            if planner != doctor {
                apart.push(format!("{} {wish:?}: plan {planner:?}, doctor {doctor:?}", file.display()));
            }
        }
    }
    assert!(apart.is_empty(), "{} apart:\n{}", apart.len(), apart.join("\n"));
    assert!(refused > 50 && warned > 2 && taken > 50, "{refused} refused, {warned} warned, {taken} taken");
}
