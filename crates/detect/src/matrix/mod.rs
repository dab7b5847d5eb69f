//! Derives a verdict per backend from facts, installations and rules. Pure.

mod build;
mod hardware;
mod probes;
mod run;
mod words;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, DiagnosticId};
use crate::facts::{Facts, Gpu};
use crate::toolkit::{Catalogue, Installation, Inventory};
pub use probes::Probes;
pub use run::is_compatibility;
use words::WordCase;
pub use words::for_distribution;

/// Is the hardware present?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Presence {
    /// Yes.
    Present,
    /// No.
    Absent,
    /// It cannot be determined here.
    Unknown,
}

/// Can it be built, can it run?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Readiness {
    /// Yes.
    Ready,
    /// No, for the reasons given.
    Blocked,
    /// It cannot be determined here.
    Unknown,
}

/// A cause for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The id of the finding that explains it.
    pub id: DiagnosticId,
    /// One line: what is missing or wrong.
    pub text: String,
    /// One line: what to do, if known.
    pub hint: Option<String>,
    /// The values of the actual case by name, for reports longer than one line: `max` is `13`.
    #[serde(skip)]
    pub values: BTreeMap<String, String>,
    /// The id of the description that the reason concerns.
    #[serde(skip)]
    pub about: Option<String>,
}

impl Reason {
    /// A reason without a hint.
    pub fn new(id: DiagnosticId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), hint: None, values: BTreeMap::new(), about: None }
    }

    /// With what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The text followed by the id, as in lists of reasons.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} [{}]", self.text, self.id)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl Diagnostic for Reason {
    fn id(&self) -> DiagnosticId {
        self.id
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// The three answers for one backend: hardware, build, run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The backend.
    pub backend: Backend,
    /// Is the hardware present?
    pub hardware: Presence,
    /// The devices that this backend can use, best first.
    pub devices: Vec<Gpu>,
    /// Why hardware is absent or unknown.
    pub hardware_reasons: Vec<Reason>,
    /// The id of the toolkit that builds for this backend.
    pub toolkit: Option<String>,
    /// Can this machine build for it?
    pub build: Readiness,
    /// Every copy of its toolkit, the chosen one first.
    pub toolkits: Vec<Installation>,
    /// What blocks a build, the root cause first.
    pub build_reasons: Vec<Reason>,
    /// Can this machine run it?
    pub run: Readiness,
    /// The driver's version in the vendor's spelling.
    pub driver: Option<Version>,
    /// What blocks running, the root cause first.
    pub run_reasons: Vec<Reason>,
}

/// All verdicts, in the order of [`Backend::ALL`], and the recommendations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// One verdict per backend.
    pub verdicts: Vec<Verdict>,
    /// The backend that a program should use here: the best one that is ready to run on present hardware, or else
    /// `cpu`. A software device is never recommended.
    pub recommended_run: Backend,
    /// The backends that `auto` builds: `cpu` and all whose build state is ready.
    pub recommended_build: Vec<Backend>,
}

impl Matrix {
    /// The verdict for a backend.
    ///
    /// # Panics
    /// Never: every backend has a verdict.
    #[must_use]
    pub fn verdict(&self, backend: Backend) -> &Verdict {
        self.verdicts.iter().find(|verdict| verdict.backend == backend).expect("a verdict for every backend")
    }
}

impl Verdict {
    /// What would block a build that needs no part of the toolkit: the platform, and tools such as the compiler.
    pub fn reasons_beside_toolkit(&self) -> impl Iterator<Item = &Reason> {
        self.build_reasons
            .iter()
            .filter(|reason| reason.about != self.toolkit || reason.id.ends_with(".platform"))
    }
}

/// The backends that a program should prefer, in order: the fastest on its vendor's hardware first.
pub const PREFERENCE: [Backend; 6] =
    [Backend::Cuda, Backend::Rocm, Backend::Metal, Backend::Vulkan, Backend::Sycl, Backend::Opencl];

