//! Checks before a build whether it can finish: toolkits, compilers, the C library, disk and memory.
//!
//! A check is `bad` only if the failure is certain. An estimate is `doubtful`, a value that cannot be determined is `unknown`; neither
//! stops the build.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::plan::make::PlanRefusal;
use gpubuild_plan::plan::{Plan, bytes};
use gpubuild_toolchain::provision;
use serde::Serialize;

/// What is expected of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// It is enough.
    Good,
    /// It cannot be determined.
    Unknown,
    /// It may not be enough.
    Doubtful,
    /// It is not enough.
    Bad,
}

/// What is expected of one thing, with the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreflightCheck {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// `disk`, `memory`, `toolkit`.
    pub what: &'static str,
    /// The expectation.
    pub outlook: Outlook,
    /// One line.
    pub text: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Bytes that a configured tree with nothing in it takes: below it, no build comes anywhere.
const LEAST_BUILD: u64 = 64 << 20;
/// Bytes that a build takes at least per backend that compiles for GPUs, as far as was seen.
const LIKELY_DEVICE_BUILD: u64 = 1 << 30;

/// Bytes that one compiler may take.
const LEAST_MEMORY: u64 = 512 << 20;

/// Compares a plan, or its refusal, with the machine.
#[must_use]
pub fn foresee(
    host: &dyn WriteFiles,
    facts: &Facts,
    build_root: &HostPath,
    plan: Result<&Plan, &PlanRefusal>,
) -> Vec<PreflightCheck> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(refusal) => return refused(refusal),
    };
    let backends: Vec<&str> = plan.backends.iter().map(|backend| backend.id()).collect();
    let mut checks = vec![PreflightCheck {
        id: id!("preflight.toolkits"),
        what: "toolkits",
        outlook: Outlook::Good,
        text: format!("{} can be built: toolkits, compilers and C library go together", backends.join(", ")),
        hint: None,
    }];
    checks.extend(disk(host, build_root, plan));
    checks.push(memory(facts, plan));
    checks
}

fn refused(refusal: &PlanRefusal) -> Vec<PreflightCheck> {
    let blocked =
        refusal.blocked.iter().filter_map(|(backend, reasons)| Some((Some(backend), reasons.first()?)));
    let all = refusal.project.iter().map(|reason| (None, reason)).chain(blocked);
    all.map(|(backend, reason)| PreflightCheck {
        id: reason.id,
        what: backend.map_or("project", |backend| backend.id()),
        outlook: Outlook::Bad,
        text: reason.text.clone(),
        hint: reason.hint.clone(),
    })
    .collect()
}

/// The folder above that is there: a build folder need not be yet.
fn existing(host: &dyn ReadFiles, folder: &HostPath) -> HostPath {
    let mut folder = folder.clone();
    while !host.exists(&folder) {
        let Some(parent) = folder.parent() else { break };
        folder = parent;
    }
    folder
}

fn disk(host: &dyn WriteFiles, build_root: &HostPath, plan: &Plan) -> Vec<PreflightCheck> {
    let mut checks = Vec::new();
    let device = plan.trees.iter().flat_map(|tree| &tree.backends).filter(|backend| {
        matches!(
            backend,
            gpubuild_core::Backend::Cuda | gpubuild_core::Backend::Rocm | gpubuild_core::Backend::Sycl
        )
    });
    let likely = LEAST_BUILD + LIKELY_DEVICE_BUILD * device.count() as u64;
    checks.push(room(host, build_root, "the build", LEAST_BUILD, likely));
    let toolkits = provision::disk_bytes(&plan.provision);
    if let (true, Some(folder)) = (toolkits > 0, gpubuild_host::folders::toolkit_folder(host)) {
        // The wheels themselves have to be there for certain, what they grow to is an upper bound.
        let wheels = plan.provision.iter().map(|one| one.download_bytes).sum();
        checks.push(room(host, &folder, "toolkits", wheels, toolkits));
    }
    checks
}

fn room(host: &dyn WriteFiles, folder: &HostPath, what: &str, certain: u64, likely: u64) -> PreflightCheck {
    let folder = existing(host, folder);
    let Some(free) = host.free_space(&folder) else {
        return PreflightCheck {
            id: id!("disk.unknown"),
            what: "disk",
            outlook: Outlook::Unknown,
            text: format!("the free space in `{folder}` is unknown; {what} may need {}", bytes::show(likely)),
            hint: None,
        };
    };
    let (outlook, needs) = match free {
        free if free < certain => (Outlook::Bad, format!("{what} takes at least {}", bytes::show(certain))),
        free if free < likely => (Outlook::Doubtful, format!("{what} may take {}", bytes::show(likely))),
        _ => (Outlook::Good, format!("{what} may take {}", bytes::show(likely))),
    };
    PreflightCheck {
        id: id!("disk.full"),
        what: "disk",
        outlook,
        text: format!("{} free in `{folder}`; {needs}", bytes::show(free)),
        hint: (outlook > Outlook::Unknown)
            .then(|| "free some space, or set GPUBUILD_CACHE to a folder on a larger disk".to_owned()),
    }
}

/// The planner has fitted the jobs to the memory; where not even one fits, that is a guess about the compiler.
fn memory(facts: &Facts, plan: &Plan) -> PreflightCheck {
    let check =
        |outlook, text, hint| PreflightCheck { id: id!("memory.short"), what: "memory", outlook, text, hint };
    let reasons: Vec<&str> = plan.trees.iter().map(|tree| tree.jobs.reason.as_str()).collect();
    let Some(available) = facts.memory.available_bytes else {
        return check(Outlook::Unknown, "the available memory is unknown".to_owned(), None);
    };
    if available < LEAST_MEMORY {
        return check(
            Outlook::Doubtful,
            format!(
                "{} available, and one compiler may need {}",
                bytes::show(available),
                bytes::show(LEAST_MEMORY)
            ),
            Some("close other programs, or add swap".to_owned()),
        );
    }
    let reason = reasons.first().map(|reason| format!("; {reason}")).unwrap_or_default();
    check(Outlook::Good, format!("{} available{reason}", bytes::show(available)), None)
}
