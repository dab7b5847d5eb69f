//! Derives a verdict per backend from facts, installations and rules, without I/O.

mod build;
mod hardware;
mod probes;
mod reasons;
mod run;
mod variables;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, DiagnosticId};
use crate::facts::{Facts, Gpu};
use crate::toolkit::{Catalogue, Installation, Inventory};
pub use probes::Probes;
use reasons::RuleInput;
pub(crate) use reasons::driver_commands;
pub use reasons::{driver_command, for_distribution, install_command, toolkit_commands};
pub use run::is_compatibility;
pub use variables::is_of_architectures;

/// Whether the hardware of a backend is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Presence {
    /// The hardware is present.
    Present,
    /// The hardware is absent.
    Absent,
    /// It cannot be determined on this machine.
    Unknown,
}

/// Whether a backend can be built, or can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Readiness {
    /// It can.
    Ready,
    /// gpubuild can, but other build systems, programs or devices cannot, for the reasons given. Only the doctor's checks find this.
    Limited,
    /// It cannot, for the reasons given.
    Blocked,
    /// It cannot be determined on this machine.
    Unknown,
}

impl Readiness {
    /// Whether gpubuild can build for the backend, or run it.
    #[must_use]
    pub fn is_possible(self) -> bool {
        matches!(self, Self::Ready | Self::Limited)
    }
}

/// A reason for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The id of the finding that explains it.
    pub id: DiagnosticId,
    /// The problem, in one line.
    pub text: String,
    /// How to fix it, in one line, if known.
    pub hint: Option<String>,
    /// The placeholder values of the actual case, for detailed reports: `max` is `13`.
    #[serde(skip)]
    pub values: BTreeMap<String, String>,
    /// The id of the description that the reason concerns.
    #[serde(skip)]
    pub about: Option<String>,
}

impl Reason {
    /// Creates a reason without a hint.
    pub fn new(id: DiagnosticId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), hint: None, values: BTreeMap::new(), about: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The text followed by the id in brackets, for lists of reasons.
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

/// The verdict on one backend: hardware, build and run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The backend.
    pub backend: Backend,
    /// Whether the hardware is present.
    pub hardware: Presence,
    /// The devices that this backend can use, best first.
    pub devices: Vec<Gpu>,
    /// Why the hardware is absent or unknown.
    pub hardware_reasons: Vec<Reason>,
    /// The id of the toolkit that builds for this backend.
    pub toolkit: Option<String>,
    /// Whether this machine can build for the backend.
    pub build: Readiness,
    /// All copies of its toolkit, the chosen one first.
    pub toolkits: Vec<Installation>,
    /// Reasons that block a build, the root cause first.
    pub build_reasons: Vec<Reason>,
    /// Whether this machine can run the backend.
    pub run: Readiness,
    /// The driver's version as the vendor writes it.
    pub driver: Option<Version>,
    /// Reasons that block running, the root cause first.
    pub run_reasons: Vec<Reason>,
}

/// All verdicts, in the order of [`Backend::ALL`], and the recommendations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// One verdict per backend.
    pub verdicts: Vec<Verdict>,
    /// The backend that a program should use on this machine: the first one of [`PREFERENCE`] that is ready to run on present
    /// hardware, otherwise `cpu`. Software devices are never recommended.
    pub recommended_run: Backend,
    /// The backends that `auto` builds: `cpu` and all backends that are ready to build.
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
    /// Reasons that would block a build even if the toolkit was installed: the platform, and tools such as the compiler.
    pub fn reasons_beside_toolkit(&self) -> impl Iterator<Item = &Reason> {
        self.build_reasons
            .iter()
            .filter(|reason| reason.about != self.toolkit || reason.id.ends_with(".platform"))
    }
}

/// GPU backends in order of preference, by expected performance on the hardware of their vendor.
pub const PREFERENCE: [Backend; 6] =
    [Backend::Cuda, Backend::Rocm, Backend::Metal, Backend::Vulkan, Backend::Sycl, Backend::Opencl];

/// Evaluates the rules. The result depends only on the arguments.
///
/// `probes` are the answers of the drivers; empty if they were not probed. They add devices and properties, and take precedence over
/// files that describe loaders and device nodes.
#[must_use]
pub fn evaluate(facts: &Facts, inventory: &Inventory, catalogue: &Catalogue, probes: &Probes) -> Matrix {
    let input = RuleInput { facts, inventory, catalogue };
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
            Backend::Cpu => cpu(&input),
            _ => verdict(&input, *backend, &gpus, answer.as_ref()),
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

fn cpu(input: &RuleInput<'_>) -> Verdict {
    let mut build_reasons = build::cpu(input);
    build_reasons.extend(variables::general(input));
    let compiler = input.inventory.for_role(input.catalogue, "host-compiler");
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
    input: &RuleInput<'_>,
    backend: Backend,
    gpus: &[Gpu],
    answer: Option<&probes::ParsedAnswer>,
) -> Verdict {
    let Some(description) = input.catalogue.for_backend(backend) else {
        return undescribed(backend);
    };
    let runtime = input.inventory.runtimes.get(&backend);
    let probed = answer.map_or(&[][..], |answer| &answer.devices);
    let hardware = hardware::evaluate(input, description, runtime, gpus, probed);
    let real: Vec<&Gpu> = hardware.real().collect();
    let mut build_reasons = build::evaluate(input, description, &real);
    build_reasons.extend(variables::evaluate(input, description, backend));
    let mut run = run::evaluate(input, description, runtime, &hardware, answer);
    if let Some(answer) = answer {
        run::apply(input, description, &mut run, &hardware, answer);
    }
    Verdict {
        backend,
        hardware: hardware.state,
        hardware_reasons: hardware.reasons,
        devices: hardware.devices,
        toolkit: Some(description.id.clone()),
        build: readiness(&build_reasons),
        toolkits: input.inventory.of(&description.id).to_vec(),
        build_reasons,
        run: run.state,
        driver: run.driver,
        run_reasons: run.reasons,
    }
}

/// The verdict on a backend without a description, which is only possible if a `--toolkits` folder removes it.
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
