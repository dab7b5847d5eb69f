//! Checks the steps of a job, in order.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;

use super::expression;
use super::runner::RunnerOs;
use super::{WorkflowRun, actions};
use crate::file::building::{self, BuildPlace, CommandChecker};
use crate::file::container::{self, ContainerVariable};
use crate::file::fix;
use crate::file::script;
use crate::file::shell::{self, Dialect, ShellCommand, ShellWord};
use crate::file::tables::tables;
use crate::file::text::{ScriptText, has_extension};
use crate::file::tools::archs::{self, ArchRequest};
use crate::file::tools::build::{self, CmakeInvocation};
use crate::file::tools::{gpu, packages};
use crate::file::yaml::YamlNode;

/// The state at a point in a job.
pub(super) struct Steps<'a> {
    run: &'a WorkflowRun<'a>,
    place: BuildPlace,
    /// The release of the installed CUDA toolkit.
    release: Option<Version>,
    /// Whether the CUDA compiler is installed; `None` if unknown.
    has_nvcc: Option<bool>,
    /// Whether Visual Studio's compiler is in `PATH`.
    has_msvc: bool,
    /// The line that installs a toolkit without its Visual Studio integration.
    without_studio: Option<usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(run: &'a WorkflowRun<'a>) -> Self {
        let is_hosted = run.runner.is_hosted && run.runner.os != Some(RunnerOs::Macos);
        let place = if is_hosted { BuildPlace::Job(run.artifact_use()) } else { BuildPlace::Elsewhere };
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
            self.check_step(step, drafts);
        }
        for variable in &self.run.env {
            self.check_variable(variable, drafts);
        }
    }

    fn check_step(&mut self, step: &YamlNode, drafts: &mut Vec<FindingDraft>) {
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
                self.check_variable(variable, drafts);
            }
            env.extend(own);
        }
        let Some(script) = step.get("run").and_then(YamlNode::script) else { return };
        let opens = ["vcvars", "VsDevCmd", "VsDevShell"];
        self.has_msvc |= opens.iter().any(|text| script.text().contains(text));
        let mut substituted = ScriptText::default();
        for (piece, line) in script.pieces() {
            substituted.push(line, &self.run.substitute(piece));
        }
        let may_fail = step.text_of("continue-on-error").is_some_and(|text| text != "false");
        for mut command in self.commands(step, &substituted, &env) {
            command.tolerated |= may_fail;
            self.check_command(&command, &env, drafts);
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
            "pwsh" | "powershell" => Dialect::PowerShell,
            "" if self.run.is_windows() && !is_inside => Dialect::PowerShell,
            _ => Dialect::Posix,
        };
        let lookup = |name: &str| container::find(env, name).and_then(|variable| variable.value.clone());
        shell::commands(script, dialect, &lookup)
    }

    fn check_command(
        &mut self,
        command: &ShellCommand,
        env: &[ContainerVariable],
        drafts: &mut Vec<FindingDraft>,
    ) {
        self.track_installation(command, drafts);
        let lookup = |name: &str| {
            let variable = container::find(env, name)?;
            Some(ShellWord { text: variable.value.clone()?, line: variable.line })
        };
        let configuration = build::configuration(command, &lookup);
        if !command.tolerated
            && let Some(word) = build::needs_nvcc(command, configuration.as_ref())
        {
            self.check_compiler(command, configuration.as_ref(), &word, &lookup, drafts);
        }
        let origin = |value: &str| {
            let variable = env.iter().rfind(|variable| variable.value.as_deref() == Some(value));
            self.run.origin(value).or_else(|| variable.map(|variable| variable.line))
        };
        self.checker(&origin).check_command(command, configuration.as_ref(), &lookup, drafts);
        script::check_docker(self.run.source, command, drafts);
        self.check_gpu_use(command, drafts);
    }

    fn checker<'s>(&'s self, origin: &'s dyn Fn(&str) -> Option<usize>) -> CommandChecker<'s> {
        CommandChecker {
            source: self.run.source,
            cuda: self.run.cuda,
            place: self.place,
            release: self.release.as_ref(),
            origin,
        }
    }

    /// Checks an environment variable that compilers read.
    fn check_variable(&self, variable: &ContainerVariable, drafts: &mut Vec<FindingDraft>) {
        let Some(value) = &variable.value else { return };
        let origin = |_: &str| None;
        self.checker(&origin).check_flags(&variable.name, value, variable.line, drafts);
        if archs::VARIABLES.contains(&variable.name.as_str()) {
            let word = ShellWord { text: value.clone(), line: variable.line };
            let request = ArchRequest { name: variable.name.clone(), value: value.clone(), word };
            // The toolkit's release is only known if it is installed before this step.
            self.checker(&origin).check_archs(&request, drafts);
        }
    }

    fn track_installation(&mut self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        let source = self.run.source;
        if let Some(driver) = packages::driver(command).filter(|_| self.run.runner.is_hosted) {
            drafts.push(building::driver(source, &driver, self.place));
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
                source,
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

    /// Checks that the CUDA compiler and its host compiler are installed before a command that needs them.
    fn check_compiler(
        &self,
        command: &ShellCommand,
        configuration: Option<&CmakeInvocation>,
        word: &ShellWord,
        lookup: &dyn Fn(&str) -> Option<ShellWord>,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let source = self.run.source;
        if let (Some(false), Some(container)) = (self.has_nvcc, &self.run.container) {
            drafts.push(
                source
                    .draft(id!("cuda.toolkit.runtime-only"), Severity::Error, word.line)
                    .evidence(source.evidence(container.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!(
                        "line {} needs the CUDA compiler, but `{}` contains only the libraries",
                        word.line, container.image
                    ))
                    .fix(fix::replace(
                        source,
                        container.line,
                        if source.line(container.line).contains("runtime") { "runtime" } else { "base" },
                        "devel",
                    )),
            );
        }
        if !self.run.is_windows() || self.run.container.is_some() {
            return;
        }
        let generator = configuration.and_then(|one| one.generator.clone()).unwrap_or_default();
        let is_ninja = generator.starts_with("Ninja");
        let is_direct =
            command.program() == "nvcc" && command.arguments().any(|word| has_extension(word, "cu"));
        let names_compiler = ["CUDAHOSTCXX", "NVCC_CCBIN", "CC"].iter().any(|name| lookup(name).is_some())
            || configuration.is_some_and(|one| one.get("CMAKE_CUDA_HOST_COMPILER").is_some())
            || command.arguments().any(|word| word.starts_with("-ccbin"));
        if (is_ninja || is_direct) && !self.has_msvc && !names_compiler {
            let what = if is_ninja {
                "with the Ninja generator, CMake uses the compiler in `PATH`"
            } else {
                "nvcc needs cl.exe in `PATH`"
            };
            drafts.push(
                source
                    .draft(id!("cuda.host.cl-missing"), Severity::Error, word.line)
                    .evidence(source.evidence(self.run.runner.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!("{what}, but no step adds Visual Studio's compiler to it"))
                    .fix(format!(
                        "add the step `- uses: ilammy/msvc-dev-cmd@v1` before the step in line {}",
                        word.line
                    )),
            );
        }
        let is_studio = !is_ninja
            && configuration.is_some_and(|one| one.tool == build::Tool::Cmake)
            && (generator.is_empty() || generator.starts_with("Visual Studio"));
        if let Some(line) = self.without_studio.filter(|_| is_studio) {
            drafts.push(
                source
                    .draft(id!("cuda.toolkit.vs-integration"), Severity::Error, line)
                    .evidence(source.evidence(word.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary("CMake uses Visual Studio, but the toolkit is installed without its Visual Studio integration: `No CUDA toolset found`")
                    .fix(fix::append(source, line, "[", "\"visual_studio_integration\",")),
            );
        }
    }

    fn check_gpu_use(&self, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
        // A job without a GPU may print what it finds.
        let Some(needed) = gpu::gpu_use(command).filter(|one| !command.tolerated && !one.is_print) else {
            return;
        };
        let source = self.run.source;
        if self.place == BuildPlace::Elsewhere {
            self.check_container_options(command, &needed, drafts);
            return;
        }
        let severity = needed.severity(command.is_substituted);
        drafts.push(
            source
                .draft(id!("file.runner-no-gpu"), severity, command.line)
                .evidence(source.evidence(self.run.runner.line))
                .affects(Affects::Run)
                .summary(format!("{} needs a GPU, but `{}` does not have one", needed.what, self.run.runner.label()))
                .fix(format!(
                    "run the job on a machine with a GPU (for example `runs-on: [self-hosted, gpu]` in line {}), or only build here",
                    self.run.runner.line
                )),
        );
    }

    /// Reports a command that needs a GPU in a container that is started without access to the machine's GPU.
    fn check_container_options(
        &self,
        command: &ShellCommand,
        needed: &gpu::GpuUse,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let Some(container) = &self.run.container else { return };
        let requests_gpu = |options: &str| {
            ["--gpus", "nvidia", "/dev/kfd", "--device"].iter().any(|text| options.contains(text))
        };
        let may_have_gpu = container
            .options
            .as_ref()
            .is_some_and(|(options, _)| requests_gpu(options) || options.contains("${{"));
        let backend = container.image.gpu().map(|gpu| gpu.backend);
        if may_have_gpu || !needed.is_certain || backend != Some(Backend::Cuda) {
            return;
        }
        let source = self.run.source;
        drafts.push(
            source
                .draft(id!("ctr.no-gpus-flag"), Severity::Error, container.line)
                .evidence(source.evidence(command.line))
                .backend(Backend::Cuda)
                .affects(Affects::Run)
                .summary(format!(
                    "{} runs in a container that is started without access to the machine's GPU",
                    needed.what
                ))
                .fix(format!("add `options: --gpus all` to the container in line {}", container.line)),
        );
    }
}

/// Whether a command may install a toolkit in a way that the check can't see: a script, an unknown package manager.
fn runs_script(command: &ShellCommand) -> bool {
    let program = command.words.first().map_or("", |word| word.text.as_str());
    program.starts_with("./")
        || matches!(
            command.program(),
            "sh" | "bash" | "source" | "." | "dpkg" | "rpm" | "spack" | "conda" | "mamba" | "micromamba"
        )
}
