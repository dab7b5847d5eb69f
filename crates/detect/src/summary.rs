//! One line per backend: whether a program can use it on this machine, with which device, or why not.

use std::fmt;

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;

use crate::facts::{Facts, Gpu};
use crate::matrix::{Matrix, Presence, Readiness, Reason, Verdict};

/// The state of all backends in a few lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSummary {
    /// One line per backend.
    pub lines: Vec<SummaryLine>,
    /// The backend that a program should use.
    pub recommended: Backend,
}

/// The state of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryLine {
    /// The backend.
    pub backend: Backend,
    /// Whether a program can use it.
    pub state: BackendState,
    /// Its devices and its driver, or the reason why it cannot be used.
    pub detail: String,
}

/// Whether a program can use a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// It can.
    Ready,
    /// It can, but other programs or some devices cannot.
    Limited,
    /// The hardware is there, but it cannot.
    Blocked,
    /// The hardware is absent.
    Absent,
    /// It cannot be determined.
    Unknown,
}

impl BackendState {
    /// Its name in the summary.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Limited => "limited",
            Self::Blocked => "blocked",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

/// The summary of some backends of a matrix.
#[must_use]
pub fn summary(facts: &Facts, matrix: &Matrix, backends: &[Backend]) -> BackendSummary {
    let shown = matrix.verdicts.iter().filter(|verdict| backends.contains(&verdict.backend));
    BackendSummary {
        lines: shown.map(|verdict| line(facts, verdict)).collect(),
        recommended: matrix.recommended_run,
    }
}

fn line(facts: &Facts, verdict: &Verdict) -> SummaryLine {
    let first = |reasons: &[Reason]| reasons.first().map(|reason| clean::line(&reason.text).into_owned());
    let (state, detail) = match (verdict.run, verdict.hardware) {
        (Readiness::Ready, Presence::Absent) if !verdict.devices.is_empty() => {
            (BackendState::Ready, devices(verdict))
        }
        (Readiness::Ready, _) if verdict.backend == Backend::Cpu => (BackendState::Ready, processor(facts)),
        (_, Presence::Absent) => (BackendState::Absent, first(&verdict.hardware_reasons)),
        (Readiness::Ready, _) => (BackendState::Ready, devices(verdict)),
        (Readiness::Limited, _) => (BackendState::Limited, first(&verdict.run_reasons)),
        (Readiness::Blocked, _) => (BackendState::Blocked, first(&verdict.run_reasons)),
        (Readiness::Unknown, _) => {
            (BackendState::Unknown, first(&verdict.run_reasons).or_else(|| first(&verdict.hardware_reasons)))
        }
    };
    SummaryLine { backend: verdict.backend, state, detail: detail.unwrap_or_default() }
}

/// `AMD Ryzen 7 5800X 8-Core Processor, 16 threads`.
fn processor(facts: &Facts) -> Option<String> {
    let name = facts.cpu.name.as_ref().map(|name| clean::line(name).into_owned());
    let threads = facts.cpu.threads.map(|threads| format!("{threads} threads"));
    let words: Vec<String> = name.into_iter().chain(threads).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `2 x NVIDIA H200 (140.4 GiB), driver 580.65.06`.
fn devices(verdict: &Verdict) -> Option<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for name in verdict.devices.iter().map(device) {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    let name = |(name, count): &(String, usize)| match count {
        1 => name.clone(),
        count => format!("{count} x {name}"),
    };
    let mut words: Vec<String> = counted.iter().map(name).collect();
    words.extend(verdict.driver.as_ref().map(|driver| format!("driver {driver}")));
    (!words.is_empty()).then(|| words.join(", "))
}

fn device(gpu: &Gpu) -> String {
    let name = clean::line(&gpu.name);
    match gpu.memory_bytes {
        Some(bytes) => format!("{name} ({:.1} GiB)", gibibytes(bytes)),
        None => name.into_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

impl fmt::Display for BackendSummary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let text = format!("{:<8} {:<8} {}", line.backend.id(), line.state.id(), line.detail);
            writeln!(out, "{}", text.trim_end())?;
        }
        write!(out, "recommended: {}", self.recommended)
    }
}
