//! `detect` and the doctor on every recorded host report the same states, and no finding contradicts them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpubuild_core::Backend;
use gpubuild_detect::facts;
use gpubuild_detect::finding::{Affects, EvidenceKind, Finding, Severity};
use gpubuild_detect::matrix::{Matrix, Presence, Probes, Readiness, Reason, Verdict};
use gpubuild_detect::toolkit;
use gpubuild_doctor as doctor;
use gpubuild_doctor::{Assessment, DiagnosisCase, Filter};
use gpubuild_host::{HostInfo, RecordedHost};
use serde_json::Value;

use crate::agreement::recordings;
use crate::{CATALOGUE, FINDINGS};

/// The files of all recorded hosts of the repository.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    recordings(&root.join("tests/hosts"), &mut files);
    for set in
        ["hosts", "hosts-2", "hosts-3", "hosts-4", "hosts-5", "hosts-6", "hosts-7", "hosts-8", "hosts-9"]
    {
        recordings(&root.join("tests/unseen").join(set), &mut files);
    }
    files.retain(|file| !file.ends_with("expected.toml"));
    files.sort();
    assert!(files.len() > 300, "{} recordings", files.len());
    files
}

fn host(file: &Path) -> RecordedHost {
    let text = std::fs::read_to_string(file).unwrap();
    RecordedHost::parse(&file.display().to_string(), &text).unwrap_or_else(|error| panic!("{error}"))
}

/// What a command reports about a host.
struct Report {
    /// The verdicts before the doctor's checks.
    plain: Matrix,
    states: Matrix,
    findings: Vec<Finding>,
    probes: Probes,
}

/// Examines a host as `detect` does (files only), or as the doctor does (with drivers and programs).
fn report(host: &RecordedHost, with_drivers: bool) -> Report {
    let catalogue = &*CATALOGUE;
    let facts = facts::gather(host);
    let mut inventory = toolkit::probe(host, catalogue);
    let mut probes = Probes::new();
    if with_drivers {
        toolkit::query_programs(host, catalogue, &mut inventory);
        probes = toolkit::probe_drivers(host, &Backend::ALL);
    }
    let plain = gpubuild_plan::offer::evaluate(&facts, &inventory, catalogue, &probes);
    let signs = doctor::observe(host, &facts, &inventory, catalogue);
    let case = DiagnosisCase {
        facts: &facts,
        inventory: &inventory,
        catalogue,
        matrix: &plain,
        probes: &probes,
        signs: &signs,
        env: host.env(),
        asked: None,
        project: None,
    };
    let Assessment { findings, matrix } = doctor::assess(&case, &FINDINGS, &Filter::default());
    Report { plain, states: matrix, findings, probes }
}

fn reasons(list: &[Reason]) -> String {
    list.iter().map(|reason| reason.id.as_str()).collect::<Vec<_>>().join(" ")
}

/// Whether a finding about a question of a backend, or one that caused such a finding, rests on the answer of a program or a driver.
fn is_from_an_answer(findings: &[Finding], backend: Backend, affects: Affects) -> bool {
    findings.iter().any(|one| {
        let is_about = one.backend == Some(backend)
            || one.consequences.iter().any(|consequence| consequence.backend == Some(backend));
        let is_answer =
            one.evidence.iter().any(|place| matches!(place.kind, EvidenceKind::Exec | EvidenceKind::Dlopen));
        is_about && one.affects.contains(&affects) && is_answer
    })
}

/// The differences between the states that both commands report. A difference is right if an answer of a driver or a program is its
/// reason, and the report shows the answer.
fn differences(detect: &Report, doctor: &Report) -> Vec<String> {
    let mut found = Vec::new();
    for (before, after) in detect.states.verdicts.iter().zip(&doctor.states.verdicts) {
        let backend = before.backend;
        let is_answered = doctor.probes.contains_key(&backend);
        let by_probe =
            after.devices.iter().any(|gpu| gpu.found_via.iter().any(|via| via.starts_with("probe:")));
        if before.hardware != after.hardware && !(before.hardware != Presence::Present && by_probe) {
            found.push(format!("{backend} hardware: {:?} and {:?}", before.hardware, after.hardware));
        }
        if before.build != after.build && !is_from_an_answer(&doctor.findings, backend, Affects::Build) {
            found.push(format!(
                "{backend} build: {:?} ({}) and {:?} ({})",
                before.build,
                reasons(&before.build_reasons),
                after.build,
                reasons(&after.build_reasons)
            ));
        }
        let is_worse = is_answered
            && (after.run_reasons.iter().any(|reason| reason.id.starts_with("probe."))
                || is_from_an_answer(&doctor.findings, backend, Affects::Run));
        // The driver reports a device, which proves that what the files lack is not needed.
        let is_better = by_probe && after.run.is_possible();
        if before.run != after.run && !is_worse && !is_better {
            found.push(format!(
                "{backend} run: {:?} ({}) and {:?} ({})",
                before.run,
                reasons(&before.run_reasons),
                after.run,
                reasons(&after.run_reasons)
            ));
        }
    }
    found
}

