//! Checks before a build whether it can succeed: toolkits, compilers, the C library, disk and memory.
//!
//! A check is `bad` only if the failure is certain. If an estimate predicts a failure, it is `doubtful`; if a value cannot be determined,
//! it is `unknown`. Neither stops the build.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::plan::make::PlanRefusal;
use gpubuild_plan::plan::{Plan, bytes};
use gpubuild_toolchain::provision;
use serde::Serialize;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// The resource is sufficient.
    Good,
    /// The resource cannot be determined.
    Unknown,
    /// The resource may be insufficient.
    Doubtful,
    /// The resource is insufficient.
    Bad,
}

/// A check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PreflightCheck {
    /// The id of the finding.
    pub id: DiagnosticId,
    /// What is checked: `toolkits`, `disk`, `memory`, `project`, or a backend's id.
    pub what: &'static str,
    /// The outcome.
    pub outlook: Outlook,
    /// The explanation with the numbers, in one line.
    pub text: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The size of a configured, empty build tree in bytes. With less free space, every build fails.
const MIN_BUILD: u64 = 64 << 20;
/// The smallest measured size in bytes of a build tree, per backend with device code.
const LIKELY_DEVICE_BUILD: u64 = 1 << 30;

/// The memory that one compiler process may need, in bytes.
const MIN_MEMORY: u64 = 512 << 20;

/// Checks a plan, or the reasons why there is none, against the machine.
#[must_use]
pub fn check(
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
        text: format!(
            "{} can be built: toolkits, compilers and C library are compatible",
            backends.join(", ")
        ),
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

/// The folder or its nearest existing parent, because the build folder may not exist yet.
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
    let likely = MIN_BUILD + LIKELY_DEVICE_BUILD * device.count() as u64;
    checks.push(disk_space(host, build_root, "the build", MIN_BUILD, likely));
    let toolkits = provision::disk_bytes(&plan.provision);
    if let (true, Some(folder)) = (toolkits > 0, gpubuild_host::folders::toolkit_folder(host)) {
        // The size of the wheels is a lower bound, their unpacked size an upper bound.
        let wheels = plan.provision.iter().map(|one| one.download_bytes).sum();
        checks.push(disk_space(host, &folder, "toolkits", wheels, toolkits));
    }
    checks
}

fn disk_space(
    host: &dyn WriteFiles,
    folder: &HostPath,
    what: &str,
    certain: u64,
    likely: u64,
) -> PreflightCheck {
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
        free if free < certain => (Outlook::Bad, format!("{what} needs at least {}", bytes::show(certain))),
        free if free < likely => (Outlook::Doubtful, format!("{what} may need {}", bytes::show(likely))),
        _ => (Outlook::Good, format!("{what} may need {}", bytes::show(likely))),
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

/// The planner has limited the jobs to the memory. Too little memory for a single job is only `doubtful`, because the compiler's needs are
/// an estimate.
fn memory(facts: &Facts, plan: &Plan) -> PreflightCheck {
    let check =
        |outlook, text, hint| PreflightCheck { id: id!("memory.short"), what: "memory", outlook, text, hint };
    let Some(available) = facts.memory.available_bytes else {
        return check(Outlook::Unknown, "the available memory is unknown".to_owned(), None);
    };
    if available < MIN_MEMORY {
        return check(
            Outlook::Doubtful,
            format!(
                "{} available, but one compiler process may need {}",
                bytes::show(available),
                bytes::show(MIN_MEMORY)
            ),
            Some("close other programs, or add swap".to_owned()),
        );
    }
    // The reason for the number of jobs names the available memory.
    let text = plan.trees.first().map(|tree| tree.jobs.reason.clone());
    check(Outlook::Good, text.unwrap_or_else(|| format!("{} available", bytes::show(available))), None)
}
