//! Drafts of the findings about audited files, one per kind of problem, with functions or symbols as evidence. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::Processor;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_linker::symbols;
use gpubuild_plan::plan::bytes;

use super::level::{ClassifiedFunctions, FeatureUse};
use super::structure::{MsvcRuntime, Structure};
use super::{AuditLimits, AuditSubject, linkage};

/// Maximum number of examples per finding.
const SHOWN: usize = 3;

/// The instruction sets that code may use, for the text of findings.
pub(super) struct IsaRequirement<'a> {
    pub(super) processor: &'a Processor,
    pub(super) description: &'a str,
    pub(super) allowed_by: &'a [String],
    pub(super) cpu_query: Option<&'a str>,
}

fn about(id: DiagnosticId, subject: &AuditSubject<'_>) -> FindingDraft {
    FindingDraft::new(id).value("file", subject.path.as_str())
}

/// A list of up to three names and the number of omitted ones.
fn short_list(names: &BTreeSet<&str>) -> String {
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Functions that use more than the allowed instruction sets.
pub(super) fn levels(
    subject: &AuditSubject<'_>,
    classified: &ClassifiedFunctions,
    requirement: &IsaRequirement<'_>,
) -> Vec<FindingDraft> {
    let lists = [
        (id!("audit.isa.above-promise"), &classified.above),
        (id!("audit.isa.unguarded"), &classified.unguarded),
        (id!("audit.isa.perhaps-dispatched"), &classified.perhaps),
    ];
    lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(id, list)| isa(id, subject, list, requirement))
        .collect()
}

fn isa(
    id: DiagnosticId,
    subject: &AuditSubject<'_>,
    list: &[FeatureUse],
    requirement: &IsaRequirement<'_>,
) -> FindingDraft {
    let features: BTreeSet<&str> =
        list.iter().flat_map(|one| &one.features).map(String::as_str).collect_set();
    let functions: BTreeSet<&str> = list.iter().map(|one| one.function.as_str()).collect_set();
    let by = if requirement.allowed_by.is_empty() {
        "the default level".to_owned()
    } else {
        requirement.allowed_by.join(", ")
    };
    let wanted = list.iter().flat_map(|one| one.features.iter().cloned()).collect();
    let level = requirement.processor.level(&wanted).unwrap_or("no level");
    let mut draft = about(id, subject)
        .value("functions", short_list(&functions))
        .value("count", functions.len().to_string())
        .value("features", features.into_iter().collect::<Vec<_>>().join(" "))
        .value("promised", requirement.description)
        .value("by", by)
        .value("level", level)
        .value("asks", requirement.cpu_query.unwrap_or("nothing"));
    for one in list.iter().take(SHOWN) {
        let place = match &one.member {
            Some(member) => format!("{}({member})", subject.path),
            None => subject.path.to_string(),
        };
        let value = format!("{}: {:#x}: {}", one.function, one.address, one.instruction);
        draft = draft.evidence(Evidence::file(place, value));
    }
    draft
}

/// Code for the processor of the build machine.
pub(super) fn native(subject: &AuditSubject<'_>, by: &[String]) -> Option<FindingDraft> {
    // Executables are skipped: the archives and libraries that they are linked from are reported.
    let by_options = by.join(", ");
    (subject.kind() != "executable").then(|| about(id!("audit.isa.native"), subject).value("by", by_options))
}

/// Code for a processor that gpubuild does not disassemble.
pub(super) fn unread(subject: &AuditSubject<'_>) -> Option<FindingDraft> {
    let machine = subject.binary.as_ref().map_or("another processor", |binary| binary.machine.name);
    let has_code = subject.codes.as_ref().is_ok_and(|codes| !codes.is_empty());
    has_code.then(|| about(id!("audit.isa.unread"), subject).value("machine", machine))
}

/// A file that cannot be read.
pub(super) fn unreadable(path: &HostPath, why: &str) -> FindingDraft {
    FindingDraft::new(id!("audit.file.unreadable"))
        .value("file", path.as_str())
        .value("why", why)
        .evidence(Evidence::file(path.as_str(), why))
}

/// A file that changed after the build.
pub(super) fn changed(path: &HostPath) -> FindingDraft {
    FindingDraft::new(id!("audit.file.changed"))
        .value("file", path.as_str())
        .evidence(Evidence::file(path.as_str(), "its hash is not the one in the manifest"))
}

