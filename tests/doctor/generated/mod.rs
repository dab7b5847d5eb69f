//! Machines that are generated from healthy ones by planting one or two faults. The first finding must be a planted cause or one of its
//! listed equivalents, and it must disappear with the fault. Faults are data (`faults.toml`); nothing is random. The snapshots contain
//! every machine on which the doctor is wrong.

mod hosts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubuild_core::{Backend, Version};
use gpubuild_detect::finding::Severity;
use serde::Deserialize;

use crate::diagnose;
use crate::machine::{Machine, Step};

/// One of this many possible single faults is planted.
const SINGLES: u64 = 2;
/// One of this many possible pairs of faults is planted.
const PAIRS: u64 = 110;
/// One of this many machines is examined by the test that always runs.
const SLICE: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    steps: BTreeMap<String, Vec<Step>>,
    fault: Vec<Fault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    id: String,
    backend: String,
    os: String,
    layer: String,
    #[serde(default)]
    hides: Vec<String>,
    right: Vec<String>,
    #[serde(default)]
    asked: bool,
    /// The finding is information: gpubuild works without what is missing, and other build systems do not.
    #[serde(default)]
    noted: bool,
    #[serde(default)]
    when: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    toolkit: Option<[String; 2]>,
    cc: Option<[String; 2]>,
    #[serde(default, rename = "use")]
    uses: Vec<String>,
    #[serde(default)]
    steps: Vec<Step>,
}

impl FaultFile {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/generated/faults.toml");
        let text = std::fs::read_to_string(path).unwrap();
        gpubuild_toml::from_str(&text).unwrap_or_else(|error| panic!("faults.toml: {error}"))
    }

    /// The machine with the fault. `None` if the fault does not apply.
    fn plant(&self, fault: &Fault, machine: &Machine) -> Option<Machine> {
        let has = |pattern: &String| machine.filled(pattern).is_some_and(|pattern| machine.has(&pattern));
        let within = |name: &str, range: &Option<[String; 2]>| {
            let Some([least, below]) = range else { return true };
            let version = |text: &str| Version::find_in(text).unwrap();
            machine.property(name).is_some_and(|found| {
                let found = version(&found);
                found >= version(least) && found < version(below)
            })
        };
        if machine.os().id() != fault.os
            || !fault.when.iter().all(has)
            || fault.unless.iter().any(has)
            || !within("toolkit", &fault.toolkit)
            || !within("cc", &fault.cc)
        {
            return None;
        }
        let shared = fault.uses.iter().flat_map(|name| &self.steps[name]);
        let mut steps = shared.chain(&fault.steps);
        steps.try_fold(machine.clone(), Machine::step)
    }
}

impl Fault {
    fn backend(&self) -> Backend {
        Backend::from_str(&self.backend).unwrap()
    }

    /// Whether this fault and another one may be planted together: they change different layers, and neither hides what the other
    /// changes.
    fn is_independent_of(&self, other: &Self) -> bool {
        let hides = |one: &Self, two: &Self| one.hides.contains(&two.layer);
        self.layer != other.layer && !hides(self, other) && !hides(other, self)
    }
}

/// The errors and warnings of a machine, with those that are listed under another one.
#[derive(Clone, Default)]
struct Answer {
    findings: Vec<String>,
    consequences: Vec<String>,
    notes: Vec<String>,
}

fn examine(machine: &Machine, asked: &BTreeSet<Backend>) -> Answer {
    let asked: Vec<Backend> = asked.iter().copied().collect();
    let found = diagnose(machine, (!asked.is_empty()).then_some(&asked[..]));
    let mut answer = Answer::default();
    let (found, notes): (Vec<_>, Vec<_>) = found.iter().partition(|one| one.severity <= Severity::Warning);
    answer.notes.extend(notes.iter().map(|one| one.id.to_string()));
    for one in found {
        answer.findings.push(one.id.to_string());
        answer.consequences.extend(one.consequences.iter().map(|consequence| consequence.id.to_string()));
    }
    answer
}

/// A generated machine: a host and the indices of its faults.
#[derive(Clone)]
struct Case {
    host: usize,
    faults: Vec<usize>,
}

/// What a case shows.
struct Outcome {
    host: String,
    faults: Vec<usize>,
    first: Option<String>,
    is_right: bool,
    /// Whether the first finding disappears with its fault.
    disappears: bool,
    /// Whether each of two faults is named, as a finding or a consequence.
    names_both: bool,
}

struct Generator {
    file: FaultFile,
    hosts: Vec<(String, Machine)>,
}

