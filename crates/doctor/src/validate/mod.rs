//! Validation: compiles, links and runs a small program per backend with the selected toolchain, in child processes.
//!
//! [`plan`] is pure and returns the commands; [`run`] executes them in a temporary folder and reports the stage that failed.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Verdict};
use gpubuild_detect::toolkit::description::{PipelineStage, Validate, is_on};
use gpubuild_detect::toolkit::{Catalogue, Description, Installation, Inventory};
use gpubuild_host::{Command, Host, HostPath, Os, RunError, RunPrograms};
use serde::Serialize;

/// Embedded test programs by file name.
const PROGRAMS: &[(&str, &str)] = &[
    ("cpu.c", include_str!("programs/cpu.c")),
    ("cuda.cu", include_str!("programs/cuda.cu")),
    ("hip.cpp", include_str!("programs/hip.cpp")),
    ("metal.mm", include_str!("programs/metal.mm")),
    ("opencl.c", include_str!("programs/opencl.c")),
    ("sycl.cpp", include_str!("programs/sycl.cpp")),
    ("vulkan.c", include_str!("programs/vulkan.c")),
    ("vulkan.comp", include_str!("programs/vulkan.comp")),
];

/// A compiler can take minutes; a program that adds two arrays must not.
const COMPILE_DEADLINE: Duration = Duration::from_secs(180);
const RUN_DEADLINE: Duration = Duration::from_secs(30);

/// Input of a validation plan.
#[derive(Clone, Copy)]
pub struct ValidationContext<'a> {
    /// Detected toolkits, tools and runtimes.
    pub inventory: &'a Inventory,
    /// Toolkit descriptions, which contain the commands.
    pub catalogue: &'a Catalogue,
    /// The verdict of each backend.
    pub matrix: &'a Matrix,
    /// Operating system of the host.
    pub os: Os,
}

/// The commands that validate one backend. Paths in the temporary folder are placeholders such as `{source}`, which [`run`]
/// fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationTrial {
    /// The backend.
    pub backend: Backend,
    /// Names and contents of the source files.
    pub files: Vec<(&'static str, &'static str)>,
    /// Compile and link commands with their stage, in order.
    pub steps: Vec<(PipelineStage, Vec<String>)>,
    /// Whether the program takes the path of the compiled shader as its argument.
    pub takes_shader: bool,
}

/// Result of a validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialOutcome {
    /// The backend.
    pub backend: Backend,
    /// Whether the program ran and computed the correct result.
    pub ok: bool,
    /// The stage that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<PipelineStage>,
    /// The device that the program ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Why the backend was skipped, or the error message of the failed command.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The failed command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Complete output of the failed command.
    #[serde(skip)]
    pub output: String,
}

impl TrialOutcome {
    fn new(backend: Backend) -> Self {
        Self {
            backend,
            ok: false,
            failed: None,
            device: None,
            message: String::new(),
            command: Vec::new(),
            output: String::new(),
        }
    }

    /// The outcome of a backend that cannot be validated.
    #[must_use]
    pub fn untried(backend: Backend, why: String) -> Self {
        Self { message: why, ..Self::new(backend) }
    }

    /// The finding for a failed stage; `None` if no stage failed.
    #[must_use]
    pub fn draft(&self) -> Option<FindingDraft> {
        let stage = self.failed?;
        let (id, affects) = match stage {
            PipelineStage::Compile => (id!("validate.compile-failed"), Affects::Build),
            PipelineStage::Link => (id!("validate.link-failed"), Affects::Build),
            PipelineStage::Run if self.message.starts_with("result:") => {
                (id!("validate.wrong-result"), Affects::Run)
            }
            PipelineStage::Run => (id!("validate.run-failed"), Affects::Run),
        };
        let evidence = Evidence::new(EvidenceKind::Exec, self.command.join(" "), self.message.clone());
        let backend = self.backend.id();
        Some(
            FindingDraft::new(id)
                .backend(self.backend)
                .affects(affects)
                .value("backend", backend)
                .value("message", self.message.clone())
                .evidence(evidence),
        )
    }
}

