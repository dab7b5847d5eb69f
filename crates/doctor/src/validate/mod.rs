//! Proof: a small program per backend is compiled, linked and run with the chosen toolchain, in child processes.
//!
//! [`plan`] is pure and says which commands that takes; [`run`] executes them in a folder of its own and says which stage
//! failed.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Verdict};
use gpubuild_detect::toolkit::description::{PipelineStage, Validate, is_on};
use gpubuild_detect::toolkit::{Catalogue, Description, Installation, Inventory};
use gpubuild_host::{Command, Host, HostPath, Os, RunError, RunPrograms};
use serde::Serialize;

/// The programs, by name.
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

/// A compiler may take its time, a program that adds two arrays may not.
const COMPILE_DEADLINE: Duration = Duration::from_secs(180);
const RUN_DEADLINE: Duration = Duration::from_secs(30);

/// What is known of a machine.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Toolkits.
    pub inventory: &'a Inventory,
    /// Their descriptions.
    pub catalogue: &'a Catalogue,
    /// Verdicts.
    pub matrix: &'a Matrix,
    /// The operating system.
    pub os: Os,
}

/// The commands for one backend. Paths of the folder stand as `{source}` and the like until [`run`] knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationTrial {
    /// The backend.
    pub backend: Backend,
    /// Names and texts of the files that are needed.
    pub files: Vec<(&'static str, &'static str)>,
    /// Commands with the stage that each belongs to.
    pub steps: Vec<(PipelineStage, Vec<String>)>,
    /// Whether the program gets the compiled shader.
    pub takes_shader: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialOutcome {
    /// The backend.
    pub backend: Backend,
    /// Whether the program ran and its result was right.
    pub ok: bool,
    /// The stage that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<PipelineStage>,
    /// The device that it ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Why it was not tried, or what the failing program said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The command that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Everything that it printed.
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

    /// The outcome of a backend that can't be tried.
    #[must_use]
    pub fn untried(backend: Backend, why: String) -> Self {
        Self { message: why, ..Self::new(backend) }
    }

    /// The finding of a failure.
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

/// The commands that try a backend, or why it can't be tried here.
///
/// # Errors
/// A line for people.
pub fn plan(bench: &Bench<'_>, backend: Backend) -> Result<ValidationTrial, String> {
    let verdict = bench.matrix.verdict(backend);
    let (description, copy) = chosen(bench, backend).ok_or_else(|| {
        verdict
            .build_reasons
            .first()
            .map_or("nothing to build with".to_owned(), gpubuild_detect::matrix::Reason::line)
    })?;
    let rules = rules(bench, description, backend)?;
    let host = |part: &str| {
        let compiler = bench.inventory.for_role(bench.catalogue, "host-compiler")?;
        compiler.part(part).map(ToString::to_string)
    };
    let words = TrialWords {
        copy,
        host_cc: host("program"),
        host_cxx: cxx(bench, description, copy).or_else(|| host("cxx")),
        arch: arch(verdict),
    };
    let steps = rules
        .steps
        .iter()
        .filter(|step| is_on(&step.on, bench.os))
        .map(|step| Ok((step.stage, words.fill(&step.argv)?)))
        .collect::<Result<Vec<_>, String>>()?;
    let names = std::iter::once(&rules.source).chain(&rules.shader);
    let files = names.filter_map(|name| PROGRAMS.iter().find(|(known, _)| known == name).copied()).collect();
    Ok(ValidationTrial { backend, files, steps, takes_shader: rules.shader.is_some() })
}

fn chosen<'a>(bench: &Bench<'a>, backend: Backend) -> Option<(&'a Description, &'a Installation)> {
    if backend == Backend::Cpu {
        let compiler = bench.inventory.for_role(bench.catalogue, "host-compiler")?;
        return Some((bench.catalogue.get(&compiler.toolkit)?, compiler));
    }
    let description = bench.catalogue.for_backend(backend)?;
    Some((description, bench.inventory.chosen(&description.id)?))
}

/// The rules of a description; any host compiler is tried as the first that has rules says.
fn rules<'a>(
    bench: &Bench<'a>,
    description: &'a Description,
    backend: Backend,
) -> Result<&'a Validate, String> {
    let any = || bench.catalogue.with_role("host-compiler").find_map(|one| one.validate.as_ref());
    let found = match backend {
        Backend::Cpu => any(),
        _ => description.validate.as_ref(),
    };
    let rules = found.ok_or_else(|| format!("the description of {} has no `validate`", description.name))?;
    if !is_on(&rules.on, bench.os) {
        return Err(format!("not tried on {}: its compiler needs a developer's prompt", bench.os.label()));
    }
    Ok(rules)
}

