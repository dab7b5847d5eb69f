//! Pure: facts x installations x rules -> a verdict per backend.

mod build;
mod hardware;
mod probes;
mod run;
mod words;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Serialize;

use crate::facts::{Facts, Gpu};
use crate::toolkit::{Catalogue, Installation, Inventory};
pub use probes::Probes;
pub use run::is_compatibility;
use words::Case;
pub use words::for_distribution;

/// Is the hardware there?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Presence {
    /// Yes.
    Present,
    /// No.
    Absent,
    /// It cannot be told from here.
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
    /// It cannot be told from here.
    Unknown,
}

/// Why a verdict is what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Id of the finding that explains it.
    pub id: String,
    /// One line: what is missing or wrong.
    pub text: String,
    /// One line: what to do, where it is known.
    pub hint: Option<String>,
    /// The values of the case at hand by name, for whoever tells more than one line: `max` is `13`.
    #[serde(skip)]
    pub values: BTreeMap<String, String>,
    /// The description that it is about, by id.
    #[serde(skip)]
    pub about: Option<String>,
}

impl Reason {
    /// The text with the id at its end, as it stands in lists of reasons.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} [{}]", self.text, self.id)
    }
}

/// The three answers for one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which backend.
    pub backend: Backend,
    /// Is the hardware there?
    pub hardware: Presence,
    /// The devices that this backend can drive, best first.
    pub devices: Vec<Gpu>,
    /// Why there is none, or why it is unknown.
    pub hardware_reasons: Vec<Reason>,
    /// Id of the toolkit that it is built with.
    pub toolkit: Option<String>,
    /// Can it be built for here?
    pub build: Readiness,
    /// Every copy of its toolkit, the chosen one first.
    pub toolkits: Vec<Installation>,
    /// What blocks a build, the root cause first.
    pub build_reasons: Vec<Reason>,
    /// Can it run here?
    pub run: Readiness,
    /// The driver's version as its vendor writes it.
    pub driver: Option<Version>,
    /// What blocks running, the root cause first.
    pub run_reasons: Vec<Reason>,
}

/// All verdicts, in the order of [`Backend::ALL`], and what follows from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// One verdict per backend.
    pub verdicts: Vec<Verdict>,
    /// The backend that a program should run on here: the best whose run state is ready; never a software device before
    /// `cpu`.
    pub recommended_run: Backend,
    /// The backends that `auto` builds: `cpu` and all whose build state is ready.
    pub recommended_build: Vec<Backend>,
}

impl Matrix {
    /// The verdict on a backend.
    ///
    /// # Panics
    /// Never: there is one for every backend.
    #[must_use]
    pub fn verdict(&self, backend: Backend) -> &Verdict {
        self.verdicts.iter().find(|verdict| verdict.backend == backend).expect("a verdict for every backend")
    }
}

impl Verdict {
    /// What blocks a build that needs nothing of the toolkit: the platform, and tools beside it such as the compiler.
    pub fn reasons_beside_toolkit(&self) -> impl Iterator<Item = &Reason> {
        self.build_reasons
            .iter()
            .filter(|reason| reason.about != self.toolkit || reason.id.ends_with(".platform"))
    }
}

/// The order in which a program should prefer backends: what is fastest on the hardware it is made for.
pub const PREFERENCE: [Backend; 6] =
    [Backend::Cuda, Backend::Rocm, Backend::Metal, Backend::Vulkan, Backend::Sycl, Backend::Opencl];

/// Decides. Pure: the same values give the same matrix.
///
/// `probes` are the answers of the drivers themselves, empty where they were not asked: they add devices and details, and their
/// word counts more than what files tell about loaders and device nodes.
#[must_use]
pub fn evaluate(facts: &Facts, inventory: &Inventory, catalogue: &Catalogue, probes: &Probes) -> Matrix {
    let case = Case { facts, inventory, catalogue };
    let mut gpus = facts.gpus.clone();
    let answer = |backend| probes.get(&backend).map(|answer| probes::read(backend, answer));
    let answers: Vec<(Backend, Option<probes::Answer>)> =
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

fn cpu(case: &Case<'_>) -> Verdict {
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

fn verdict(case: &Case<'_>, backend: Backend, gpus: &[Gpu], answer: Option<&probes::Answer>) -> Verdict {
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

/// A backend for which the catalogue has nothing, which takes a `--toolkits` folder that removes it.
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
