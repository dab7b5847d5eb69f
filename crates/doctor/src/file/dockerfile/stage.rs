//! A walk through a stage: which toolkit is there when a command needs it.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::check::is_arch_variable;
use super::model::{DockerStage, Dockerfile};
use crate::file::building::{self, BuildPlace, Site};
use crate::file::image::ImageName;
use crate::file::say;
use crate::file::shell::{ShellCommand, ShellWord};
use crate::file::text::Sheet;
use crate::file::tools::archs::ArchRequest;
use crate::file::tools::{build, gpu, packages};

/// What is known about the toolkit at a place in a stage.
#[derive(Debug, Clone, Default)]
pub(super) struct StageToolkit {
    /// Whether the compiler is there, where that is known.
    pub(super) is_there: Option<bool>,
    /// The release of the compiler or of the libraries.
    pub(super) version: Option<Version>,
}

/// A stage while it is walked through.
pub(super) struct StageWalk<'a> {
    sheet: &'a Sheet,
    file: &'a Dockerfile,
    index: usize,
    cuda: &'a Description,
    /// What is there now, at the end of the stage.
    pub(super) toolkit: StageToolkit,
    /// Whether something in it needs the compiler.
    pub(super) builds: bool,
}

impl<'a> StageWalk<'a> {
    pub(super) fn new(
        sheet: &'a Sheet,
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
                    StageToolkit { is_there: gpu.has_toolkit, version: gpu.version }
                }
                Some(_) => StageToolkit::default(),
                None => StageToolkit { is_there: image.is_plain().then_some(false), version: None },
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
                toolkit.is_there = copied
                    .is_there
                    .filter(|is_there| *is_there)
                    .or(toolkit.is_there.filter(|is_there| *is_there));
                toolkit.version = toolkit.version.or(copied.version);
            }
        }
        Self { sheet, file, index, cuda, toolkit, builds: false }
    }

    fn stage(&self) -> &'a DockerStage {
        &self.file.stages[self.index]
    }

    /// Looks at every command of the stage.
    pub(super) fn commands(&mut self, drafts: &mut Vec<FindingDraft>) {
        let stage = self.stage();
        let mut is_told = false;
        let origin = |value: &str| {
            stage.env.iter().chain(&stage.arguments).rfind(|one| one.value == value).map(|one| one.line)
        };
        for command in &stage.commands {
            self.installs(command, drafts);
            let lookup = |name: &str| {
                stage.seen(name).map(|one| ShellWord { text: one.value.clone(), line: one.line })
            };
            let configuration = build::configuration(command, &lookup);
            if let Some(word) =
                build::needs_nvcc(command, configuration.as_ref()).filter(|_| !command.tolerated)
            {
                self.builds = true;
                if self.toolkit.is_there == Some(false) && !is_told {
                    is_told = true;
                    drafts.push(self.no_compiler(&word));
                }
            }
            let site = self.site(&origin);
            site.command(command, configuration.as_ref(), &lookup, drafts);
            self.needs_gpu(command, drafts);
        }
        let site = self.site(&origin);
        let inherited = stage.parent.map_or(0, |parent| self.file.stages[parent].env.len());
        for setting in
            stage.env.iter().skip(inherited).chain(&stage.arguments).filter(|one| is_arch_variable(one))
        {
            let word = ShellWord { text: setting.value.clone(), line: setting.line };
            site.request(
                &ArchRequest { name: setting.name.clone(), value: setting.value.clone(), word },
                drafts,
            );
        }
        for setting in stage.env.iter().skip(inherited) {
            site.flags(&setting.name, &setting.value, setting.line, drafts);
        }
    }

    fn site<'s>(&'s self, origin: &'s dyn Fn(&str) -> Option<usize>) -> Site<'s> {
        let release = self.toolkit.version.as_ref();
        Site { sheet: self.sheet, cuda: self.cuda, place: BuildPlace::Image, release, origin }
    }

    fn installs(&mut self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        if let Some(driver) = packages::driver(command) {
            drafts.push(building::driver(self.sheet, &driver, BuildPlace::Image));
        }
        if let Some(toolkit) = packages::toolkit(command) {
            if toolkit.is_distribution {
                let release = self.file.image(self.index).and_then(ImageName::distribution_toolkit).cloned();
                drafts.extend(building::distribution(
                    self.sheet,
                    &toolkit.word,
                    release.as_ref(),
                    self.toolkit.version.as_ref(),
                ));
                self.toolkit.version = self.toolkit.version.take().or(release);
            } else {
                self.toolkit.version = toolkit.version.or(self.toolkit.version.take());
            }
            self.toolkit.is_there = Some(true);
        } else if self.toolkit.is_there == Some(false) && may_install(command) {
            self.toolkit.is_there = None;
        }
    }

    fn no_compiler(&self, word: &ShellWord) -> FindingDraft {
        let from = self.file.chain(self.index).find(|stage| stage.image.is_some());
        let line = from.map_or(self.stage().line, |stage| stage.line);
        let image = from.and_then(|stage| stage.image.as_ref());
        let shown = image.map(ToString::to_string).unwrap_or_default();
        let gpu = image.and_then(ImageName::gpu);
        let draft = |id: DiagnosticId| {
            let draft = self.sheet.draft(id, Severity::Error, word.line).evidence(self.sheet.evidence(line));
            draft.backend(Backend::Cuda).affects(Affects::Build)
        };
        if gpu.is_none() {
            return draft(id!("cuda.toolkit.missing"))
                .summary(format!(
                    "line {} needs the CUDA compiler, and `{shown}` has no CUDA in it",
                    word.line
                ))
                .fix(say::replace(self.sheet, line, &shown, "nvidia/cuda:12.9.1-devel-ubuntu24.04"));
        }
        let flavour = ["runtime", "base"]
            .into_iter()
            .find(|flavour| self.sheet.line(line).contains(&format!("-{flavour}")));
        let fix = flavour.map_or_else(
            || format!("begin the stage of line {line} with the `devel` image"),
            |flavour| say::replace(self.sheet, line, flavour, "devel"),
        );
        draft(id!("cuda.toolkit.runtime-only"))
            .summary(format!(
                "line {} needs the CUDA compiler, and `{shown}` has only the libraries",
                word.line
            ))
            .fix(fix)
    }

    fn needs_gpu(&self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let Some(needed) = gpu::gpu_use(command).filter(|_| !command.tolerated) else { return };
        let is_certain = needed.is_certain && !command.is_substituted;
        let severity = if is_certain { Severity::Error } else { Severity::Warning };
        drafts.push(
            self.sheet
                .draft(id!("file.gpu-at-build"), severity, command.line)
                .affects(Affects::Build)
                .summary(format!("{} asks for a GPU while the image is built, where there is none", needed.what))
                .fix(format!(
                    "take it out of line {} and ask when the container runs: in `CMD`, or in a test with `docker run --gpus all`",
                    command.line
                )),
        );
    }
}

/// Whether a command may install anything: a script that isn't in the file, a package manager that is not known.
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
