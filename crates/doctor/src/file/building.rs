//! Checks of commands that install and compile, shared by Dockerfiles and workflows.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::fix;
use super::shell::{ShellCommand, ShellWord};
use super::text::{SourceText, sanitize};
use super::tools::archs::{self, ArchRequest, UnsupportedArch};
use super::tools::build::{CmakeInvocation, Tool};
use super::tools::packages::DriverPackage;
use super::tools::smi;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPlace {
    /// While an image is built: never with a GPU, and the result runs on other machines.
    Image,
    /// In a job on a runner without a GPU.
    Job(ArtifactUse),
    /// On a machine that may have a GPU.
    Elsewhere,
}

/// What happens to the files that a job builds, in ascending order of distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArtifactUse {
    /// They are discarded at the end of the job.
    Discarded,
    /// They are uploaded as artifacts of the workflow.
    Kept,
    /// They are published.
    Published,
}

/// Checks commands in the context of a place in a file.
#[derive(Clone, Copy)]
pub struct CommandChecker<'a> {
    /// The text of the file.
    pub source: &'a SourceText,
    /// The description of the CUDA toolkit, for its architectures.
    pub cuda: &'a Description,
    /// Where the commands run.
    pub place: BuildPlace,
    /// The release of the CUDA toolkit at this place, if known.
    pub release: Option<&'a Version>,
    /// The line that defines a value, if the value comes from a variable.
    pub origin: &'a dyn Fn(&str) -> Option<usize>,
}