/// What contradicts the states within one report.
fn contradictions(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let questions = |verdict: &Verdict| {
        [
            (Affects::Build, verdict.build, verdict.build_reasons.clone()),
            (Affects::Run, verdict.run, verdict.run_reasons.clone()),
        ]
    };
    // An error is a reason of the state that it concerns.
    for error in report.findings.iter().filter(|one| one.severity == Severity::Error) {
        let own = FINDINGS.get(&error.id).and_then(|entry| entry.backend);
        let backends: Vec<Backend> =
            error.backend.or(own).map_or_else(|| Backend::ALL.to_vec(), |one| vec![one]);
        for affects in error.affects.iter().filter(|one| **one != Affects::Hardware) {
            let states: Vec<Readiness> = backends
                .iter()
                .flat_map(|backend| questions(report.states.verdict(*backend)))
                .filter(|(question, _, _)| question == affects)
                .map(|(_, state, _)| state)
                .collect();
            let is_blocking = |state: &Readiness| matches!(state, Readiness::Blocked | Readiness::Limited);
            if !states.iter().any(is_blocking) {
                found.push(format!("error {} about {affects:?}, states {states:?}", error.id));
            }
        }
    }
    let named: BTreeSet<&str> = report
        .findings
        .iter()
        .flat_map(|one| {
            std::iter::once(one.id.as_str()).chain(one.consequences.iter().map(|under| under.id.as_str()))
        })
        .collect();
    for (plain, states) in report.plain.verdicts.iter().zip(&report.states.verdicts) {
        let backend = states.backend;
        for ((affects, before, _), (_, state, reasons)) in questions(plain).into_iter().zip(questions(states))
        {
            // The checks only add reasons: what gpubuild itself cannot do stays blocked.
            let is_same = match before {
                Readiness::Ready => matches!(state, Readiness::Ready | Readiness::Limited),
                Readiness::Unknown => matches!(state, Readiness::Unknown | Readiness::Blocked),
                Readiness::Blocked | Readiness::Limited => state == before,
            };
            if !is_same {
                found.push(format!("{backend} {affects:?}: {before:?} became {state:?}"));
            }
            // A ready state may have reasons only if it runs on the CPU.
            let without_hardware = states.hardware != Presence::Present;
            if state == Readiness::Ready && !reasons.is_empty() && !without_hardware {
                found.push(format!("{backend} {affects:?} is ready in spite of {}", self::reasons(&reasons)));
            }
            if state == Readiness::Ready {
                continue;
            }
            if reasons.is_empty() {
                found.push(format!("{backend} {affects:?} is {state:?} without a reason"));
            }
            // For absent hardware or another platform there is only a reason, because nothing is wrong.
            let is_absence = |id: &str| id.ends_with(".hardware.absent") || id.ends_with(".platform");
            for reason in reasons.iter().filter(|reason| !is_absence(&reason.id)) {
                if !named.contains(reason.id.as_str()) {
                    found.push(format!(
                        "{backend} {affects:?} is {state:?} by {}, which no finding has",
                        reason.id
                    ));
                }
            }
        }
    }
    found
}

#[test]
fn states_of_detect_and_doctor_are_equal_on_every_recorded_host() {
    let (mut problems, mut limited, mut answered) = (Vec::new(), 0, 0);
    for file in files() {
        let host = host(&file);
        let (detect, doctor) = (report(&host, false), report(&host, true));
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let all = differences(&detect, &doctor).into_iter().map(|text| format!("different: {text}"));
        let all = all
            .chain(contradictions(&detect).into_iter().map(|text| format!("detect: {text}")))
            .chain(contradictions(&doctor).into_iter().map(|text| format!("doctor: {text}")));
        problems.extend(all.map(|text| format!("{name}: {text}")));
        let states = doctor.states.verdicts.iter().flat_map(|verdict| [verdict.build, verdict.run]);
        limited += states.filter(|state| *state == Readiness::Limited).count();
        answered += usize::from(!doctor.probes.is_empty());
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(limited > 30 && answered > 100, "{limited} limited states, {answered} hosts with answers");
}

/// The states in a JSON document of the command.
fn printed(file: &Path, arguments: &[&str]) -> Vec<String> {
    let ran = Command::new(env!("CARGO_BIN_EXE_gpubuild"))
        .args(arguments)
        .args(["--json", "--host"])
        .arg(file)
        .env_remove("GPUBUILD_SET")
        .output()
        .unwrap();
    let document: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let columns = ["hardware", "build", "run"];
    let backends = document["backends"].as_array().unwrap();
    backends
        .iter()
        .map(|one| {
            let states =
                columns.map(|column| format!("{} {}", one[column]["state"], one[column]["findings"]));
            format!("{} {}", one["id"], states.join(" "))
        })
        .collect()
}

#[test]
fn commands_print_the_same_states() {
    let mut limited = 0;
    for file in files().iter().step_by(10) {
        let detect = printed(file, &["detect"]);
        assert_eq!(detect, printed(file, &["doctor", "--offline"]), "{}", file.display());
        assert_eq!(printed(file, &["detect", "--probe"]), printed(file, &["doctor"]), "{}", file.display());
        limited += detect.iter().filter(|line| line.contains("limited")).count();
    }
    assert!(limited > 0, "no state is limited");
}
