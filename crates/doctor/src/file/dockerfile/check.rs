//! The checks of a Dockerfile.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::model::{DockerSetting, DockerStage, Dockerfile};
use super::stage::StageWalk;
use crate::file::image::ImageName;
use crate::file::text::SourceText;
use crate::file::tools::packages;
use crate::file::{fix, tags};

/// All findings in a Dockerfile.
#[must_use]
pub fn check(source: &SourceText, file: &Dockerfile, cuda: &Description) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut walks: Vec<StageWalk<'_>> = Vec::new();
    for (index, stage) in file.stages.iter().enumerate() {
        let mut walk = StageWalk::new(source, file, index, cuda, &walks);
        walk.check_commands(&mut drafts);
        images(source, stage, walk.builds, &mut drafts);
        walks.push(walk);
    }
    let releases: Vec<_> = walks.iter().map(|walk| walk.toolkit.version.clone()).collect();
    if let Some(last) = file.stages.len().checked_sub(1) {
        let has_toolkit = walks.last().and_then(|walk| walk.toolkit.has_compiler);
        environment(source, file, last, has_toolkit, &mut drafts);
        graphics(source, file, last, &mut drafts);
        stub_left(source, file, last, &mut drafts);
        devel(source, file, last, &mut drafts);
        mixed(source, file, &releases, &mut drafts);
    }
    drafts
}

/// Reports base images and `COPY --from` images that can't be pulled.
fn images(source: &SourceText, stage: &DockerStage, builds: bool, drafts: &mut Vec<FindingDraft>) {
    let first = stage.image.as_ref().map(|image| (image.clone(), stage.line, builds));
    let copied =
        stage.copies.iter().filter_map(|copy| Some((ImageName::parse(&copy.from)?, copy.line, true)));
    for (image, line, builds) in first.into_iter().chain(copied) {
        let Some(problem) = tags::problem(&image, builds) else { continue };
        let written = source.line(line);
        let old = written
            .split_whitespace()
            .find(|word| word.contains("cuda") || word.contains('$'))
            .unwrap_or_default();
        drafts.push(
            source
                .draft(problem.id, problem.severity, line)
                .backend(Backend::Cuda)
                .summary(format!("`{image}` {}: {}", problem.what, problem.why))
                .fix(fix::replace(source, line, old, &problem.replacement)),
        );
    }
}

/// Checks the environment variables of the final image.
fn environment(
    source: &SourceText,
    file: &Dockerfile,
    last: usize,
    has_toolkit: Option<bool>,
    drafts: &mut Vec<FindingDraft>,
) {
    let stage = &file.stages[last];
    let gpu = file.image(last).and_then(ImageName::gpu);
    if let Some(path) = stage.setting("LD_LIBRARY_PATH") {
        drafts.extend(library_path(source, &path.value, path.line, has_toolkit));
    }
    for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
        let Some(setting) = stage.setting(name).filter(|_| gpu.is_some()) else { continue };
        drafts.extend(hidden(source, name, &setting.value, setting.line));
    }
    if let Some(setting) =
        stage.setting("HSA_OVERRIDE_GFX_VERSION").filter(|setting| !setting.value.is_empty())
    {
        let draft = source
            .draft(id!("rocm.override-dangerous"), Severity::Warning, setting.line)
            .backend(Backend::Rocm);
        drafts.push(
            draft
                .affects(Affects::Run)
                .summary(format!(
                    "the image makes every AMD GPU report itself as {}, including incompatible ones",
                    setting.value
                ))
                .fix(format!(
                    "delete line {} and set the variable when starting the container, only for the GPU that needs it",
                    setting.line
                )),
        );
    }
}

