//! What is wrong in a Dockerfile.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::model::{DockerSetting, DockerStage, Dockerfile};
use super::stage::StageWalk;
use crate::file::image::ImageName;
use crate::file::text::Sheet;
use crate::file::tools::packages;
use crate::file::{say, tags};

/// Every finding in a Dockerfile.
#[must_use]
pub fn check(sheet: &Sheet, file: &Dockerfile, cuda: &Description) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut walks: Vec<StageWalk<'_>> = Vec::new();
    for (index, stage) in file.stages.iter().enumerate() {
        let mut walk = StageWalk::new(sheet, file, index, cuda, &walks);
        walk.commands(&mut drafts);
        images(sheet, stage, walk.builds, &mut drafts);
        walks.push(walk);
    }
    let releases: Vec<_> = walks.iter().map(|walk| walk.toolkit.version.clone()).collect();
    if let Some(last) = file.stages.len().checked_sub(1) {
        environment(sheet, file, last, &mut drafts);
        graphics(sheet, file, last, &mut drafts);
        stub_left(sheet, file, last, &mut drafts);
        devel(sheet, file, last, &mut drafts);
        mixed(sheet, file, &releases, &mut drafts);
    }
    drafts
}

/// Images that can't be pulled.
fn images(sheet: &Sheet, stage: &DockerStage, builds: bool, drafts: &mut Vec<FindingDraft>) {
    let first = stage.image.as_ref().map(|image| (image.clone(), stage.line, builds));
    let copied =
        stage.copies.iter().filter_map(|copy| Some((ImageName::parse(&copy.from)?, copy.line, true)));
    for (image, line, builds) in first.into_iter().chain(copied) {
        let Some(problem) = tags::problem(&image, builds) else { continue };
        let written = sheet.line(line);
        let old = written
            .split_whitespace()
            .find(|word| word.contains("cuda") || word.contains('$'))
            .unwrap_or_default();
        drafts.push(
            sheet
                .draft(problem.id, problem.severity, line)
                .backend(Backend::Cuda)
                .summary(format!("`{image}` {}: {}", problem.what, problem.why))
                .fix(say::replace(sheet, line, old, &problem.instead)),
        );
    }
}

/// Variables that the image carries to where it runs.
fn environment(sheet: &Sheet, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    let stage = &file.stages[last];
    let gpu = file.image(last).and_then(ImageName::gpu);
    if let Some(path) = stage.setting("LD_LIBRARY_PATH") {
        drafts.extend(library_path(sheet, &path.value, path.line));
    }
    for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
        let Some(setting) = stage.setting(name).filter(|_| gpu.is_some()) else { continue };
        drafts.extend(hidden(sheet, name, &setting.value, setting.line));
    }
    if let Some(setting) =
        stage.setting("HSA_OVERRIDE_GFX_VERSION").filter(|setting| !setting.value.is_empty())
    {
        let draft = sheet
            .draft(id!("rocm.override-dangerous"), Severity::Warning, setting.line)
            .backend(Backend::Rocm);
        drafts.push(
            draft
                .affects(Affects::Run)
                .summary(format!(
                    "the image tells every AMD GPU to pass for {}, also those that are not like it",
                    setting.value
                ))
                .fix(format!(
                    "delete line {} and set the variable where the container is started, for the one card that needs it",
                    setting.line
                )),
        );
    }
}

/// A search path that finds the wrong driver. Compose files and manifests have the same.
#[must_use]
pub fn library_path(sheet: &Sheet, value: &str, line: usize) -> Option<FindingDraft> {
    let entries = || value.split(':').filter(|entry| !entry.is_empty());
    let without =
        |bad: &dyn Fn(&str) -> bool| entries().filter(|entry| !bad(entry)).collect::<Vec<_>>().join(":");
    let is_stub = |entry: &str| entry.split('/').any(|part| part == "stubs");
    let is_compat = |entry: &str| entry.split('/').any(|part| part == "compat") && entry.contains("cuda");
    let (id, severity, bad, why): (_, _, &dyn Fn(&str) -> bool, _) = if entries().any(is_stub) {
        let why = "the stub library is loaded instead of the driver: error 34, CUDA_ERROR_STUB_LIBRARY";
        (id!("cuda.stub-at-runtime"), Severity::Error, &is_stub, why)
    } else if entries().any(is_compat) {
        let why = "it works on data-centre cards only; others fail with error 804";
        (id!("nv.compat-on-geforce"), Severity::Warning, &is_compat, why)
    } else {
        return None;
    };
    let found = entries().find(|entry| bad(entry)).unwrap_or_default();
    let rest = without(bad);
    let fix = if rest.is_empty() || sheet.line(line).matches("LD_LIBRARY_PATH").count() == 0 {
        format!("take `{found}` out of LD_LIBRARY_PATH in line {line}; for linking use LIBRARY_PATH")
    } else {
        let old = sheet.line(line).split(['=', '"', '\'', ' ', ':']).find(|part| part.contains(found));
        let line_without = old.and_then(|_| without_entry(sheet, line, found));
        line_without.map_or_else(
            || format!("take `{found}` out of LD_LIBRARY_PATH in line {line}; for linking use LIBRARY_PATH"),
            |corrected| format!("write line {line} as `{corrected}`; for linking use LIBRARY_PATH"),
        )
    };
    Some(
        sheet
            .draft(id, severity, line)
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .summary(format!("LD_LIBRARY_PATH holds `{found}`: {why}"))
            .fix(fix),
    )
}

