//! Walks through the commands of a stage and tracks which CUDA toolkit is installed.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::check::is_arch_variable;
use super::model::{DockerStage, Dockerfile};
use crate::file::building::{self, BuildPlace, CommandChecker};
use crate::file::fix;
use crate::file::image::ImageName;
use crate::file::shell::{ShellCommand, ShellWord};
use crate::file::text::SourceText;
use crate::file::tools::archs::ArchRequest;
use crate::file::tools::{build, gpu, packages};

/// The state of the CUDA toolkit at a point in a stage.
#[derive(Debug, Clone, Default)]
pub(super) struct StageToolkit {
    /// Whether the compiler is installed; `None` if unknown.
    pub(super) has_compiler: Option<bool>,
    /// The release of the compiler or of the libraries.
    pub(super) version: Option<Version>,
}

/// A walk through a stage.
pub(super) struct StageWalk<'a> {
    source: &'a SourceText,
    file: &'a Dockerfile,
    index: usize,
    cuda: &'a Description,
    /// The toolkit after the commands so far; the toolkit of the stage when the walk is done.
    pub(super) toolkit: StageToolkit,
    /// Whether a command needs the CUDA compiler.
    pub(super) builds: bool,
}

impl<'a> StageWalk<'a> {
    pub(super) fn new(
        source: &'a SourceText,
        file: &'a Dockerfile,
        index: usize,
        cuda: &'a Description,
        before: &[StageWalk<'_>],
    ) -> Self {
        let stage = &file.stages[index];
        let mut toolkit = match (stage.parent, &stage.image) {
            (Some(parent), _) => before[parent].toolkit.clone(),
            (None, Some(image)) => match image.gpu() {
                Some(gpu) if gpu.backend == Backend::Cuda => {
                    StageToolkit { has_compiler: gpu.has_toolkit, version: gpu.version }
                }
                Some(_) => StageToolkit::default(),
                None => StageToolkit { has_compiler: image.is_plain().then_some(false), version: None },
            },
            (None, None) => StageToolkit::default(),
        };
        for copy in &stage.copies {
            if copy.paths.iter().any(|path| {
                path.contains("cuda")
                    || path == "/"
                    || path.starts_with("/usr/local ")
                    || path == "/usr/local"
            }) {
                let from = file
                    .named(&copy.from)
                    .filter(|from| *from < index)
                    .map(|from| before[from].toolkit.clone());
                let copied = from.unwrap_or_default();
                toolkit.has_compiler = copied
                    .has_compiler
                    .filter(|has_compiler| *has_compiler)
                    .or(toolkit.has_compiler.filter(|has_compiler| *has_compiler));
                toolkit.version = toolkit.version.or(copied.version);
            }
        }
        Self { source, file, index, cuda, toolkit, builds: false }
    }

    fn stage(&self) -> &'a DockerStage {
        &self.file.stages[self.index]
    }

    /// Checks all commands of the stage, in order.
    pub(super) fn check_commands(&mut self, drafts: &mut Vec<FindingDraft>) {
        let stage = self.stage();
        let mut is_reported = false;
        let origin = |value: &str| {
            stage.env.iter().chain(&stage.arguments).rfind(|one| one.value == value).map(|one| one.line)
        };
        for command in &stage.commands {
            self.track_installation(command, drafts);
            let lookup = |name: &str| {
                stage.in_run(name).map(|one| ShellWord { text: one.value.clone(), line: one.line })
            };
            let configuration = build::configuration(command, &lookup);
            if let Some(word) =
                build::needs_nvcc(command, configuration.as_ref()).filter(|_| !command.tolerated)
            {
                self.builds = true;
                if self.toolkit.has_compiler == Some(false) && !is_reported {
                    is_reported = true;
                    drafts.push(self.missing_compiler(&word));
                }
            }
            let checker = self.checker(&origin);
            checker.check_command(command, configuration.as_ref(), &lookup, drafts);
            self.check_gpu_use(command, drafts);
        }
        let checker = self.checker(&origin);
        let inherited = stage.parent.map_or(0, |parent| self.file.stages[parent].env.len());
        for setting in
            stage.env.iter().skip(inherited).chain(&stage.arguments).filter(|one| is_arch_variable(one))
        {
            let word = ShellWord { text: setting.value.clone(), line: setting.line };
            checker.check_archs(
                &ArchRequest { name: setting.name.clone(), value: setting.value.clone(), word },
                drafts,
            );
        }
        for setting in stage.env.iter().skip(inherited) {
            checker.check_flags(&setting.name, &setting.value, setting.line, drafts);
        }
    }