/// Reports an `LD_LIBRARY_PATH` with folders that hide the driver's libcuda. Also used for compose files and manifests.
///
/// A folder of stubs contains `libcuda.so` and not `libcuda.so.1`, the name that linked programs load (NVIDIA/nvidia-docker#1139).
/// Only programs that open `libcuda.so` get the stub (NVIDIA/warp#219), unless something adds the other name.
/// `has_toolkit`: whether the image contains the toolkit, and with it the stubs.
#[must_use]
pub fn library_path(
    source: &SourceText,
    value: &str,
    line: usize,
    has_toolkit: Option<bool>,
) -> Option<FindingDraft> {
    let entries = || value.split(':').filter(|entry| !entry.is_empty());
    let without =
        |bad: &dyn Fn(&str) -> bool| entries().filter(|entry| !bad(entry)).collect::<Vec<_>>().join(":");
    let is_stub = |entry: &str| entry.split('/').any(|part| part == "stubs");
    let is_compat = |entry: &str| entry.split('/').any(|part| part == "compat") && entry.contains("cuda");
    let (id, severity, bad, why): (_, _, &dyn Fn(&str) -> bool, _) = if entries().any(is_stub) {
        let (severity, why) = if source.has_code("stubs/libcuda.so.1") {
            (
                Severity::Error,
                "the stub library is loaded instead of the driver (error 34, CUDA_ERROR_STUB_LIBRARY)",
            )
        } else if has_toolkit == Some(false) {
            (Severity::Info, "the image does not contain this folder, because the toolkit is not installed")
        } else {
            (
                Severity::Warning,
                "programs that open `libcuda.so` without a version load the stub and fail with error 34",
            )
        };
        (id!("cuda.stub-at-runtime"), severity, &is_stub, why)
    } else if entries().any(is_compat) && !is_for_jetson(source) {
        let why = "forward compatibility works on data-centre GPUs only, others fail with error 804";
        (id!("nv.compat-on-geforce"), Severity::Warning, &is_compat, why)
    } else {
        return None;
    };
    let found = entries().find(|entry| bad(entry)).unwrap_or_default();
    let rest = without(bad);
    let fix = if rest.is_empty() || source.line(line).matches("LD_LIBRARY_PATH").count() == 0 {
        format!("remove `{found}` from `LD_LIBRARY_PATH` in line {line}; use `LIBRARY_PATH` for linking")
    } else {
        let old = source.line(line).split(['=', '"', '\'', ' ', ':']).find(|part| part.contains(found));
        let line_without = old.and_then(|_| without_entry(source, line, found));
        line_without.map_or_else(
            || {
                format!(
                    "remove `{found}` from `LD_LIBRARY_PATH` in line {line}; use `LIBRARY_PATH` for linking"
                )
            },
            |corrected| format!("change line {line} to `{corrected}`; use `LIBRARY_PATH` for linking"),
        )
    };
    Some(
        source
            .draft(id, severity, line)
            .backend(Backend::Cuda)
            .affects(Affects::Run)
            .summary(format!("`LD_LIBRARY_PATH` contains `{found}`: {why}"))
            .fix(fix),
    )
}

/// Whether a file is for Jetson or for servers with Arm processors, where forward compatibility is supported.
fn is_for_jetson(source: &SourceText) -> bool {
    let words = ["l4t", "L4T", "tegra", "TEGRA", "jetson", "JETSON", "aarch64-linux", "sbsa"];
    words.iter().any(|word| source.mentions(word))
}

/// The line with one entry of a search path removed.
fn without_entry(source: &SourceText, line: usize, entry: &str) -> Option<String> {
    let before = format!("{entry}:");
    let after = format!(":{entry}");
    let has = |text: &str| source.line(line).contains(text);
    let old = if has(&before) { before } else { Some(after).filter(|after| has(after))? };
    source.corrected(line, &old, "")
}

/// Reports a variable that hides all devices.
#[must_use]
pub fn hidden(source: &SourceText, name: &str, value: &str, line: usize) -> Option<FindingDraft> {
    let value = value.trim().trim_matches('"');
    let hides = match name {
        "NVIDIA_VISIBLE_DEVICES" => matches!(value, "none" | "void" | ""),
        _ => matches!(value, "-1" | "" | "none" | "NoDevFiles"),
    };
    let backend = if name.starts_with("HIP") { Backend::Rocm } else { Backend::Cuda };
    hides.then(|| {
        source
            .draft(id!("nv.device-hidden"), Severity::Warning, line)
            .backend(backend)
            .affects(Affects::Run)
            .summary(format!("`{name}={value}` hides every GPU from programs in the container"))
            .fix(format!("delete `{name}` from line {line}"))
    })
}

/// Reports an image that uses Vulkan without requesting the driver's graphics libraries.
fn graphics(source: &SourceText, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    let stage = &file.stages[last];
    let gpu = file.image(last).and_then(ImageName::gpu);
    let installed = file.chain(last).flat_map(|stage| &stage.commands).find_map(packages::vulkan);
    let started = stage.start.iter().find(|command| matches!(command.program(), "vulkaninfo" | "vkcube"));
    let line = installed.map(|word| word.line).or_else(|| started.map(|command| command.line));
    let Some(line) = line else { return };
    // Without the capability, CUDA still works, and programs with several backends use it.
    let severity = match (started, &gpu) {
        (Some(_), _) => Severity::Error,
        (None, Some(gpu)) if gpu.backend == Backend::Cuda => Severity::Info,
        _ => Severity::Warning,
    };
    let set = stage.setting("NVIDIA_DRIVER_CAPABILITIES");
    if let Some(setting) = set {
        drafts.extend(capabilities(source, &setting.value, setting.line, line, severity));
    } else if gpu.is_some_and(|gpu| gpu.defaults && !gpu.graphics) {
        drafts.push(
            source
                .draft(id!("ctr.caps-graphics"), severity, line)
                .evidence(source.evidence(stage.line))
                .backend(Backend::Vulkan)
                .affects(Affects::Run)
                .summary("the image uses Vulkan, but NVIDIA's base image requests only `compute,utility` from the container runtime")
                .fix("add the line `ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics` to the last stage"),
        );
    }
}