/// The line without one entry of a path.
fn without_entry(sheet: &Sheet, line: usize, entry: &str) -> Option<String> {
    let before = format!("{entry}:");
    let after = format!(":{entry}");
    let has = |text: &str| sheet.line(line).contains(text);
    let old = if has(&before) { before } else { Some(after).filter(|after| has(after))? };
    sheet.corrected(line, &old, "")
}

/// A variable that hides every device.
#[must_use]
pub fn hidden(sheet: &Sheet, name: &str, value: &str, line: usize) -> Option<FindingDraft> {
    let value = value.trim().trim_matches('"');
    let hides = match name {
        "NVIDIA_VISIBLE_DEVICES" => matches!(value, "none" | "void" | ""),
        _ => matches!(value, "-1" | "" | "none" | "NoDevFiles"),
    };
    let backend = if name.starts_with("HIP") { Backend::Rocm } else { Backend::Cuda };
    hides.then(|| {
        sheet
            .draft(id!("nv.device-hidden"), Severity::Warning, line)
            .backend(backend)
            .affects(Affects::Run)
            .summary(format!("`{name}={value}` hides every GPU from what runs in the container"))
            .fix(format!("delete `{name}` from line {line}"))
    })
}

/// Vulkan in an image whose driver comes without its graphics half.
fn graphics(sheet: &Sheet, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    let stage = &file.stages[last];
    let gpu = file.image(last).and_then(ImageName::gpu);
    let installed = file.chain(last).flat_map(|stage| &stage.commands).find_map(packages::vulkan);
    let started = stage.start.iter().find(|command| matches!(command.program(), "vulkaninfo" | "vkcube"));
    let line = installed.map(|word| word.line).or_else(|| started.map(|command| command.line));
    let Some(line) = line else { return };
    let set = stage.setting("NVIDIA_DRIVER_CAPABILITIES");
    if let Some(setting) = set {
        drafts.extend(capabilities(sheet, &setting.value, setting.line, line));
    } else if gpu.is_some_and(|gpu| gpu.defaults && !gpu.graphics) {
        drafts.push(
            sheet
                .draft(id!("ctr.caps-graphics"), Severity::Warning, line)
                .evidence(sheet.evidence(stage.line))
                .backend(Backend::Vulkan)
                .affects(Affects::Run)
                .summary("the image uses Vulkan, and NVIDIA's base image asks the runtime for `compute,utility` only")
                .fix("add the line `ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics` to the last stage"),
        );
    }
}

/// Capabilities without graphics where Vulkan is used.
#[must_use]
pub fn capabilities(sheet: &Sheet, value: &str, line: usize, used: usize) -> Option<FindingDraft> {
    let has = |name: &str| value.split(',').any(|part| part.trim() == name);
    if has("all") || has("graphics") || has("display") || value.contains('$') || value.contains("${{") {
        return None;
    }
    let new = if value.is_empty() { "all".to_owned() } else { format!("{value},graphics") };
    Some(
        sheet
            .draft(id!("ctr.caps-graphics"), Severity::Error, line)
            .evidence(sheet.evidence(used))
            .backend(Backend::Vulkan)
            .affects(Affects::Run)
            .summary(format!("`NVIDIA_DRIVER_CAPABILITIES={value}` leaves Vulkan without NVIDIA's driver"))
            .fix(say::replace(sheet, line, value, &new)),
    )
}

