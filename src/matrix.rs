//! Pure: facts x installations x rules -> a verdict per backend.

use serde::Serialize;

use crate::backend::Backend;
use crate::facts::Gpu;
use crate::toolkit::Installation;
use crate::version::Version;

/// Is the hardware there?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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
pub enum Readiness {
    /// Yes.
    Ready,
    /// No, for the reasons given.
    Blocked,
    /// It cannot be told from here.
    Unknown,
}

/// Why a verdict is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Id of the finding that explains it.
    pub id: String,
    /// One line: what is missing or wrong.
    pub text: String,
    /// One line: what to do, where it is known.
    pub hint: Option<String>,
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