/// The findings about segments, relocations, debug information and symbol versions.
pub(super) fn structure(
    subject: &AuditSubject<'_>,
    structure: &Structure,
    limits: &AuditLimits,
) -> Vec<FindingDraft> {
    let path = subject.path.as_str();
    let mut drafts = Vec::new();
    if structure.executable_stack {
        let draft = about(id!("audit.segments.executable-stack"), subject);
        drafts.push(draft.evidence(Evidence::file(path, "PT_GNU_STACK with PF_X")));
    }
    if let Some(at) = structure.writable_code.first() {
        let draft = about(id!("audit.segments.writable-code"), subject);
        drafts.push(draft.evidence(Evidence::file(path, format!("PT_LOAD at {at:#x} with PF_W and PF_X"))));
    }
    if structure.text_relocations {
        let draft = about(id!("audit.code.text-relocations"), subject);
        drafts.push(draft.evidence(Evidence::file(path, "DT_TEXTREL")));
    }
    if !structure.fixed.is_empty() {
        let members: BTreeSet<&str> = structure.fixed.iter().map(|(member, _)| member.as_str()).collect_set();
        let mut draft = about(id!("audit.code.not-pic"), subject).value("members", short_list(&members));
        for (member, symbol) in structure.fixed.iter().take(SHOWN) {
            let value = format!("R_X86_64_32 to `{symbol}`");
            draft = draft.evidence(Evidence::file(format!("{path}({member})"), value));
        }
        drafts.push(draft);
    }
    if structure.debug_info {
        drafts.push(about(id!("audit.contents.debug-info"), subject));
    }
    drafts.extend(versions(subject, structure, limits));
    drafts
}

/// Symbol versions that are newer than the limit.
fn versions(subject: &AuditSubject<'_>, structure: &Structure, limits: &AuditLimits) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for (kind, floor) in &limits.versions {
        let Some(versions) = structure.versions.get(kind) else { continue };
        let number = |text: &str| text.parse::<Version>().ok();
        let mut above: Vec<(Version, &BTreeSet<String>)> = versions
            .iter()
            .filter_map(|(text, symbols)| Some((number(text)?, symbols)))
            .filter(|(version, _)| version > floor)
            .collect();
        above.sort_indirect_by(|left, right| right.0.cmp(&left.0));
        let Some((highest, _)) = above.first() else { continue };
        let mut draft = about(id!("audit.libc.above-floor"), subject)
            .value("version", format!("{kind}_{highest}"))
            .value("floor", format!("{kind}_{floor}"));
        for (version, symbols) in above.iter().take(SHOWN) {
            let symbols: BTreeSet<&str> = symbols.iter().map(String::as_str).collect_set();
            let value = format!("{kind}_{version} for {}", short_list(&symbols));
            draft = draft.evidence(Evidence::file(subject.path.as_str(), value));
        }
        drafts.push(draft);
    }
    drafts
}

/// A file that exceeds the maximum size.
pub(super) fn budget(subject: &AuditSubject<'_>, limits: &AuditLimits) -> Option<FindingDraft> {
    let (max_size, text) = limits.max_size.as_ref()?;
    let size = subject.bytes;
    (size > *max_size).then(|| {
        about(id!("audit.size.over-budget"), subject)
            .value("size", bytes::show(size))
            .value("budget", text)
            .evidence(Evidence::file(subject.path.as_str(), format!("{size} bytes")))
    })
}

/// Architectures that the tree was configured for but for which the file contains no device code.
pub(super) fn device_code(subject: &AuditSubject<'_>) -> Option<FindingDraft> {
    let (built, tree) = (subject.built?, subject.tree?);
    let has = |arch: &str| {
        built.device_code.iter().any(|code| code.arch == arch || code.arch.split(':').next() == Some(arch))
    };
    let has_prefix = |start: &str| built.device_code.iter().any(|code| code.arch.starts_with(start));
    let mut expected: Vec<String> = Vec::new();
    let list = |name: &str| tree.cache.get(name).into_iter().flat_map(|value| value.split(';'));
    if has_prefix("sm_") || has_prefix("compute_") {
        expected.extend(list("CMAKE_CUDA_ARCHITECTURES").flat_map(cuda_codes));
    }
    if has_prefix("gfx") {
        expected.extend(
            list("CMAKE_HIP_ARCHITECTURES").filter(|arch| arch.starts_with("gfx")).map(str::to_owned),
        );
    }
    let missing: BTreeSet<&str> = expected.iter().map(String::as_str).filter(|arch| !has(arch)).collect_set();
    let present = built.device_code.iter().map(|code| code.arch.as_str()).collect::<Vec<_>>().join(" ");
    (!missing.is_empty()).then(|| {
        about(id!("audit.archs.missing"), subject)
            .value("archs", short_list(&missing))
            .value("held", &present)
            .evidence(Evidence::file(subject.path.as_str(), format!("contains {present}")))
    })
}