/// A stub that stays in the image under the name of the driver.
fn stub_left(sheet: &Sheet, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    for stage in file.chain(last) {
        for (index, command) in stage.commands.iter().enumerate() {
            let words: Vec<&str> = command.arguments().collect();
            let has_stub = words.iter().any(|word| word.contains("/stubs"));
            let links = command.program() == "ln"
                && words.iter().any(|word| word.contains("stubs/libcuda.so"))
                && words.iter().any(|word| word.ends_with("libcuda.so.1"));
            let run = stage.runs.iter().rfind(|(line, _)| *line <= command.line);
            let configures = command.program() == "echo"
                && has_stub
                && run.is_some_and(|(_, text)| text.contains("ld.so.conf"));
            if !(links || configures) {
                continue;
            }
            let is_removed = stage.commands[index + 1..].iter().any(|later| {
                let removes = matches!(later.program(), "rm" | "unlink");
                removes
                    && later
                        .arguments()
                        .any(|word| word.contains("libcuda.so") || word.contains("ld.so.conf"))
            });
            if is_removed {
                continue;
            }
            drafts.push(
                sheet
                    .draft(id!("cuda.stub-at-runtime"), Severity::Error, command.line)
                    .backend(Backend::Cuda)
                    .affects(Affects::Run)
                    .summary("the stub of libcuda stays in the image under the driver's name: programs fail with error 34")
                    .fix(format!(
                        "do this in a build stage only, or undo it in the same `RUN` as line {}; for linking `LIBRARY_PATH` is enough",
                        command.line
                    )),
            );
            return;
        }
    }
}

/// A compiler that nobody uses travels with the program.
fn devel(sheet: &Sheet, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    let Some(image) = file.image(last) else { return };
    let is_devel = image.tag.as_deref().is_some_and(|tag| tag.split('-').any(|part| part == "devel"));
    let is_started = file.chain(last).any(|stage| stage.is_started);
    if !is_devel || !is_started || image.gpu().is_none() {
        return;
    }
    let line = file.chain(last).find(|stage| stage.image.is_some()).map_or(0, |stage| stage.line);
    let fix = if file.stages.len() > 1 {
        let runtime = sheet.corrected(line, "devel", "runtime");
        runtime.map_or_else(
            || format!("begin the last stage with the `runtime` image in line {line}"),
            |corrected| {
                format!(
                    "write line {line} as `{corrected}`, unless the program compiles kernels while it runs"
                )
            },
        )
    } else {
        format!(
            "name the stage of line {line} `build` and copy the program into a last stage `FROM {}`, unless it compiles kernels while it runs",
            image.to_string().replace("-devel", "-runtime")
        )
    };
    drafts.push(
        sheet
            .draft(id!("file.devel-final"), Severity::Info, line)
            .backend(Backend::Cuda)
            .summary(format!("the image that is shipped is `{image}`: it carries the compiler, several GB that running does not need"))
            .fix(fix),
    );
}

/// Programs copied into an image with another major release of the toolkit.
fn mixed(
    sheet: &Sheet,
    file: &Dockerfile,
    releases: &[Option<gpubuild_core::version::Version>],
    drafts: &mut Vec<FindingDraft>,
) {
    for (index, stage) in file.stages.iter().enumerate() {
        let Some(own) = &releases[index] else { continue };
        for copy in &stage.copies {
            let Some(from) = file.named(&copy.from).filter(|from| *from < index) else { continue };
            let Some(other) = &releases[from] else { continue };
            let is_toolkit = copy.paths.iter().any(|path| path.contains("/cuda"));
            if other.major() == own.major() || is_toolkit {
                continue;
            }
            drafts.push(
                sheet
                    .draft(id!("file.stage-mismatch"), Severity::Error, copy.line)
                    .evidence(sheet.evidence(file.stages[from].line))
                    .evidence(sheet.evidence(stage.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Run)
                    .summary(format!(
                        "what stage `{}` builds with CUDA {} is copied into an image with CUDA {}: its libraries have other names",
                        copy.from,
                        other.release(),
                        own.release()
                    ))
                    .fix(format!(
                        "begin both stages with the same release: lines {} and {}",
                        file.stages[from].line, stage.line
                    )),
            );
        }
    }
}

/// Whether a variable of the environment asks for architectures.
pub(super) fn is_arch_variable(setting: &DockerSetting) -> bool {
    crate::file::tools::archs::VARIABLES.contains(&setting.name.as_str())
}