/// The newest C++ compiler of the host that this copy takes, as a build chooses it.
fn cxx(bench: &Bench<'_>, description: &Description, copy: &Installation) -> Option<String> {
    let mut families: Vec<&Description> = bench.catalogue.with_role("host-compiler").collect();
    families.sort_by_key(|family| family.preference);
    families.into_iter().find_map(|family| {
        let window = description.host_compiler_window(copy, &family.id)?;
        let fits = |one: &&Installation| one.is_complete() && window.holds(one.version(), &family.id);
        let copies = bench.inventory.of(&family.id).iter().filter(fits);
        let best = copies
            .max_by(|left, right| left.chosen.cmp(&right.chosen).then(left.version().cmp(&right.version())));
        best?.part("cxx").map(ToString::to_string)
    })
}

fn arch(verdict: &Verdict) -> Option<String> {
    let real = verdict.devices.iter().find(|gpu| gpu.vendor != Vendor::Software);
    real.and_then(|gpu| gpu.arch.clone())
}

struct TrialWords<'a> {
    copy: &'a Installation,
    host_cc: Option<String>,
    host_cxx: Option<String>,
    arch: Option<String>,
}

/// Filled in when the folder is known.
const LATER: [&str; 5] = ["source", "object", "program", "shader", "shader_object"];
/// A word without these is left out.
const OPTIONAL: [&str; 2] = ["host_cxx", "arch"];

impl TrialWords<'_> {
    fn fill(&self, words: &[String]) -> Result<Vec<String>, String> {
        let mut filled = Vec::new();
        for word in words {
            let Some((before, rest)) = word.split_once('{') else {
                filled.push(word.clone());
                continue;
            };
            let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
            if LATER.contains(&name) {
                filled.push(word.clone());
                continue;
            }
            match self.value(name) {
                Some(value) => filled.push(format!("{before}{value}{after}")),
                None if OPTIONAL.contains(&name) && (before, after) != ("", "") => {}
                None => return Err(format!("cannot be tried: `{name}` of {} is missing", self.copy.root)),
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

/// Tries it in a folder of its own, which is removed afterwards.
#[must_use]
pub fn run(host: &dyn Host, trial: &ValidationTrial, parent: &HostPath) -> TrialOutcome {
    let outcome = TrialOutcome::new(trial.backend);
    let folder = match host.create_dir_all(parent).and_then(|()| host.temporary_dir(parent)) {
        Ok(folder) => folder,
        Err(error) => return TrialOutcome::untried(trial.backend, format!("no folder to work in: {error}")),
    };
    let outcome = in_folder(host, trial, &folder, outcome);
    // Left-over files of a proof change nothing about its outcome.
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
    let fill =
        |word: &String| values.iter().fold(word.clone(), |word, (name, value)| word.replace(name, value));
    let mut last = vec![program];
    last.extend(trial.takes_shader.then_some(shader));
    let commands = trial.steps.iter().map(|(stage, words)| (*stage, words.iter().map(fill).collect()));
    for (stage, argv) in commands.chain([(PipelineStage::Run, last)]) {
        match step(host, stage, &argv, folder) {
            Ok(said) => outcome.device = said.strip_prefix("ok: ").map(str::to_owned),
            Err((message, output)) => {
                return TrialOutcome { failed: Some(stage), message, command: argv, output, ..outcome };
            }
        }
    }
    outcome.ok = true;
    outcome
}

/// The last line that a command printed, or what went wrong with everything that it printed.
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
        RunError::Timeout { .. } => {
            (format!("it did not end within {} s", deadline.as_secs()), String::new())
        }
        other => (other.to_string(), String::new()),
    })?;
    let printed = format!("{}{}", output.stdout, output.stderr);
    let lines = || printed.lines().map(str::trim).filter(|line| !line.is_empty());
    if output.exit == Some(0) {
        return Ok(lines().next_back().unwrap_or_default().to_owned());
    }
    let said = match stage {
        PipelineStage::Run => lines().next_back(),
        _ => lines()
            .find(|line| line.contains("error") || line.contains("undefined"))
            .or_else(|| lines().next_back()),
    };
    let ended = match output.exit {
        Some(code) => format!("it ended with status {code}"),
        None => "it was ended by a signal".to_owned(),
    };
    Err((said.map_or(ended, str::to_owned), printed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_names_a_program_that_is_there() {
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