/// A number that depends on texts only (FNV-1a).
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Generator {
    fn new() -> Self {
        Self { file: FaultFile::read(), hosts: hosts::all() }
    }

    /// The backends that the user names: those of the faults, if one of them needs it.
    fn asked(&self, faults: &[usize]) -> BTreeSet<Backend> {
        let faults = faults.iter().map(|&fault| &self.file.fault[fault]);
        if faults.clone().any(|fault| fault.asked) {
            faults.map(Fault::backend).collect()
        } else {
            BTreeSet::new()
        }
    }

    fn planted(&self, host: usize, faults: &[usize]) -> Option<Machine> {
        let start = self.hosts[host].1.clone();
        faults.iter().try_fold(start, |machine, &fault| self.file.plant(&self.file.fault[fault], &machine))
    }

    /// The cases of a host: a part of the faults that apply, and a part of their pairs that are independent.
    fn cases(&self, host: usize) -> Vec<Case> {
        let applies = |fault: &usize| self.planted(host, &[*fault]).is_some();
        let single: Vec<usize> = (0..self.file.fault.len()).filter(applies).collect();
        let is_taken = |fault: &&usize| {
            hash(&[&self.hosts[host].0, &self.file.fault[**fault].id]).is_multiple_of(SINGLES)
        };
        let taken = single.iter().filter(is_taken);
        let mut cases: Vec<Case> = taken.map(|&fault| Case { host, faults: vec![fault] }).collect();
        for (index, &one) in single.iter().enumerate() {
            for &two in &single[index + 1..] {
                let (first, second) = (&self.file.fault[one], &self.file.fault[two]);
                let is_taken = hash(&[&self.hosts[host].0, &first.id, &second.id]).is_multiple_of(PAIRS);
                if is_taken && first.is_independent_of(second) {
                    cases.push(Case { host, faults: vec![one, two] });
                }
            }
        }
        cases
    }

    /// Whether each fault of a case still applies after the other one.
    fn is_possible(&self, case: &Case) -> bool {
        let back: Vec<usize> = case.faults.iter().rev().copied().collect();
        self.planted(case.host, &case.faults).is_some() && self.planted(case.host, &back).is_some()
    }

    /// Examines the cases of one host. A case whose faults do not apply together, or whose host is not healthy for its request, is left
    /// out.
    fn examine(&self, cases: &[Case]) -> Vec<Outcome> {
        let mut known: BTreeMap<(Vec<usize>, BTreeSet<Backend>), Answer> = BTreeMap::new();
        let mut answer = |host: usize, faults: &[usize], asked: &BTreeSet<Backend>| -> Answer {
            let key = (faults.to_vec(), asked.clone());
            known
                .entry(key)
                .or_insert_with(|| {
                    self.planted(host, faults).map(|machine| examine(&machine, asked)).unwrap_or_default()
                })
                .clone()
        };
        let mut outcomes = Vec::new();
        for case in cases {
            let asked = self.asked(&case.faults);
            let healthy = answer(case.host, &[], &asked);
            let is_noted_anyway = |&fault: &usize| {
                let fault = &self.file.fault[fault];
                fault.noted && healthy.notes.iter().any(|id| fault.right.contains(id))
            };
            let is_faulty = !healthy.findings.is_empty() || case.faults.iter().any(is_noted_anyway);
            if is_faulty || !self.is_possible(case) {
                continue;
            }
            let found = answer(case.host, &case.faults, &asked);
            let right = |fault: usize, id: &String| self.file.fault[fault].right.contains(id);
            let note = |&fault: &usize| {
                let is_noted = self.file.fault[fault].noted;
                found.notes.iter().find(|id| is_noted && right(fault, id)).cloned()
            };
            let first = found.findings.first().cloned().or_else(|| case.faults.iter().find_map(note));
            let planted =
                first.as_ref().map(|id| case.faults.iter().copied().filter(|&fault| right(fault, id)));
            let planted: Vec<usize> = planted.map(Iterator::collect).unwrap_or_default();
            let disappears = planted.iter().all(|fault| {
                let rest: Vec<usize> = case.faults.iter().copied().filter(|other| other != fault).collect();
                let is_noted = self.file.fault[*fault].noted;
                let mut is_left = |id: &String| {
                    let answer = answer(case.host, &rest, &asked);
                    answer.findings.contains(id) || (is_noted && answer.notes.contains(id))
                };
                let is_of_rest = |id: &String| rest.iter().any(|&other| right(other, id));
                first.as_ref().is_none_or(|id| is_of_rest(id) || !is_left(id))
            });
            let named = |fault: &usize| {
                let listed = found.findings.iter().chain(&found.consequences);
                note(fault).is_some() || listed.into_iter().any(|id| right(*fault, id))
            };
            outcomes.push(Outcome {
                host: self.hosts[case.host].0.clone(),
                faults: case.faults.clone(),
                is_right: !planted.is_empty(),
                names_both: case.faults.iter().all(named),
                disappears,
                first,
            });
        }
        outcomes
    }

    /// Examines one of `every` cases with two threads. The order of the result does not depend on them.
    fn run(&self, every: usize) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let results: Mutex<BTreeMap<usize, Vec<Outcome>>> = Mutex::new(BTreeMap::new());
        let work = || {
            loop {
                let host = next.fetch_add(1, Ordering::Relaxed);
                if host >= self.hosts.len() {
                    return;
                }
                let cases: Vec<Case> =
                    self.cases(host).into_iter().skip(host % every).step_by(every).collect();
                let outcomes = self.examine(&cases);
                results.lock().unwrap().insert(host, outcomes);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        results.into_inner().unwrap().into_values().flatten().collect()
    }

    /// The figures, and every miss.
    fn report(&self, outcomes: &[Outcome]) -> String {
        let name = |faults: &[usize]| {
            faults.iter().map(|&fault| self.file.fault[fault].id.as_str()).collect::<Vec<_>>().join(" + ")
        };
        let (single, pairs): (Vec<_>, Vec<_>) = outcomes.iter().partition(|one| one.faults.len() == 1);
        let right = |list: &[&Outcome]| list.iter().filter(|one| one.is_right).count();
        let used: BTreeSet<usize> = outcomes.iter().flat_map(|one| one.faults.iter().copied()).collect();
        let hosts: BTreeSet<&str> = outcomes.iter().map(|one| one.host.as_str()).collect();
        let mut text = format!(
            "{} hosts, {} faults, {} machines\none fault: {} of {} right\ntwo faults: {} of {} right, both named on {}\nstill reported without the fault: {}\n",
            hosts.len(),
            used.len(),
            outcomes.len(),
            right(&single),
            single.len(),
            right(&pairs),
            pairs.len(),
            pairs.iter().filter(|one| one.names_both).count(),
            outcomes.iter().filter(|one| !one.disappears).count(),
        );
        let mut misses: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for one in outcomes.iter().filter(|one| !one.is_right) {
            let got = one.first.clone().unwrap_or_else(|| "nothing".to_owned());
            misses.entry((name(&one.faults), got)).or_default().push(&one.host);
        }
        text.push_str("\nmisses\n");
        for ((faults, got), hosts) in misses {
            let _ = writeln!(text, "{faults}: {got} on {}: {}", hosts.len(), hosts.join(" "));
        }
        text.push_str("\nstill reported\n");
        for one in outcomes.iter().filter(|one| !one.disappears) {
            let _ = writeln!(
                text,
                "{} on {}: {}",
                name(&one.faults),
                one.host,
                one.first.as_deref().unwrap_or("-")
            );
        }
        text.push_str("\nnot planted\n");
        for (index, fault) in self.file.fault.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
            let _ = writeln!(text, "{index} {}", fault.id);
        }
        text
    }
}