/// The code that an entry of `CMAKE_CUDA_ARCHITECTURES` generates; empty for keywords such as `native`.
fn cuda_codes(entry: &str) -> Vec<String> {
    let (arch, kind) = entry.split_once('-').unwrap_or((entry, ""));
    if !arch.starts_with(|first: char| first.is_ascii_digit()) {
        return Vec::new();
    }
    match kind {
        "real" => vec![format!("sm_{arch}")],
        "virtual" => vec![format!("compute_{arch}")],
        _ => vec![format!("sm_{arch}"), format!("compute_{arch}")],
    }
}

/// Paths of source and build folders in files that are distributed.
pub(super) fn paths(subject: &AuditSubject<'_>) -> Option<FindingDraft> {
    // Paths in the library search path have separate findings.
    let rpaths = |folder: &str| {
        let list = subject.binary.iter().flat_map(linkage::folders);
        list.filter(|rpath| rpath.contains(folder)).count()
    };
    let found = subject.folders.iter().filter(|(folder, count)| **count > rpaths(folder));
    let found: BTreeSet<&str> = found.map(|(folder, _)| folder.as_str()).collect_set();
    (!found.is_empty())
        .then(|| about(id!("audit.contents.source-paths"), subject).value("folders", short_list(&found)))
}

/// Symbols that more than one archive defines.
pub(super) fn duplicates(defined: &[(String, BTreeSet<String>)]) -> Vec<FindingDraft> {
    let mut pairs: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for one in symbols::duplicates(defined) {
        pairs.entry((one.first, one.second)).or_default().insert(one.symbol);
    }
    let draft = |((first, second), symbols): ((String, String), BTreeSet<String>)| {
        let names: BTreeSet<&str> = symbols.iter().map(String::as_str).collect_set();
        FindingDraft::new(id!("audit.symbols.duplicate"))
            .value("file", &first)
            .value("other", &second)
            .value("symbols", short_list(&names))
            .evidence(Evidence::file(second.as_str(), format!("{} symbols of {first}", names.len())))
    };
    pairs.into_iter().map(draft).collect()
}

/// C runtimes of Windows object files that differ from each other or from the configured runtime (P40).
pub(super) fn runtimes(subjects: &[AuditSubject<'_>]) -> Vec<FindingDraft> {
    let mut all: BTreeMap<MsvcRuntime, BTreeSet<String>> = BTreeMap::new();
    let mut drafts = Vec::new();
    for subject in subjects.iter().filter(|subject| matches!(subject.kind(), "static" | "object")) {
        let setting = subject.tree.and_then(|tree| tree.cache.get("CMAKE_MSVC_RUNTIME_LIBRARY"));
        let planned = setting.and_then(|setting| MsvcRuntime::of_setting(setting));
        for (&runtime, members) in &subject.structure.runtimes {
            let place = |member: &String| match member.as_str() {
                "" => subject.path.to_string(),
                member => format!("{}({member})", subject.path),
            };
            let places: BTreeSet<String> = members.iter().map(place).collect_set();
            if let Some(planned) = planned.filter(|planned| *planned != runtime) {
                let mut draft = about(id!("audit.crt.other-than-planned"), subject)
                    .value("runtime", runtime.flag())
                    .value("planned", planned.flag());
                for place in places.iter().take(SHOWN) {
                    draft =
                        draft.evidence(Evidence::file(place, format!("/DEFAULTLIB for {}", runtime.flag())));
                }
                drafts.push(draft);
            }
            all.entry(runtime).or_default().extend(places);
        }
    }
    if all.len() > 1 {
        let flags = all.keys().map(|runtime| runtime.flag()).collect::<Vec<_>>().join(" and ");
        let mut draft = FindingDraft::new(id!("audit.crt.mixed")).value("runtimes", flags);
        for (runtime, places) in &all {
            for place in places.iter().take(SHOWN) {
                draft = draft.evidence(Evidence::file(place, format!("/DEFAULTLIB for {}", runtime.flag())));
            }
        }
        drafts.push(draft);
    }
    drafts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmake_architectures_map_to_device_code() {
        assert_eq!(cuda_codes("80-real"), ["sm_80"]);
        assert_eq!(cuda_codes("90a-virtual"), ["compute_90a"]);
        assert_eq!(cuda_codes("86"), ["sm_86", "compute_86"]);
        assert!(cuda_codes("native").is_empty() && cuda_codes("all-major").is_empty());
    }

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(short_list(&BTreeSet::from(["a", "b"])), "`a`, `b`");
        assert_eq!(short_list(&BTreeSet::from(["a", "b", "c", "d"])), "`a`, `b`, `c` and 1 more");
    }
}