/// Plans the validation of a backend.
///
/// # Errors
/// The reason why the backend cannot be validated on this machine.
pub fn plan(context: &ValidationContext<'_>, backend: Backend) -> Result<ValidationTrial, String> {
    let verdict = context.matrix.verdict(backend);
    let (description, copy) = chosen(context, backend).ok_or_else(|| {
        verdict
            .build_reasons
            .first()
            .map_or("no toolkit to build with".to_owned(), gpubuild_detect::matrix::Reason::line)
    })?;
    let rules = rules(context, description, backend)?;
    let host = |part: &str| {
        let compiler = context.inventory.for_role(context.catalogue, "host-compiler")?;
        compiler.part(part).map(ToString::to_string)
    };
    let placeholders = TrialPlaceholders {
        copy,
        host_cc: host("program"),
        host_cxx: cxx(context, description, copy).or_else(|| host("cxx")),
        arch: arch(verdict),
    };
    let steps = rules
        .steps
        .iter()
        .filter(|step| is_on(&step.on, context.os))
        .map(|step| Ok((step.stage, placeholders.fill(&step.argv)?)))
        .collect::<Result<Vec<_>, String>>()?;
    let names = std::iter::once(&rules.source).chain(&rules.shader);
    let files = names.filter_map(|name| PROGRAMS.iter().find(|(known, _)| known == name).copied()).collect();
    Ok(ValidationTrial { backend, files, steps, takes_shader: rules.shader.is_some() })
}

fn chosen<'a>(
    context: &ValidationContext<'a>,
    backend: Backend,
) -> Option<(&'a Description, &'a Installation)> {
    if backend == Backend::Cpu {
        let compiler = context.inventory.for_role(context.catalogue, "host-compiler")?;
        return Some((context.catalogue.get(&compiler.toolkit)?, compiler));
    }
    let description = context.catalogue.for_backend(backend)?;
    Some((description, context.inventory.chosen(&description.id)?))
}

/// The `validate` section of the description. The CPU backend uses the first host compiler description that has one.
fn rules<'a>(
    context: &ValidationContext<'a>,
    description: &'a Description,
    backend: Backend,
) -> Result<&'a Validate, String> {
    let any = || context.catalogue.with_role("host-compiler").find_map(|one| one.validate.as_ref());
    let found = match backend {
        Backend::Cpu => any(),
        _ => description.validate.as_ref(),
    };
    let rules = found.ok_or_else(|| format!("the description of {} has no `validate`", description.name))?;
    if !is_on(&rules.on, context.os) {
        return Err(format!(
            "not validated on {}: the compiler needs a developer prompt",
            context.os.label()
        ));
    }
    Ok(rules)
}

/// The newest C++ compiler on the host that this toolkit supports; builds make the same choice.
fn cxx(context: &ValidationContext<'_>, description: &Description, copy: &Installation) -> Option<String> {
    let mut families: Vec<&Description> = context.catalogue.with_role("host-compiler").collect();
    families.sort_indirect_by_key(|family| family.preference);
    families.into_iter().find_map(|family| {
        let window = description.host_compiler_window(copy, &family.id)?;
        let fits = |one: &&Installation| one.is_complete() && window.supports(one.version(), &family.id);
        let copies = context.inventory.of(&family.id).iter().filter(fits);
        let best = copies
            .max_by(|left, right| left.chosen.cmp(&right.chosen).then(left.version().cmp(&right.version())));
        best?.part("cxx").map(ToString::to_string)
    })
}

fn arch(verdict: &Verdict) -> Option<String> {
    let real = verdict.devices.iter().find(|gpu| gpu.vendor != Vendor::Software);
    real.and_then(|gpu| gpu.arch.clone())
}

struct TrialPlaceholders<'a> {
    copy: &'a Installation,
    host_cc: Option<String>,
    host_cxx: Option<String>,
    arch: Option<String>,
}

/// Placeholders that [`run`] fills in.
const LATER: [&str; 5] = ["source", "object", "program", "shader", "shader_object"];
/// Placeholders whose argument is dropped if they have no value.
const OPTIONAL: [&str; 2] = ["host_cxx", "arch"];

impl TrialPlaceholders<'_> {
    fn fill(&self, arguments: &[String]) -> Result<Vec<String>, String> {
        let mut filled = Vec::new();
        for argument in arguments {
            let Some((before, rest)) = argument.split_once('{') else {
                filled.push(argument.clone());
                continue;
            };
            let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
            if LATER.contains(&name) {
                filled.push(argument.clone());
                continue;
            }
            match self.value(name) {
                Some(value) => filled.push(format!("{before}{value}{after}")),
                None if OPTIONAL.contains(&name) && (before, after) != ("", "") => {}
                None => {
                    return Err(format!("cannot be validated: `{name}` of {} is missing", self.copy.root));
                }
            }
        }
        Ok(filled)
    }

    fn value(&self, name: &str) -> Option<String> {
        match name {
            "root" => Some(self.copy.root.to_string()),
            "host_cc" => self.host_cc.clone(),
            "host_cxx" => self.host_cxx.clone(),
            "arch" => self.arch.clone(),
            part => self.copy.part(part).map(ToString::to_string),
        }
    }
}

