//! Findings about commands that install and compile, wherever they stand: in an image, in a job.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::say;
use super::shell::{ShellCommand, ShellWord};
use super::text::{Sheet, shown};
use super::tools::archs::{self, ArchRequest, UnfitArch};
use super::tools::build::{CmakeInvocation, Tool};
use super::tools::packages::DriverPackage;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPlace {
    /// While an image is built: never with a GPU, and for machines elsewhere.
    Image,
    /// In a job of a runner without a GPU.
    Job(Fate),
    /// On a machine that may have a GPU.
    Elsewhere,
}

/// What becomes of the things that a job builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// They end with the job.
    Nothing,
    /// They are kept, for another job or for people.
    Kept,
    /// They are published.
    Published,
}

/// What a command is looked at with.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The file.
    pub sheet: &'a Sheet,
    /// The toolkit's tables.
    pub cuda: &'a Description,
    /// Where it runs.
    pub place: BuildPlace,
    /// The release of the toolkit there.
    pub release: Option<&'a Version>,
    /// The line that a value comes from, where a variable carries it.
    pub origin: &'a dyn Fn(&str) -> Option<usize>,
}

impl Site<'_> {
    /// What a command asks the compilers for.
    pub fn command(
        &self,
        command: &ShellCommand,
        configuration: Option<&CmakeInvocation>,
        lookup: &dyn Fn(&str) -> Option<ShellWord>,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let mut requests = archs::requests(command, configuration);
        for request in &mut requests {
            if !self.sheet.line(request.word.line).contains(&request.value) {
                request.word.line = (self.origin)(&request.value).unwrap_or(request.word.line);
            }
        }
        for request in &requests {
            self.request(request, drafts);
        }
        if let Some(configuration) = configuration {
            let variable = if configuration.tool == Tool::Make { "CUDA_DOCKER_ARCH" } else { "CUDAARCHS" };
            let reads = ["CMAKE_CUDA_ARCHITECTURES", "-arch", "-gencode", variable];
            let names_archs = requests.iter().any(|request| reads.contains(&request.name.as_str()))
                || lookup(variable).is_some_and(|word| !word.text.is_empty());
            self.left_to_chance(command, configuration, names_archs, drafts);
        }
        for word in &command.words {
            self.flags("", &word.text, word.line, drafts);
        }
        for (name, word) in &command.assigned {
            self.flags(name, &word.text, word.line, drafts);
        }
    }

    /// A list of architectures: whether it can be known here, and whether the toolkit knows it.
    pub fn request(&self, request: &ArchRequest, drafts: &mut Vec<FindingDraft>) {
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
            .filter_map(|arch| Some((archs::unfit(&arch, release, self.cuda)?, arch)))
            .collect();
        let Some((first, arch)) = bad.first() else { return };
        let names: Vec<String> = bad
            .iter()
            .filter(|(unfit, _)| std::mem::discriminant(unfit) == std::mem::discriminant(first))
            .map(|(_, arch)| arch.sm())
            .collect();
        let names = names.join(", ");
        let (id, why, fix) = match first {
            UnfitArch::TooNew(since) => (
                id!("cuda.arch.too-new-for-toolkit"),
                format!(
                    "CUDA {} can't compile for {names}, which came with CUDA {}",
                    release.release(),
                    since.release()
                ),
                format!("take CUDA {} or newer, or leave {names} out of line {line}", since.release()),
            ),
            UnfitArch::Dropped(oldest) => (
                id!("cuda.arch.dropped-by-toolkit"),
                format!(
                    "CUDA {} no longer compiles for {names}: its oldest is sm_{oldest}",
                    release.release()
                ),
                if arch.number < 75 && release.major() >= 13 {
                    format!(
                        "take CUDA 12.9, the last release that knows {names}, or leave {names} out of line {line}"
                    )
                } else {
                    format!("leave {names} out of line {line}, or take an older release of CUDA")
                },
            ),
        };
        let draft =
            self.sheet.draft(id, Severity::Error, line).backend(Backend::Cuda).affects(Affects::Build);
        drafts.push(draft.summary(why).fix(fix));
    }

    fn native(&self, name: &str, line: usize) -> FindingDraft {
        let place = match self.place {
            BuildPlace::Image => "while an image is built",
            _ => "on this runner",
        };
        self.sheet
            .draft(id!("cuda.arch.native-no-gpu"), Severity::Error, line)
            .backend(Backend::Cuda)
            .affects(Affects::Build)
            .summary(format!(
                "`{name}` asks for the architecture of the GPU at hand, and {place} there is none"
            ))
            .fix(say::replace(self.sheet, line, "native", "all-major"))
    }

    /// Projects that build for the machine at hand where nothing else is said.
    fn left_to_chance(
        &self,
        command: &ShellCommand,
        configuration: &CmakeInvocation,
        names_archs: bool,
        drafts: &mut Vec<FindingDraft>,
    ) {
        let is_given_away =
            matches!(self.place, BuildPlace::Image | BuildPlace::Job(Fate::Kept | Fate::Published));
        let knows_better = configuration.native() == Some(false);
        let has_variants =
            configuration.get("GGML_CPU_ALL_VARIANTS").is_some_and(super::tools::build::Definition::is_on);
        if !configuration.is_ggml()
            || knows_better
            || self.place == BuildPlace::Elsewhere
            || command.tolerated
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
                self.sheet
                    .draft(id!("cuda.arch.native-no-gpu"), Severity::Warning, line)
                    .backend(Backend::Cuda)
                    .affects(Affects::Build)
                    .summary(format!("`{}` builds for the GPU at hand unless architectures are named, and here there is none", shown(&cuda.word.text)))
                    .fix(say::append(self.sheet, line, &cuda.word.text, flag)),
            );
        } else if is_given_away && configuration.tool != Tool::Make && !has_variants {
            let anchor = configuration.definitions.first().map_or("", |one| one.word.text.as_str());
            drafts.push(
                self.sheet
                    .draft(id!("file.native-cpu"), Severity::Warning, line)
                    .backend(Backend::Cpu)
                    .affects(Affects::Run)
                    .summary("ggml is built for the processor that builds it: others end with an illegal instruction")
                    .fix(say::append(self.sheet, line, anchor, "-DGGML_NATIVE=OFF")),
            );
        }
    }

    /// Flags for the processor at hand.
    pub fn flags(&self, name: &str, text: &str, line: usize, drafts: &mut Vec<FindingDraft>) {
        // Tests and measurements with such flags are fine; artifacts are often logs.
        let is_given_away = matches!(self.place, BuildPlace::Image | BuildPlace::Job(Fate::Published));
        if !is_given_away {
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
            self.sheet
                .draft(id!("file.native-cpu"), Severity::Warning, line)
                .backend(Backend::Cpu)
                .affects(Affects::Run)
                .summary(format!(
                    "{what} builds for the processor that builds it: others end with an illegal instruction"
                ))
                .fix(say::replace(self.sheet, line, flag, portable)),
        );
    }
}