impl CommandChecker<'_> {
    /// Checks the architectures and compiler flags of a command.
    pub fn check_command(
        &self,
        command: &ShellCommand,
        configuration: Option<&CmakeInvocation>,
        lookup: &dyn Fn(&str) -> Option<ShellWord>,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let mut requests = archs::requests(command, configuration);
        for request in &mut requests {
            if !self.source.line(request.word.line).contains(&request.value) {
                request.word.line = (self.origin)(&request.value).unwrap_or(request.word.line);
            }
        }
        for request in &requests {
            self.check_archs(request, drafts);
        }
        if let Some(configuration) = configuration {
            let variable = if configuration.tool == Tool::Make { "CUDA_DOCKER_ARCH" } else { "CUDAARCHS" };
            let reads = ["CMAKE_CUDA_ARCHITECTURES", "-arch", "-gencode", variable];
            let names_archs = requests.iter().any(|request| reads.contains(&request.name.as_str()))
                || lookup(variable).is_some_and(|word| !word.text.is_empty());
            self.check_defaults(command, configuration, names_archs, drafts);
        }
        drafts.extend(scraped(self.source, command));
        for word in &command.words {
            self.check_flags("", &word.text, word.line, drafts);
        }
        for (name, word) in &command.assigned {
            self.check_flags(name, &word.text, word.line, drafts);
        }
    }

    /// Checks a list of architectures: reports `native` without a GPU, and architectures that the toolkit does not support.
    pub fn check_archs(&self, request: &ArchRequest, drafts: &mut Vec<FindingDraft>) {
        let line = request.word.line;
        if request.is_native() {
            if self.place != BuildPlace::Elsewhere {
                drafts.push(self.native(&request.name, line));
            }
            return;
        }
        let Some(release) = self.release else { return };
        let bad: Vec<_> = request
            .archs()
            .filter_map(|arch| Some((archs::unsupported(&arch, release, self.cuda)?, arch)))
            .collect();
        let Some((first, arch)) = bad.first() else { return };
        let names: Vec<String> = bad
            .iter()
            .filter(|(reason, _)| std::mem::discriminant(reason) == std::mem::discriminant(first))
            .map(|(_, arch)| arch.sm())
            .collect();
        let names = names.join(", ");
        let (id, why, fix) = match first {
            UnsupportedArch::TooNew(since) => (
                id!("cuda.arch.too-new-for-toolkit"),
                format!(
                    "CUDA {} can't compile for {names}; support starts with CUDA {}",
                    release.release(),
                    since.release()
                ),
                format!("use CUDA {} or newer, or remove {names} from line {line}", since.release()),
            ),
            UnsupportedArch::Dropped(oldest) => (
                id!("cuda.arch.dropped-by-toolkit"),
                format!(
                    "CUDA {} no longer compiles for {names}: the oldest supported architecture is sm_{oldest}",
                    release.release()
                ),
                if arch.number < 75 && release.major() >= 13 {
                    format!(
                        "use CUDA 12.9, the last release that supports {names}, or remove {names} from line {line}"
                    )
                } else {
                    format!("remove {names} from line {line}, or use an older CUDA release")
                },
            ),
        };
        let draft =
            self.source.draft(id, Severity::Error, line).backend(Backend::Cuda).affects(Affects::Build);
        drafts.push(draft.summary(why).fix(fix));
    }

    fn native(&self, name: &str, line: usize) -> FindingDraft {
        let why = match self.place {
            BuildPlace::Image => "no GPU is available while an image is built",
            _ => "this runner has no GPU",
        };
        self.source
            .draft(id!("cuda.arch.native-no-gpu"), Severity::Error, line)
            .backend(Backend::Cuda)
            .affects(Affects::Build)
            .summary(format!("`{name}` requests the architecture of the local GPU, but {why}"))
            .fix(fix::replace(self.source, line, "native", "all-major"))
    }

    /// Reports ggml projects that build for the local machine because the configuration does not say otherwise.
    fn check_defaults(
        &self,
        command: &ShellCommand,
        configuration: &CmakeInvocation,
        names_archs: bool,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let is_distributed = matches!(
            self.place,
            BuildPlace::Image | BuildPlace::Job(ArtifactUse::Kept | ArtifactUse::Published)
        );
        let is_portable = configuration.native() == Some(false);
        let has_variants =
            configuration.get("GGML_CPU_ALL_VARIANTS").is_some_and(super::tools::build::Definition::is_on);
        let has_cpu_code = configuration.get("GGML_CPU").is_none_or(|one| !one.is_off());
        if !configuration.is_ggml() || is_portable || self.place == BuildPlace::Elsewhere || command.tolerated
        {
            return;
        }
        let line = configuration.definitions.first().map_or(configuration.line, |one| one.word.line);
        if let Some(cuda) = configuration.cuda().filter(|_| !names_archs) {
            let line = cuda.word.line;
            let flag = if configuration.tool == Tool::Make {
                "CUDA_DOCKER_ARCH=all-major"
            } else {
                "-DGGML_NATIVE=OFF -DCMAKE_CUDA_ARCHITECTURES=all-major"
            };
            drafts.push(
                self.source
                    .draft(id!("cuda.arch.native-no-gpu"), Severity::Warning, line)
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!("`{}` builds for the local GPU unless architectures are specified, but no GPU is available here", sanitize(&cuda.word.text)))
                    .fix(fix::append(self.source, line, &cuda.word.text, flag)),
            );
        } else if is_distributed && has_cpu_code && configuration.tool != Tool::Make && !has_variants {
            let anchor = configuration.definitions.first().map_or("", |one| one.word.text.as_str());
            drafts.push(
                self.source
                    .draft(id!("file.native-cpu"), Severity::Warning, line)
                    .backend(Backend::Cpu)
                    .affects(Affects::Run)
                    .summary("ggml is built for the CPU of the build machine: on other CPUs it fails with an illegal instruction")
                    .fix(fix::append(self.source, line, anchor, "-DGGML_NATIVE=OFF")),
            );
        }
    }

    /// Reports flags for the CPU of the build machine. `name`: the variable that contains the flags, empty for a command line.
    pub fn check_flags(&self, name: &str, text: &str, line: usize, drafts: &mut Vec<FindingDraft>) {
        // Such flags are fine for tests and benchmarks, and workflow artifacts are often just logs.
        let is_distributed =
            matches!(self.place, BuildPlace::Image | BuildPlace::Job(ArtifactUse::Published));
        if !is_distributed {
            return;
        }
        let flags = ["-march=native", "-mcpu=native", "target-cpu=native", "-xHost"];
        let Some(flag) = flags.iter().find(|flag| text.contains(**flag)) else { return };
        let portable = match *flag {
            "target-cpu=native" => "target-cpu=x86-64-v3",
            "-mcpu=native" => "-mcpu=generic",
            _ => "-march=x86-64-v3",
        };
        let what = if name.is_empty() { format!("`{flag}`") } else { format!("`{flag}` in `{name}`") };
        drafts.push(
            self.source
                .draft(id!("file.native-cpu"), Severity::Warning, line)
                .backend(Backend::Cpu)
                .affects(Affects::Run)
                .summary(format!(
                    "{what} builds for the CPU of the build machine: other CPUs fail with an illegal instruction"
                ))
                .fix(fix::replace(self.source, line, flag, portable)),
        );
    }
}

