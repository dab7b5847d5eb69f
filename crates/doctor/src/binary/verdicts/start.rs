//! Whether the file can start: platform, processor, loader and libraries.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole, ToolkitLibrary};
use gpubuild_host::library::search::LinuxLoader;
use gpubuild_host::{Arch, Os};
use gpubuild_object::graph::{EdgeTarget, GraphEdge};
use gpubuild_object::{ObjectFile, ObjectFormat, UnreadableObject, When};

use super::{BinarySubject, needs, quoted};

/// Findings about the format, the processor and the version of the system.
pub(super) fn platform(subject: &BinarySubject<'_>, binary: &ObjectFile) -> Vec<FindingDraft> {
    let facts = subject.case.facts;
    let here = facts.platform;
    let file = &subject.graph.objects[0].path;
    let header =
        Evidence::file(file.as_str(), format!("{} for {}", binary.format.label(), binary.machine.name));
    let draft = |id: DiagnosticId| {
        FindingDraft::new(id)
            .value("file", subject.file_name())
            .value("format", binary.format.label())
            .value("made_for", binary.machine.name)
            .value("machine", here.arch.id())
            .value("system", system_name(here.os))
            .evidence(header.clone())
    };
    if binary.format.os() != here.os {
        return vec![draft(id!("binary.wrong-system")).value("wanted", system_name(binary.format.os()))];
    }
    if !binary.machine.is(here.arch) {
        // 64-bit processors run 32-bit programs if their libraries are installed.
        let older = here.arch == Arch::X86_64 && binary.machine.name == "i386" && here.os != Os::Macos;
        let intel_on_arm = here.arch == Arch::Aarch64 && binary.machine.name == "x86_64";
        let translated = match here.os {
            Os::Windows => intel_on_arm || binary.machine.name == "i386",
            Os::Macos => intel_on_arm && subject.observations.translates,
            Os::Linux => false,
        };
        if translated {
            return vec![draft(id!("binary.emulated"))];
        }
        if !older {
            return vec![draft(id!("binary.wrong-processor"))];
        }
    }
    let has = facts
        .distro
        .as_ref()
        .and_then(|fact| fact.value.version.parse::<gpubuild_core::version::Version>().ok());
    match (&binary.system, has) {
        (Some(wanted), Some(has)) if binary.format == ObjectFormat::MachO && has < *wanted => {
            vec![
                draft(id!("binary.system-too-old"))
                    .value("wanted", wanted.as_str())
                    .value("has", has.as_str()),
            ]
        }
        _ => Vec::new(),
    }
}

fn system_name(os: Os) -> &'static str {
    match os {
        Os::Linux => "Linux",
        Os::Windows => "Windows",
        Os::Macos => "macOS",
    }
}

/// The file is built for another C library, or the loader that it names is missing.
pub(super) fn interpreter(subject: &BinarySubject<'_>, binary: &ObjectFile) -> Option<FindingDraft> {
    if binary.format != ObjectFormat::Elf {
        return None;
    }
    let facts = subject.case.facts;
    let family = facts.libc.as_ref().map(|fact| fact.value.family.as_str());
    let built_for = built_for(subject, binary);
    let libc = facts.libc.as_ref().and_then(|fact| fact.evidence.first());
    let file = &subject.graph.objects[0].path;
    let other_family = |built: &str, has: &str| {
        let reason = binary.interpreter.clone().unwrap_or_else(|| format!("built for {built}"));
        let draft = FindingDraft::new(id!("binary.libc-family"))
            .value("file", subject.file_name())
            .value("built", built)
            .value("has", has)
            .evidence(Evidence::file(file.as_str(), reason));
        libc.cloned().into_iter().fold(draft, FindingDraft::evidence)
    };
    let found = subject.graph.interpreter.as_ref().map(|(_, found)| *found);
    if let (Some(built), Some(has @ ("glibc" | "musl"))) = (built_for, family)
        && built != has
        && found != Some(true)
    {
        return Some(other_family(built, has));
    }
    let (path, false) = subject.graph.interpreter.as_ref()? else { return None };
    let usual = match facts.platform.arch {
        Arch::X86_64 => "/lib64/ld-linux-x86-64.so.2",
        Arch::Aarch64 => "/lib/ld-linux-aarch64.so.1",
    };
    let is_nixos = facts.distro.as_ref().is_some_and(|fact| fact.value.id == "nixos");
    // A recording without any C library proves nothing about its loader.
    let is_usual = path.as_str() == usual && family == Some("glibc") && !is_nixos;
    if family.is_none() || (is_usual && !subject.graph.knows_system) {
        return None;
    }
    let id = match binary.machine.name {
        "i386" => id!("binary.loader-32-bit"),
        _ => id!("binary.loader-missing"),
    };
    let draft = FindingDraft::new(id).value("file", subject.file_name()).value("loader", path.as_str());
    let draft = draft.evidence(Evidence::file(path.as_str(), "absent"));
    let nix = "enable nix-ld (`programs.nix-ld.enable = true;`), or patch the program with `patchelf --set-interpreter`";
    Some(if is_nixos { draft.fix(nix) } else { draft })
}