/// Runs a validation in a temporary folder under `parent`, which is removed afterwards.
#[must_use]
pub fn run(host: &dyn Host, trial: &ValidationTrial, parent: &HostPath) -> TrialOutcome {
    let outcome = TrialOutcome::new(trial.backend);
    let folder = match host.create_dir_all(parent).and_then(|()| host.temporary_dir(parent)) {
        Ok(folder) => folder,
        Err(error) => {
            return TrialOutcome::untried(
                trial.backend,
                format!("failed to create a temporary folder: {error}"),
            );
        }
    };
    let outcome = in_folder(host, trial, &folder, outcome);
    // Leftover files do not change the outcome.
    let _ = host.remove(&folder);
    outcome
}

fn in_folder(
    host: &dyn Host,
    trial: &ValidationTrial,
    folder: &HostPath,
    mut outcome: TrialOutcome,
) -> TrialOutcome {
    let windows = host.platform().os == Os::Windows;
    for (name, text) in &trial.files {
        if let Err(error) = host.write(&folder.join(name), text.as_bytes()) {
            outcome.message = format!("failed to write a file: {error}");
            return outcome;
        }
    }
    let place = |name: &str| folder.join(name).to_string();
    let program = place(if windows { "proof.exe" } else { "proof" });
    let shader = place("shader.spv");
    let values = [
        ("{source}", trial.files.first().map(|(name, _)| place(name)).unwrap_or_default()),
        ("{object}", place(if windows { "proof.obj" } else { "proof.o" })),
        ("{program}", program.clone()),
        ("{shader}", trial.files.get(1).map(|(name, _)| place(name)).unwrap_or_default()),
        ("{shader_object}", shader.clone()),
    ];
    let fill = |argument: &String| {
        values.iter().fold(argument.clone(), |argument, (name, value)| argument.replace(name, value))
    };
    let mut last = vec![program];
    last.extend(trial.takes_shader.then_some(shader));
    let commands =
        trial.steps.iter().map(|(stage, arguments)| (*stage, arguments.iter().map(fill).collect()));
    for (stage, argv) in commands.chain([(PipelineStage::Run, last)]) {
        match step(host, stage, &argv, folder) {
            Ok(message) => outcome.device = message.strip_prefix("ok: ").map(str::to_owned),
            Err((message, output)) => {
                return TrialOutcome { failed: Some(stage), message, command: argv, output, ..outcome };
            }
        }
    }
    outcome.ok = true;
    outcome
}

/// Last line of the command's output, or the error message with the complete output.
fn step(
    host: &dyn RunPrograms,
    stage: PipelineStage,
    argv: &[String],
    folder: &HostPath,
) -> Result<String, (String, String)> {
    let deadline = if stage == PipelineStage::Run { RUN_DEADLINE } else { COMPILE_DEADLINE };
    let (program, arguments) = argv.split_first().ok_or_else(|| ("no command".to_owned(), String::new()))?;
    let command = Command::new(program, deadline).args(arguments).current_dir(folder.clone());
    let output = host.run(&command).map_err(|error| match error {
        RunError::Timeout { .. } => (format!("timed out after {} s", deadline.as_secs()), String::new()),
        other => (other.to_string(), String::new()),
    })?;
    let printed = format!("{}{}", output.stdout, output.stderr);
    let lines = || printed.lines().map(str::trim).filter(|line| !line.is_empty());
    if output.exit == Some(0) {
        return Ok(lines().next_back().unwrap_or_default().to_owned());
    }
    let message = match stage {
        PipelineStage::Run => lines().next_back(),
        _ => lines()
            .find(|line| line.contains("error") || line.contains("undefined"))
            .or_else(|| lines().next_back()),
    };
    let ended = match output.exit {
        Some(code) => format!("exited with status {code}"),
        None => "terminated by a signal".to_owned(),
    };
    Err((message.map_or(ended, str::to_owned), printed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_embedded_programs() {
        let catalogue = Catalogue::embedded();
        let mut seen = 0;
        for rules in catalogue.iter().filter_map(|one| one.validate.as_ref()) {
            for name in std::iter::once(&rules.source).chain(&rules.shader) {
                assert!(PROGRAMS.iter().any(|(known, _)| known == name), "{name}");
            }
            assert!(rules.steps.iter().any(|step| step.stage == PipelineStage::Link));
            seen += 1;
        }
        assert_eq!(seen, Backend::ALL.len());
    }
}