/// Reports a command that reads the text of `nvidia-smi`.
#[must_use]
pub fn scraped(source: &SourceText, command: &ShellCommand) -> Option<FindingDraft> {
    let found = smi::scraped(command)?;
    // A file that knows the new heading handles both.
    if source.mentions("UMD") {
        return None;
    }
    Some(smi_text(source, &found, command.line))
}

/// The finding about text of `nvidia-smi` that is read by a program.
#[must_use]
pub fn smi_text(source: &SourceText, found: &smi::ScrapedText, line: usize) -> FindingDraft {
    let severity = if found.is_renamed { Severity::Warning } else { Severity::Info };
    source
        .draft(id!("file.smi-text"), severity, line)
        .backend(Backend::Cuda)
        .affects(Affects::Run)
        .summary(found.why.clone())
        .fix(found.fix.clone())
}

/// Reports the installation of a driver in an image, or on a runner without a GPU.
#[must_use]
pub fn driver(source: &SourceText, driver: &DriverPackage, place: BuildPlace) -> FindingDraft {
    let line = driver.word.line;
    let name = &driver.word.text;
    let (severity, why) = match place {
        BuildPlace::Image if driver.is_kernel_only => {
            (Severity::Warning, "kernel modules are part of the host, and they have no effect in an image")
        }
        BuildPlace::Image => (
            Severity::Error,
            "the container runtime mounts the host's driver, and a second one does not match the kernel module",
        ),
        _ => (Severity::Info, "a runner without a GPU does not need it, and the installation takes minutes"),
    };
    let fix = match &driver.replacement {
        Some(replacement) => fix::replace(source, line, name, replacement),
        None => format!("delete `{}` from line {line}", sanitize(name)),
    };
    source
        .draft(id!("file.driver-in-image"), severity, line)
        .affects(Affects::Run)
        .summary(format!("`{}` installs {}: {why}", sanitize(name), driver.what))
        .fix(fix)
}

/// Reports the installation of the distribution's own CUDA toolkit: an old release, or a second toolkit besides `other`.
#[must_use]
pub fn distribution(
    source: &SourceText,
    word: &ShellWord,
    release: Option<&Version>,
    other: Option<&Version>,
) -> Option<FindingDraft> {
    let line = word.line;
    let draft = |severity| {
        let draft = source.draft(id!("file.distro-toolkit"), severity, line);
        draft.backend(Backend::Cuda).affects(Affects::Build)
    };
    if let Some(other) = other {
        return Some(
            draft(Severity::Warning)
                .summary(format!(
                    "`{}` installs a second toolkit next to CUDA {}, and its nvcc comes first in `PATH`",
                    word.text,
                    other.release()
                ))
                .fix(fix::replace(
                    source,
                    line,
                    &word.text,
                    &format!("cuda-nvcc-{}-{}", other.major(), other.minor()),
                )),
        );
    }
    let release = release?;
    let severity = if release.major() < 12 { Severity::Warning } else { Severity::Info };
    let newest =
        if release.major() < 12 { "GPUs newer than the RTX 30 or 40 series" } else { "the RTX 50 series" };
    Some(
        draft(severity)
            .summary(format!("`{}` is CUDA {} here, which does not support {newest}", word.text, release.release()))
            .fix(format!("install `cuda-toolkit-12-9` from NVIDIA's repository in line {line}, or use the base image `nvidia/cuda:12.9.1-devel-ubuntu24.04`")),
    )
}
