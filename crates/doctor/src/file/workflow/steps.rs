//! The steps of a job, in their order.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::expression;
use super::runner::RunnerOs;
use super::{WorkflowRun, actions};
use crate::file::building::{self, BuildPlace, Site};
use crate::file::container::{self, ContainerVariable};
use crate::file::say;
use crate::file::shell::{self, Dialect, ShellCommand, ShellWord};
use crate::file::tables::tables;
use crate::file::text::{ScriptText, has_ending};
use crate::file::tools::archs::{self, ArchRequest};
use crate::file::tools::build::{self, CmakeInvocation};
use crate::file::tools::{gpu, packages};
use crate::file::yaml::YamlNode;

/// What is known at a place in a job.
pub(super) struct Steps<'a> {
    run: &'a WorkflowRun<'a>,
    place: BuildPlace,
    /// The release of the CUDA toolkit.
    release: Option<Version>,
    /// Whether the CUDA compiler is there, where that is known.
    has_nvcc: Option<bool>,
    /// Whether Visual Studio's compiler is in PATH.
    has_msvc: bool,
    /// The line of a toolkit without its part for Visual Studio.
    without_studio: Option<usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(run: &'a WorkflowRun<'a>) -> Self {
        let is_hosted = run.runner.is_hosted && run.runner.os != Some(RunnerOs::Macos);
        let place = if is_hosted { BuildPlace::Job(run.fate()) } else { BuildPlace::Elsewhere };
        let gpu = run.container.as_ref().and_then(|container| container.image.gpu());
        Self {
            run,
            place,
            release: gpu.as_ref().and_then(|gpu| gpu.version.clone()),
            has_nvcc: gpu.and_then(|gpu| gpu.has_toolkit),
            has_msvc: false,
            without_studio: None,
        }
    }

    pub(super) fn check(mut self, drafts: &mut Vec<FindingDraft>) {
        for step in self.run.job.get("steps").map(YamlNode::items).unwrap_or_default() {
            let condition = step.text_of("if").filter(|text| !text.is_empty());
            let lookup = |name: &str| self.run.lookup(name);
            if condition.and_then(|text| expression::holds(text, &lookup)) == Some(false) {
                continue;
            }
            self.step(step, drafts);
        }
        for variable in &self.run.env {
            self.variable(variable, drafts);
        }
    }

    fn step(&mut self, step: &YamlNode, drafts: &mut Vec<FindingDraft>) {
        let uses = step.text_of("uses").unwrap_or_default().to_ascii_lowercase();
        let sets_up = ["msvc-dev", "vsdevenv", "vs-shell", "setup-cpp", "vcvars"];
        self.has_msvc |= sets_up.iter().any(|name| uses.contains(name));
        let installed = actions::check(self.run, step, drafts);
        if installed.is_cuda {
            self.has_nvcc = Some(true);
            self.release = installed.release;
            self.without_studio = installed.without_studio;
        }
        let mut env = self.run.env.clone();
        if let Some(node) = step.get("env") {
            let own = self.run.variables(node);
            for variable in &own {
                self.variable(variable, drafts);
            }
            env.extend(own);
        }
        let Some(script) = step.get("run").and_then(YamlNode::script) else { return };
        let opens = ["vcvars", "VsDevCmd", "VsDevShell"];
        self.has_msvc |= opens.iter().any(|text| script.text().contains(text));
        let mut filled = ScriptText::default();
        for (piece, line) in script.pieces() {
            filled.push(line, &self.run.fill(piece));
        }
        let may_fail = step.text_of("continue-on-error").is_some_and(|text| text != "false");
        for mut command in self.commands(step, &filled, &env) {
            command.tolerated |= may_fail;
            self.command(&command, &env, drafts);
        }
    }

    fn commands(&self, step: &YamlNode, script: &ScriptText, env: &[ContainerVariable]) -> Vec<ShellCommand> {
        let defaults = self.run.job.at(&["defaults", "run", "shell"]).and_then(YamlNode::text);
        let shell = step.text_of("shell").or(defaults).unwrap_or_default();
        let is_inside = self.run.container.is_some();
        if shell.starts_with("python") {
            let line = script.line_at(0);
            let word = ShellWord { text: "python".to_owned(), line };
            return vec![ShellCommand {
                words: vec![word],
                line,
                input: Some(script.text().to_owned()),
                ..ShellCommand::default()
            }];
        }
        let dialect = match shell.split_whitespace().next().unwrap_or_default() {
            "cmd" => Dialect::Cmd,
            "pwsh" | "powershell" => Dialect::Power,
            "" if self.run.is_windows() && !is_inside => Dialect::Power,
            _ => Dialect::Posix,
        };
        let lookup = |name: &str| container::find(env, name).and_then(|variable| variable.value.clone());
        shell::commands(script, dialect, &lookup)
    }

    fn command(&mut self, command: &ShellCommand, env: &[ContainerVariable], drafts: &mut Vec<FindingDraft>) {
        self.installs(command, drafts);
        let lookup = |name: &str| {
            let variable = container::find(env, name)?;
            Some(ShellWord { text: variable.value.clone()?, line: variable.line })
        };
        let configuration = build::configuration(command, &lookup);
        if !command.tolerated
            && let Some(word) = build::needs_nvcc(command, configuration.as_ref())
        {
            self.compiles(command, configuration.as_ref(), &word, &lookup, drafts);
        }
        let origin = |value: &str| {
            let variable = env.iter().rfind(|variable| variable.value.as_deref() == Some(value));
            self.run.origin(value).or_else(|| variable.map(|variable| variable.line))
        };
        self.site(&origin).command(command, configuration.as_ref(), &lookup, drafts);
        self.needs_gpu(command, drafts);
    }

    fn site<'s>(&'s self, origin: &'s dyn Fn(&str) -> Option<usize>) -> Site<'s> {
        Site {
            sheet: self.run.sheet,
            cuda: self.run.cuda,
            place: self.place,
            release: self.release.as_ref(),
            origin,
        }
    }

    /// A variable of the environment that compilers read.
    fn variable(&self, variable: &ContainerVariable, drafts: &mut Vec<FindingDraft>) {
        let Some(value) = &variable.value else { return };
        let origin = |_: &str| None;
        self.site(&origin).flags(&variable.name, value, variable.line, drafts);
        if archs::VARIABLES.contains(&variable.name.as_str()) {
            let word = ShellWord { text: value.clone(), line: variable.line };
            let request = ArchRequest { name: variable.name.clone(), value: value.clone(), word };
            // Which release will read it is only known where the toolkit is.
            self.site(&origin).request(&request, drafts);
        }
    }

    fn installs(&mut self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let sheet = self.run.sheet;
        if let Some(driver) = packages::driver(command).filter(|_| self.run.runner.is_hosted) {
            drafts.push(building::driver(sheet, &driver, self.place));
        }
        let Some(toolkit) = packages::toolkit(command) else {
            if self.has_nvcc == Some(false) && runs_script(command) {
                self.has_nvcc = None;
            }
            return;
        };
        if toolkit.is_distribution {
            let release = if let Some(container) = &self.run.container {
                container.image.distribution_toolkit().cloned()
            } else {
                let label = self.run.runner.only_label().unwrap_or_default();
                tables().distribution_toolkit(label).map(|row| row.toolkit.clone())
            };
            drafts.extend(building::distribution(
                sheet,
                &toolkit.word,
                release.as_ref(),
                self.release.as_ref(),
            ));
            self.release = self.release.take().or(release);
        } else if toolkit.version.is_some() {
            self.release = toolkit.version;
        }
        self.has_nvcc = Some(true);
    }

    /// A command that needs the CUDA compiler: whether that and its host compiler are there.
    fn compiles(
        &self,
        command: &ShellCommand,
        configuration: Option<&CmakeInvocation>,
        word: &ShellWord,
        lookup: &dyn Fn(&str) -> Option<ShellWord>,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let sheet = self.run.sheet;
        if let (Some(false), Some(container)) = (self.has_nvcc, &self.run.container) {
            drafts.push(
                sheet
                    .draft(id!("cuda.toolkit.runtime-only"), Severity::Error, word.line)
                    .evidence(sheet.evidence(container.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!(
                        "line {} needs the CUDA compiler, and `{}` has only the libraries",
                        word.line, container.image
                    ))
                    .fix(say::replace(
                        sheet,
                        container.line,
                        if sheet.line(container.line).contains("runtime") { "runtime" } else { "base" },
                        "devel",
                    )),
            );
        }
        if !self.run.is_windows() || self.run.container.is_some() {
            return;
        }
        let generator = configuration.and_then(|one| one.generator.clone()).unwrap_or_default();
        let is_ninja = generator.starts_with("Ninja");
        let is_direct = command.program() == "nvcc" && command.arguments().any(|word| has_ending(word, "cu"));
        let names_compiler = ["CUDAHOSTCXX", "NVCC_CCBIN", "CC"].iter().any(|name| lookup(name).is_some())
            || configuration.is_some_and(|one| one.get("CMAKE_CUDA_HOST_COMPILER").is_some())
            || command.arguments().any(|word| word.starts_with("-ccbin"));
        if (is_ninja || is_direct) && !self.has_msvc && !names_compiler {
            let what = if is_ninja {
                "with Ninja CMake takes the compiler that is in PATH"
            } else {
                "nvcc wants cl.exe in PATH"
            };
            drafts.push(
                sheet
                    .draft(id!("cuda.host.cl-missing"), Severity::Error, word.line)
                    .evidence(sheet.evidence(self.run.runner.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!("{what}, and nothing puts Visual Studio's there"))
                    .fix(format!(
                        "add the step `- uses: ilammy/msvc-dev-cmd@v1` before the one of line {}",
                        word.line
                    )),
            );
        }
        let is_studio = !is_ninja
            && configuration.is_some_and(|one| one.tool == build::Tool::Cmake)
            && (generator.is_empty() || generator.starts_with("Visual Studio"));
        if let Some(line) = self.without_studio.filter(|_| is_studio) {
            drafts.push(
                sheet
                    .draft(id!("cuda.toolkit.vs-integration"), Severity::Error, line)
                    .evidence(sheet.evidence(word.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary("CMake uses Visual Studio, and the toolkit is installed without its part for it: `No CUDA toolset found`")
                    .fix(say::append(sheet, line, "[", "\"visual_studio_integration\",")),
            );
        }
    }

    fn needs_gpu(&self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let Some(needed) = gpu::gpu_use(command).filter(|_| !command.tolerated) else { return };
        let sheet = self.run.sheet;
        if self.place == BuildPlace::Elsewhere {
            self.needs_option(command, &needed, drafts);
            return;
        }
        let is_certain = needed.is_certain && !command.is_substituted;
        let severity = if is_certain { Severity::Error } else { Severity::Warning };
        drafts.push(
            sheet
                .draft(id!("file.runner-no-gpu"), severity, command.line)
                .evidence(sheet.evidence(self.run.runner.line))
                .affects(Affects::Run)
                .summary(format!("{} wants a GPU, and `{}` has none", needed.what, self.run.runner.label()))
                .fix(format!(
                    "run the job on a machine with a GPU, as `runs-on: [self-hosted, gpu]` in line {}, or only build here",
                    self.run.runner.line
                )),
        );
    }

    /// A container of a machine with a GPU that is started without it.
    fn needs_option(&self, command: &ShellCommand, needed: &gpu::GpuUse, drafts: &mut Vec<FindingDraft>) {
        let Some(container) = &self.run.container else { return };
        let gives = |options: &str| {
            ["--gpus", "nvidia", "/dev/kfd", "--device"].iter().any(|text| options.contains(text))
        };
        let is_given =
            container.options.as_ref().is_some_and(|(options, _)| gives(options) || options.contains("${{"));
        let backend = container.image.gpu().map(|gpu| gpu.backend);
        if is_given || !needed.is_certain || backend != Some(Backend::Cuda) {
            return;
        }
        let sheet = self.run.sheet;
        drafts.push(
            sheet
                .draft(id!("ctr.no-gpus-flag"), Severity::Error, container.line)
                .evidence(sheet.evidence(command.line))
                .backend(Backend::Cuda)
                .affects(Affects::Run)
                .summary(format!(
                    "{} runs in a container that is started without the GPU of its machine",
                    needed.what
                ))
                .fix(format!("add `options: --gpus all` to the container of line {}", container.line)),
        );
    }
}

/// Whether a command runs a script that isn't in the file.
fn runs_script(command: &ShellCommand) -> bool {
    let program = command.words.first().map_or("", |word| word.text.as_str());
    program.starts_with("./")
        || matches!(
            command.program(),
            "sh" | "bash" | "source" | "." | "dpkg" | "rpm" | "spack" | "conda" | "mamba" | "micromamba"
        )
}