    fn checker<'s>(&'s self, origin: &'s dyn Fn(&str) -> Option<usize>) -> CommandChecker<'s> {
        let release = self.toolkit.version.as_ref();
        CommandChecker { source: self.source, cuda: self.cuda, place: BuildPlace::Image, release, origin }
    }

    /// Updates the toolkit after a command that installs something, and reports drivers and distribution toolkits.
    fn track_installation(&mut self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        if let Some(driver) = packages::driver(command) {
            drafts.push(building::driver(self.source, &driver, BuildPlace::Image));
        }
        if let Some(toolkit) = packages::toolkit(command) {
            if toolkit.is_distribution {
                let release = self.file.image(self.index).and_then(ImageName::distribution_toolkit).cloned();
                drafts.extend(building::distribution(
                    self.source,
                    &toolkit.word,
                    release.as_ref(),
                    self.toolkit.version.as_ref(),
                ));
                self.toolkit.version = self.toolkit.version.take().or(release);
            } else {
                self.toolkit.version = toolkit.version.or(self.toolkit.version.take());
            }
            self.toolkit.has_compiler = Some(true);
        } else if self.toolkit.has_compiler == Some(false) && may_install(command) {
            self.toolkit.has_compiler = None;
        }
    }

    fn missing_compiler(&self, word: &ShellWord) -> FindingDraft {
        let from = self.file.chain(self.index).find(|stage| stage.image.is_some());
        let line = from.map_or(self.stage().line, |stage| stage.line);
        let image = from.and_then(|stage| stage.image.as_ref());
        let image_name = image.map(ToString::to_string).unwrap_or_default();
        let gpu = image.and_then(ImageName::gpu);
        let draft = |id: DiagnosticId| {
            let draft =
                self.source.draft(id, Severity::Error, word.line).evidence(self.source.evidence(line));
            draft.backend(Backend::Cuda).affects(Affects::Build)
        };
        if gpu.is_none() {
            return draft(id!("cuda.toolkit.missing"))
                .summary(format!(
                    "line {} needs the CUDA compiler, but `{image_name}` does not contain CUDA",
                    word.line
                ))
                .fix(fix::replace(self.source, line, &image_name, "nvidia/cuda:12.9.1-devel-ubuntu24.04"));
        }
        let flavour = ["runtime", "base"]
            .into_iter()
            .find(|flavour| self.source.line(line).contains(&format!("-{flavour}")));
        let fix = flavour.map_or_else(
            || format!("use the `devel` image for the stage in line {line}"),
            |flavour| fix::replace(self.source, line, flavour, "devel"),
        );
        draft(id!("cuda.toolkit.runtime-only"))
            .summary(format!(
                "line {} needs the CUDA compiler, but `{image_name}` contains only the libraries",
                word.line
            ))
            .fix(fix)
    }

    fn check_gpu_use(&self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let Some(needed) = gpu::gpu_use(command).filter(|_| !command.tolerated) else { return };
        let severity = needed.severity(command.is_substituted);
        drafts.push(
            self.source
                .draft(id!("file.gpu-at-build"), severity, command.line)
                .affects(Affects::Build)
                .summary(if needed.is_print {
                    format!("{} finds no GPU, because none is available while the image is built", needed.what)
                } else {
                    format!("{} needs a GPU, but no GPU is available while the image is built", needed.what)
                })
                .fix(format!(
                    "remove it from line {} and run it in the container instead: in `CMD`, or in a test with `docker run --gpus all`",
                    command.line
                )),
        );
    }
}

/// Whether a command may install a toolkit in a way that the check can't see: a script, an unknown package manager.
fn may_install(command: &ShellCommand) -> bool {
    let program = command.words.first().map_or("", |word| word.text.as_str());
    let is_script =
        program.contains('/') && !program.starts_with("/usr/bin/") && !program.starts_with("/bin/");
    let runs_script =
        matches!(command.program(), "sh" | "bash" | "source" | "." | "python" | "python3" | "eval");
    let manages = matches!(
        command.program(),
        "spack"
            | "nix"
            | "nix-env"
            | "ansible-playbook"
            | "pixi"
            | "conda"
            | "mamba"
            | "micromamba"
            | "brew"
            | "tar"
            | "dpkg"
            | "rpm"
            | "yay"
    );
    let is_curl =
        matches!(command.program(), "curl" | "wget") && command.arguments().any(|word| word.contains("cuda"));
    is_script || runs_script || manages || is_curl || program.contains('$')
}