/// The C library that a file was built for, if it can be determined.
fn built_for(subject: &BinarySubject<'_>, binary: &ObjectFile) -> Option<&'static str> {
    let wants_musl = |name: &str| name.starts_with("libc.musl-") || name.starts_with("ld-musl-");
    if binary.needed.iter().any(|needed| wants_musl(&needed.name)) {
        return Some("musl");
    }
    let wants_glibc = |version: &String| version.starts_with("GLIBC_");
    if binary.needed.iter().any(|needed| needed.versions.iter().any(wants_glibc)) {
        return Some("glibc");
    }
    binary.interpreter.as_ref()?;
    match subject.graph.loader? {
        LinuxLoader::Glibc => Some("glibc"),
        LinuxLoader::Musl => Some("musl"),
    }
}

/// Findings about libraries that are missing or that the loader rejects.
pub(super) fn libraries(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    let mut absent: Vec<&GraphEdge> = Vec::new();
    for link in &subject.graph.links {
        let library = libraries::find(&link.needed.name);
        let is_optional = link.needed.when == When::FirstCall
            && library.is_some_and(|library| library.role == LibraryRole::Driver);
        let first = !is_optional && !absent.iter().any(|known| known.needed.name == link.needed.name);
        match &link.target {
            EdgeTarget::Missing if matches!(link.needed.when, When::Start | When::FirstCall) && first => {
                absent.push(link);
            }
            EdgeTarget::Foreign(found) if link.needed.when == When::Start && first => {
                absent.push(link);
                let draft = FindingDraft::new(id!("binary.library-wrong-processor"))
                    .value("library", link.needed.name.as_str())
                    .value("machine", subject.case.facts.platform.arch.id())
                    .value("where", found.first().map(|found| found.path.to_string()).unwrap_or_default())
                    .evidence(needs(&subject.graph.objects[link.from].path, &link.needed.name));
                let seen = found.iter().map(|found| Evidence::file(found.path.as_str(), "another processor"));
                drafts.push(seen.fold(draft, FindingDraft::evidence));
            }
            _ => {}
        }
    }
    absent.retain(|link| link.target == EdgeTarget::Missing);
    drafts.extend(missing(subject, &absent));
    drafts.extend(refused(subject));
    drafts
}

/// Findings about libraries that exist and cannot be loaded.
fn refused(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let wanted = subject.file().map(|binary| binary.machine.name);
    let mut drafts = Vec::new();
    for (index, object) in subject.graph.objects.iter().enumerate().skip(1) {
        let opened = subject.link_of(index).is_none_or(|link| link.needed.when != When::Start);
        let why = match &object.contents {
            Err(
                UnreadableObject::Damaged(_) | UnreadableObject::Foreign(_) | UnreadableObject::Refused(_),
            ) => object.contents.as_ref().err().map(ToString::to_string),
            Ok(binary) if Some(binary.machine.name) != wanted => {
                Some(format!("it is for {}", binary.machine.name))
            }
            _ => None,
        };
        let Some(why) = why.filter(|_| !opened) else { continue };
        let needed_by = object.parent.map(|parent| needs(&subject.graph.objects[parent].path, object.name()));
        let draft = FindingDraft::new(id!("binary.library-refused"))
            .value("library", object.path.as_str())
            .value("why", why.as_str())
            .evidence(Evidence::file(object.path.as_str(), why.as_str()));
        drafts.push(needed_by.into_iter().fold(draft, FindingDraft::evidence));
    }
    drafts
}

/// Findings about missing libraries. Libraries with the same origin are one finding.
fn missing(subject: &BinarySubject<'_>, links: &[&GraphEdge]) -> Vec<FindingDraft> {
    let mut groups: BTreeMap<(DiagnosticId, String), Vec<&GraphEdge>> = BTreeMap::new();
    for link in links {
        let id = id_of(subject, link);
        let place =
            match (subject.observations.elsewhere.get(&link.needed.name), libraries::find(&link.needed.name))
            {
                (Some(folder), _) => folder.to_string(),
                (None, Some(library)) if library.role == LibraryRole::Driver => "driver".to_owned(),
                (None, Some(library)) => library.what.clone(),
                (None, None) => String::new(),
            };
        groups.entry((id, place)).or_default().push(link);
    }
    groups.into_iter().map(|((id, place), links)| missing_group(subject, id, &place, &links)).collect()
}

fn id_of(subject: &BinarySubject<'_>, link: &GraphEdge) -> DiagnosticId {
    let known = libraries::find(&link.needed.name);
    if subject.observations.elsewhere.contains_key(&link.needed.name) {
        return id!("binary.library-not-searched");
    }
    if link.needed.when == When::FirstCall {
        return id!("binary.library-missing-later");
    }
    match known {
        Some(library) if library.role == LibraryRole::Driver => id!("binary.driver-missing"),
        Some(ToolkitLibrary { missing: Some(id), .. }) => *id,
        _ => id!("binary.library-missing"),
    }
}

fn missing_group(
    subject: &BinarySubject<'_>,
    id: DiagnosticId,
    place: &str,
    links: &[&GraphEdge],
) -> FindingDraft {
    let known = links.first().and_then(|link| libraries::find(&link.needed.name));
    let names = quoted(links.iter().map(|link| &link.needed.name));
    let verb = if links.len() == 1 { "is" } else { "are" };
    let mut draft = FindingDraft::new(id)
        .value("file", subject.file_name())
        .value("libraries", names.as_str())
        .value("verb", verb)
        .value("folder", place);
    for link in links {
        let from = &subject.graph.objects[link.from].path;
        draft = draft.evidence(needs(from, &link.needed.name));
    }
    if id == "binary.library-not-searched" {
        return draft;
    }
    let what = known.map(|library| {
        let release = links.iter().find_map(|link| libraries::release(&link.needed.name));
        let of = match (release, library.major.as_deref()) {
            (Some(release), Some("cuda")) => format!(" (CUDA {release})"),
            (Some(release), Some("rocm")) => format!(" (ROCm {})", release.major()),
            _ => String::new(),
        };
        format!("{}{of}", library.what)
    });
    if let Some(library) = known {
        let package = for_distribution(subject.case.facts, &library.packages);
        draft = package.map_or(draft.clone(), |package| draft.value("package", package.as_str()));
        draft = library.backend.map_or(draft.clone(), |backend| draft.backend(backend));
        draft = library.toolkit.as_deref().map_or(draft.clone(), |toolkit| draft.about(toolkit));
    }
    let fix = known.and_then(|library| library.fix.clone()).unwrap_or_else(|| own_fix(subject, links, known));
    let summary = match what {
        Some(what) => format!("{names} {verb} missing: {what}"),
        None => format!("{names} {verb} missing"),
    };
    match id.as_str() {
        "binary.driver-missing" => draft.backend(Backend::Cuda),
        "binary.library-missing-later" => draft.value("how", fix.as_str()).fix(fix),
        _ => draft.summary(summary).value("how", fix.as_str()).fix(fix),
    }
}

/// The fix for libraries without one in the table.
fn own_fix(subject: &BinarySubject<'_>, links: &[&GraphEdge], known: Option<&ToolkitLibrary>) -> String {
    let release = links.iter().find_map(|link| libraries::release(&link.needed.name));
    let beside = match subject.case.facts.platform.os {
        Os::Windows => "place the files next to the program",
        Os::Linux => "place the files next to the program and link it with `-Wl,-rpath,'$ORIGIN'`",
        Os::Macos => "place the files next to the program and link it with `-Wl,-rpath,@loader_path`",
    };
    match (known.and_then(|library| library.backend), release) {
        (Some(Backend::Cuda), Some(release)) => {
            format!("install the libraries of CUDA {}, or {beside}", release.major())
        }
        (Some(Backend::Rocm), Some(release)) => {
            format!(
                "install ROCm {}, or use a program that was built for the installed ROCm",
                release.major()
            )
        }
        _ => format!("install the package that contains it, or {beside}"),
    }
}
