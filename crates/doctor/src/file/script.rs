//! Checks shell scripts, and the text of build scripts in other languages.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::building::{self, BuildPlace, CommandChecker};
use super::container;
use super::fix;
use super::image::ImageName;
use super::shell::{self, Dialect, ShellCommand, ShellWord};
use super::text::{ScriptText, SourceText};
use super::tools::{build, docker, packages, smi};

/// All findings in a shell script.
#[must_use]
pub fn check_shell(source: &SourceText, text: &str, cuda: &Description) -> Vec<FindingDraft> {
    let mut script = ScriptText::default();
    for (number, line) in source.lines() {
        script.push_line(number, line);
    }
    // An unset variable keeps its reference, so nothing is concluded from it.
    let commands =
        if text.is_empty() { Vec::new() } else { shell::commands(&script, Dialect::Posix, &|_| None) };
    let mut drafts = Vec::new();
    check_commands(source, &commands, cuda, &mut drafts);
    drafts
}

/// Checks commands that run on a machine that may have a GPU.
fn check_commands(
    source: &SourceText,
    commands: &[ShellCommand],
    cuda: &Description,
    drafts: &mut Vec<FindingDraft>,
) {
    // With several toolkits, the script selects one by a condition.
    let mut installed = commands.iter().filter_map(packages::toolkit).filter(|one| !one.is_distribution);
    let only = installed.next().filter(|_| installed.next().is_none());
    let release = only.and_then(|one| one.version);
    let checker = CommandChecker {
        source,
        cuda,
        place: BuildPlace::Elsewhere,
        release: release.as_ref(),
        origin: &|_| None,
    };
    let lookup = |_: &str| -> Option<ShellWord> { None };
    for command in commands {
        let configuration = build::configuration(command, &lookup);
        if command.tolerated {
            drafts.extend(building::scraped(source, command));
        } else {
            checker.check_command(command, configuration.as_ref(), &lookup, drafts);
        }
        check_docker(source, command, drafts);
    }
}

/// Checks the image and the GPU of `docker run` and `docker pull`.
pub(super) fn check_docker(source: &SourceText, command: &ShellCommand, drafts: &mut Vec<FindingDraft>) {
    let pulled = docker::pulled_cuda(command);
    if let Some((word, image)) = pulled {
        drafts.extend(container::image(source, &word.text, &image, word.line));
    }
    let Some(docker) = docker::docker(command) else { return };
    if let Some(image) = ImageName::parse(&docker.image.text) {
        drafts.extend(container::image(source, &docker.image.text, &image, docker.image.line));
    }
    if docker.may_have_gpu || command.tolerated || docker.program != Some("nvidia-smi") {
        return;
    }
    let line = docker.image.line;
    drafts.push(
        source
            .draft(id!("ctr.no-gpus-flag"), Severity::Warning, line)
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .summary(
                "the container runs `nvidia-smi` without a GPU, unless NVIDIA's runtime is Docker's default",
            )
            .fix(fix::replace(source, line, " run", " run --gpus all")),
    );
}

/// All findings in the text of a build script.
#[must_use]
pub fn check_text(source: &SourceText, text: &str) -> Vec<FindingDraft> {
    if !text.contains("nvidia-smi") || source.mentions("UMD") {
        return Vec::new();
    }
    let of_line = |(number, line): (usize, &str)| {
        Some(building::smi_text(source, &smi::scraped_by_code(line)?, number))
    };
    source.lines().filter_map(of_line).collect()
}