/// Reports driver capabilities without `graphics` for a program that uses Vulkan. `used`: the line that shows its use.
#[must_use]
pub fn capabilities(
    source: &SourceText,
    value: &str,
    line: usize,
    used: usize,
    severity: Severity,
) -> Option<FindingDraft> {
    let has = |name: &str| value.split(',').any(|part| part.trim() == name);
    if has("all") || has("graphics") || has("display") || value.contains('$') || value.contains("${{") {
        return None;
    }
    let new = if value.is_empty() { "all".to_owned() } else { format!("{value},graphics") };
    Some(
        source
            .draft(id!("ctr.caps-graphics"), severity, line)
            .evidence(source.evidence(used))
            .backend(Backend::Vulkan)
            .affects(Affects::Run)
            .summary(format!("`NVIDIA_DRIVER_CAPABILITIES={value}` does not include NVIDIA's Vulkan driver"))
            .fix(fix::replace(source, line, value, &new)),
    )
}

/// Reports a libcuda stub that remains in the image under the driver's name.
fn stub_left(source: &SourceText, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
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
            // In the system's folders, the container runtime's `ldconfig` replaces the link when it adds the driver.
            let is_replaced = links
                && words.last().is_some_and(|target| {
                    ["/usr/lib/", "/lib/", "/usr/lib64/", "/lib64/"]
                        .iter()
                        .any(|start| target.starts_with(start))
                });
            let is_unused = links
                && words.last().is_some_and(|target| target.contains("/stubs/"))
                && !file.chain(last).any(|stage| {
                    let path = stage.setting("LD_LIBRARY_PATH");
                    path.is_some_and(|path| path.value.contains("/stubs"))
                        || stage
                            .runs
                            .iter()
                            .any(|(_, text)| text.contains("ld.so.conf") && text.contains("/stubs"))
                });
            let severity = match (is_unused, is_replaced) {
                (true, _) => Severity::Info,
                (_, true) => Severity::Warning,
                _ => Severity::Error,
            };
            drafts.push(
                source
                    .draft(id!("cuda.stub-at-runtime"), severity, command.line)
                    .backend(Backend::Cuda)
                    .affects(Affects::Run)
                    .summary(match severity {
                        Severity::Error => "the libcuda stub stays in the image under the driver's name, and programs fail with error 34",
                        Severity::Warning => "the libcuda stub stays in the image under the driver's name: without a GPU programs fail with error 34, and with one only if the container runtime replaces the link",
                        Severity::Info => "the libcuda stub stays in the image under the driver's name, in a folder that the loader does not search",
                    })
                    .fix(format!(
                        "do this only in a build stage, or undo it in the `RUN` of line {}; for linking, `LIBRARY_PATH` is enough",
                        command.line
                    )),
            );
            return;
        }
    }
}

/// Reports a final stage that is based on a `devel` image.
fn devel(source: &SourceText, file: &Dockerfile, last: usize, drafts: &mut Vec<FindingDraft>) {
    let Some(image) = file.image(last) else { return };
    let is_devel = image.tag.as_deref().is_some_and(|tag| tag.split('-').any(|part| part == "devel"));
    let is_started = file.chain(last).any(|stage| stage.is_started);
    if !is_devel || !is_started || image.gpu().is_none() {
        return;
    }
    let line = file.chain(last).find(|stage| stage.image.is_some()).map_or(0, |stage| stage.line);
    let fix = if file.stages.len() > 1 {
        let runtime = source.corrected(line, "devel", "runtime");
        runtime.map_or_else(
            || format!("use the `runtime` image for the last stage in line {line}"),
            |corrected| {
                format!(
                    "change line {line} to `{corrected}`, unless the program compiles kernels at run time"
                )
            },
        )
    } else {
        format!(
            "name the stage in line {line} `build` and copy the program into a final stage `FROM {}`, unless it compiles kernels at run time",
            image.to_string().replace("-devel", "-runtime")
        )
    };
    drafts.push(
        source
            .draft(id!("file.devel-final"), Severity::Info, line)
            .backend(Backend::Cuda)
            .summary(format!("the final image is based on `{image}`, which contains the compiler: several GB that are not needed at run time"))
            .fix(fix),
    );
}

/// Reports files that are copied into an image with another major CUDA release.
fn mixed(
    source: &SourceText,
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
                source
                    .draft(id!("file.stage-mismatch"), Severity::Error, copy.line)
                    .evidence(source.evidence(file.stages[from].line))
                    .evidence(source.evidence(stage.line))
                    .backend(Backend::Cuda)
                    .affects(Affects::Run)
                    .summary(format!(
                        "files built with CUDA {} in stage `{}` are copied into an image with CUDA {}, whose libraries have other names",
                        other.release(),
                        copy.from,
                        own.release()
                    ))
                    .fix(format!(
                        "use the same CUDA release in both stages (lines {} and {})",
                        file.stages[from].line, stage.line
                    )),
            );
        }
    }
}

/// Whether an environment variable lists CUDA architectures.
pub(super) fn is_arch_variable(setting: &DockerSetting) -> bool {
    crate::file::tools::archs::VARIABLES.contains(&setting.name.as_str())
}