/// Evaluates the rules. Pure: the same values give the same matrix.
///
/// `probes` are the drivers' answers, empty if they were not probed. They add devices and details, and take precedence over what
/// files show about loaders and device nodes.
#[must_use]
pub fn evaluate(facts: &Facts, inventory: &Inventory, catalogue: &Catalogue, probes: &Probes) -> Matrix {
    let case = WordCase { facts, inventory, catalogue };
    let mut gpus = facts.gpus.clone();
    let answer = |backend| probes.get(&backend).map(|answer| probes::read(backend, answer));
    let answers: Vec<(Backend, Option<probes::ParsedAnswer>)> =
        Backend::ALL.into_iter().map(|backend| (backend, answer(backend))).collect();
    for (_, answer) in &answers {
        probes::merge(&mut gpus, answer.as_ref().map_or(&[], |answer| &answer.devices));
    }
    let verdicts: Vec<Verdict> = answers
        .iter()
        .map(|(backend, answer)| match backend {
            Backend::Cpu => cpu(&case),
            _ => verdict(&case, *backend, &gpus, answer.as_ref()),
        })
        .collect();
    let usable = |backend: Backend| {
        verdicts.iter().any(|verdict| {
            verdict.backend == backend
                && verdict.run == Readiness::Ready
                && verdict.hardware == Presence::Present
        })
    };
    let recommended_run = PREFERENCE.into_iter().find(|backend| usable(*backend)).unwrap_or(Backend::Cpu);
    let recommended_build = verdicts
        .iter()
        .filter(|verdict| verdict.backend == Backend::Cpu || verdict.build == Readiness::Ready)
        .map(|verdict| verdict.backend)
        .collect();
    Matrix { verdicts, recommended_run, recommended_build }
}

fn cpu(case: &WordCase<'_>) -> Verdict {
    let build_reasons = build::cpu(case);
    let compiler = case.inventory.for_role(case.catalogue, "host-compiler");
    Verdict {
        backend: Backend::Cpu,
        hardware: Presence::Present,
        devices: Vec::new(),
        hardware_reasons: Vec::new(),
        toolkit: None,
        build: readiness(&build_reasons),
        toolkits: compiler.cloned().into_iter().collect(),
        build_reasons,
        run: Readiness::Ready,
        driver: None,
        run_reasons: Vec::new(),
    }
}

fn verdict(
    case: &WordCase<'_>,
    backend: Backend,
    gpus: &[Gpu],
    answer: Option<&probes::ParsedAnswer>,
) -> Verdict {
    let Some(description) = case.catalogue.for_backend(backend) else {
        return undescribed(backend);
    };
    let runtime = case.inventory.runtimes.get(&backend);
    let probed = answer.map_or(&[][..], |answer| &answer.devices);
    let hardware = hardware::evaluate(case, description, runtime, gpus, probed);
    let real: Vec<&Gpu> = hardware.real().collect();
    let build_reasons = build::evaluate(case, description, &real);
    let mut run = run::evaluate(case, description, runtime, &hardware, answer);
    if let Some(answer) = answer {
        run::apply(case, description, &mut run, &hardware, answer);
    }
    Verdict {
        backend,
        hardware: hardware.state,
        hardware_reasons: hardware.reasons,
        devices: hardware.devices,
        toolkit: Some(description.id.clone()),
        build: readiness(&build_reasons),
        toolkits: case.inventory.of(&description.id).to_vec(),
        build_reasons,
        run: run.state,
        driver: run.driver,
        run_reasons: run.reasons,
    }
}

/// A backend without a description, which is only possible if a `--toolkits` folder removes it.
fn undescribed(backend: Backend) -> Verdict {
    Verdict {
        backend,
        hardware: Presence::Unknown,
        devices: Vec::new(),
        hardware_reasons: Vec::new(),
        toolkit: None,
        build: Readiness::Unknown,
        toolkits: Vec::new(),
        build_reasons: Vec::new(),
        run: Readiness::Unknown,
        driver: None,
        run_reasons: Vec::new(),
    }
}

fn readiness(reasons: &[Reason]) -> Readiness {
    if reasons.is_empty() { Readiness::Ready } else { Readiness::Blocked }
}