#[test]
fn faults_have_known_causes() {
    let file = FaultFile::read();
    assert!(file.fault.len() >= 120, "{} faults", file.fault.len());
    let mut seen = BTreeSet::new();
    for fault in &file.fault {
        assert!(seen.insert(&fault.id), "two faults `{}`", fault.id);
        let _ = fault.backend();
        for id in &fault.right {
            assert!(crate::FINDINGS.find(id).is_some(), "{}: no finding `{id}`", fault.id);
        }
        assert!(fault.uses.iter().all(|name| file.steps.contains_key(name)), "{}", fault.id);
        assert!(!fault.steps.is_empty() || !fault.uses.is_empty(), "{} changes nothing", fault.id);
    }
}

#[test]
fn hosts_without_a_fault_are_healthy() {
    let mut unhealthy = String::new();
    for (name, machine) in hosts::all() {
        let found = diagnose(&machine, None);
        if let Some(first) = found.first().filter(|one| one.severity <= Severity::Warning) {
            let _ = writeln!(unhealthy, "{name}: {}: {}", first.id, first.summary);
        }
    }
    assert!(unhealthy.is_empty(), "{unhealthy}");
}

#[test]
fn some_generated_machines_show_their_fault_first() {
    let generator = Generator::new();
    let outcomes = generator.run(SLICE);
    insta::assert_snapshot!(generator.report(&outcomes));
}

#[test]
#[ignore = "takes a minute; .ci runs it"]
fn all_generated_machines_show_their_fault_first() {
    let generator = Generator::new();
    let outcomes = generator.run(1);
    assert!(outcomes.len() >= 2000, "{} machines", outcomes.len());
    insta::assert_snapshot!(generator.report(&outcomes));
}