/// A driver that is installed where only its host can have one.
#[must_use]
pub fn driver(sheet: &Sheet, driver: &DriverPackage, place: BuildPlace) -> FindingDraft {
    let line = driver.word.line;
    let name = &driver.word.text;
    let (severity, why) = match place {
        BuildPlace::Image => (
            Severity::Error,
            "the container runtime brings in the driver of the host, and another one beside it does not fit the kernel",
        ),
        _ => (Severity::Info, "a runner without a GPU has no use for it, and it takes minutes"),
    };
    let fix = match &driver.instead {
        Some(instead) => say::replace(sheet, line, name, instead),
        None => format!("delete `{}` from line {line}", shown(name)),
    };
    sheet
        .draft(id!("file.driver-in-image"), severity, line)
        .affects(Affects::Run)
        .summary(format!("`{}` installs {}: {why}", shown(name), driver.what))
        .fix(fix)
}

/// The toolkit of the distribution: old, or a second one.
#[must_use]
pub fn distribution(
    sheet: &Sheet,
    word: &ShellWord,
    release: Option<&Version>,
    other: Option<&Version>,
) -> Option<FindingDraft> {
    let line = word.line;
    let draft = |severity| {
        let draft = sheet.draft(id!("file.distro-toolkit"), severity, line);
        draft.backend(Backend::Cuda).affects(Affects::Build)
    };
    if let Some(other) = other {
        return Some(
            draft(Severity::Warning)
                .summary(format!(
                    "`{}` puts a second toolkit beside CUDA {}, and its nvcc comes first in PATH",
                    word.text,
                    other.release()
                ))
                .fix(say::replace(
                    sheet,
                    line,
                    &word.text,
                    &format!("cuda-nvcc-{}-{}", other.major(), other.minor()),
                )),
        );
    }
    let release = release?;
    let severity = if release.major() < 12 { Severity::Warning } else { Severity::Info };
    let newest = if release.major() < 12 {
        "cards newer than the RTX 30 or 40 series"
    } else {
        "cards of the RTX 50 series"
    };
    Some(
        draft(severity)
            .summary(format!("`{}` is CUDA {} here: it knows no {newest}", word.text, release.release()))
            .fix(format!("install `cuda-toolkit-12-9` from NVIDIA's repository in line {line}, or begin with `nvidia/cuda:12.9.1-devel-ubuntu24.04`")),
    )
}
