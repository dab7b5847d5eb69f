//! What is said about a file: one draft per kind of problem, with the functions or symbols that show it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::Processor;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_linker::symbols;
use gpubuild_plan::plan::bytes;

use super::level::{Judged, Use};
use super::structure::{self, MsvcRuntime, Structure};
use super::{AuditLimits, AuditRequest, AuditSubject, linkage};

/// Observations that are shown of each kind.
const SHOWN: usize = 3;

/// What was promised, for words.
pub(super) struct AuditFinding<'a> {
    pub(super) processor: &'a Processor,
    pub(super) promised: &'a str,
    pub(super) promised_by: &'a [String],
    pub(super) asks: Option<&'a str>,
}

fn about(id: DiagnosticId, subject: &AuditSubject<'_>) -> FindingDraft {
    FindingDraft::new(id).value("file", subject.path.as_str())
}

/// Text of at most three things and how many more there are.
fn some(names: &BTreeSet<&str>) -> String {
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Instruction sets against the promise.
pub(super) fn levels(
    subject: &AuditSubject<'_>,
    judged: &Judged,
    told: &AuditFinding<'_>,
) -> Vec<FindingDraft> {
    let lists = [
        (id!("audit.isa.above-promise"), &judged.above),
        (id!("audit.isa.unguarded"), &judged.unguarded),
        (id!("audit.isa.perhaps-dispatched"), &judged.perhaps),
    ];
    lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(id, list)| isa(id, subject, list, told))
        .collect()
}

fn isa(id: DiagnosticId, subject: &AuditSubject<'_>, list: &[Use], told: &AuditFinding<'_>) -> FindingDraft {
    let features: BTreeSet<&str> = list.iter().flat_map(|one| &one.features).map(String::as_str).collect();
    let functions: BTreeSet<&str> = list.iter().map(|one| one.function.as_str()).collect();
    let by = if told.promised_by.is_empty() {
        "nothing says more".to_owned()
    } else {
        told.promised_by.join(", ")
    };
    let wanted = list.iter().flat_map(|one| one.features.iter().cloned()).collect();
    let level = told.processor.level(&wanted).unwrap_or("no level");
    let mut draft = about(id, subject)
        .value("functions", some(&functions))
        .value("count", functions.len().to_string())
        .value("features", features.into_iter().collect::<Vec<_>>().join(" "))
        .value("promised", told.promised)
        .value("by", by)
        .value("level", level)
        .value("asks", told.asks.unwrap_or("nothing"));
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

/// Code for the build machine's own processor.
pub(super) fn native(subject: &AuditSubject<'_>, by: &[String]) -> Option<FindingDraft> {
    // Archives are reported once, followed by the files that are linked from them.
    let by_options = by.join(", ");
    (subject.kind() != "executable").then(|| about(id!("audit.isa.native"), subject).value("by", by_options))
}

/// Code of a processor that is not read.
pub(super) fn unread(subject: &AuditSubject<'_>) -> Option<FindingDraft> {
    let machine = subject.binary.as_ref().map_or("another processor", |binary| binary.machine.name);
    let has_code = subject.codes.as_ref().is_ok_and(|codes| !codes.is_empty());
    has_code.then(|| about(id!("audit.isa.unread"), subject).value("machine", machine))
}

/// A file that tells nothing.
pub(super) fn unreadable(path: &HostPath, why: &str) -> FindingDraft {
    FindingDraft::new(id!("audit.file.unreadable"))
        .value("file", path.as_str())
        .value("why", why)
        .evidence(Evidence::file(path.as_str(), why))
}

/// A file that is not the one that was built.
pub(super) fn changed(path: &HostPath) -> FindingDraft {
    FindingDraft::new(id!("audit.file.changed"))
        .value("file", path.as_str())
        .evidence(Evidence::file(path.as_str(), "its hash is not the one in the manifest"))
}

/// What the tables of a file say.
pub(super) fn structure(
    subject: &AuditSubject<'_>,
    seen: &Structure,
    limits: &AuditLimits,
) -> Vec<FindingDraft> {
    let path = subject.path.as_str();
    let mut drafts = Vec::new();
    if seen.executable_stack {
        let draft = about(id!("audit.segments.executable-stack"), subject);
        drafts.push(draft.evidence(Evidence::file(path, "PT_GNU_STACK with PF_X")));
    }
    if let Some(at) = seen.writable_code.first() {
        let draft = about(id!("audit.segments.writable-code"), subject);
        drafts.push(draft.evidence(Evidence::file(path, format!("PT_LOAD at {at:#x} with PF_W and PF_X"))));
    }
    if seen.text_relocations {
        let draft = about(id!("audit.code.text-relocations"), subject);
        drafts.push(draft.evidence(Evidence::file(path, "DT_TEXTREL")));
    }
    if !seen.fixed.is_empty() {
        let members: BTreeSet<&str> = seen.fixed.iter().map(|(member, _)| member.as_str()).collect();
        let mut draft = about(id!("audit.code.not-pic"), subject).value("members", some(&members));
        for (member, symbol) in seen.fixed.iter().take(SHOWN) {
            let value = format!("R_X86_64_32 to `{symbol}`");
            draft = draft.evidence(Evidence::file(format!("{path}({member})"), value));
        }
        drafts.push(draft);
    }
    if seen.debug_info {
        drafts.push(about(id!("audit.contents.debug-info"), subject));
    }
    drafts.extend(versions(subject, seen, limits));
    drafts
}

/// Versions of symbols above the floor.
fn versions(subject: &AuditSubject<'_>, seen: &Structure, limits: &AuditLimits) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for (kind, floor) in &limits.versions {
        let Some(versions) = seen.versions.get(kind) else { continue };
        let number = |text: &str| text.parse::<Version>().ok();
        let mut above: Vec<(Version, &BTreeSet<String>)> = versions
            .iter()
            .filter_map(|(text, symbols)| Some((number(text)?, symbols)))
            .filter(|(version, _)| version > floor)
            .collect();
        above.sort_by(|left, right| right.0.cmp(&left.0));
        let Some((highest, _)) = above.first() else { continue };
        let mut draft = about(id!("audit.libc.above-floor"), subject)
            .value("version", format!("{kind}_{highest}"))
            .value("floor", format!("{kind}_{floor}"));
        for (version, symbols) in above.iter().take(SHOWN) {
            let symbols: BTreeSet<&str> = symbols.iter().map(String::as_str).collect();
            let value = format!("{kind}_{version} for {}", some(&symbols));
            draft = draft.evidence(Evidence::file(subject.path.as_str(), value));
        }
        drafts.push(draft);
    }
    drafts
}

/// A file that is larger than it may be.
pub(super) fn budget(subject: &AuditSubject<'_>, limits: &AuditLimits) -> Option<FindingDraft> {
    let (most, text) = limits.max_size.as_ref()?;
    let size = subject.data.len() as u64;
    (size > *most).then(|| {
        about(id!("audit.size.over-budget"), subject)
            .value("size", bytes::show(size))
            .value("budget", text)
            .evidence(Evidence::file(subject.path.as_str(), format!("{size} bytes")))
    })
}

/// Device code against the architectures that the tree was configured for.
pub(super) fn device_code(subject: &AuditSubject<'_>) -> Option<FindingDraft> {
    let (built, tree) = (subject.built?, subject.tree?);
    let has = |arch: &str| {
        built.device_code.iter().any(|code| code.arch == arch || code.arch.split(':').next() == Some(arch))
    };
    let holds = |start: &str| built.device_code.iter().any(|code| code.arch.starts_with(start));
    let mut wanted: Vec<String> = Vec::new();
    let list = |name: &str| tree.cache.get(name).into_iter().flat_map(|value| value.split(';'));
    if holds("sm_") || holds("compute_") {
        wanted.extend(list("CMAKE_CUDA_ARCHITECTURES").flat_map(cuda_codes));
    }
    if holds("gfx") {
        wanted.extend(
            list("CMAKE_HIP_ARCHITECTURES").filter(|arch| arch.starts_with("gfx")).map(str::to_owned),
        );
    }
    let missing: BTreeSet<&str> = wanted.iter().map(String::as_str).filter(|arch| !has(arch)).collect();
    let held = built.device_code.iter().map(|code| code.arch.as_str()).collect::<Vec<_>>().join(" ");
    (!missing.is_empty()).then(|| {
        about(id!("audit.archs.missing"), subject)
            .value("archs", some(&missing))
            .value("held", &held)
            .evidence(Evidence::file(subject.path.as_str(), format!("holds {held}")))
    })
}

/// What an entry of `CMAKE_CUDA_ARCHITECTURES` has compiled; nothing for words as `native`.
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

/// Folders of the build machine that stand in what goes to others.
pub(super) fn paths(subject: &AuditSubject<'_>, request: &AuditRequest) -> Option<FindingDraft> {
    if !matches!(subject.kind(), "executable" | "shared" | "module") {
        return None;
    }
    let trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
    let folders: BTreeSet<&str> =
        trees.flat_map(|tree| [tree.source.as_str(), tree.build.as_str()]).collect();
    // Libraries that are found through an rpath are reported as such.
    let rpaths = |folder: &str| {
        let list = subject.binary.iter().flat_map(linkage::folders);
        list.filter(|rpath| rpath.contains(folder)).count()
    };
    let count = |folder: &str| memchr::memmem::find_iter(&subject.data, folder.as_bytes()).count();
    let found: BTreeSet<&str> =
        folders.into_iter().filter(|folder| folder.len() > 2 && count(folder) > rpaths(folder)).collect();
    (!found.is_empty())
        .then(|| about(id!("audit.contents.source-paths"), subject).value("folders", some(&found)))
}

/// Symbols that two archives define.
pub(super) fn duplicates(defined: &[(String, BTreeSet<String>)]) -> Vec<FindingDraft> {
    let mut pairs: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for one in symbols::duplicates(defined) {
        pairs.entry((one.first, one.second)).or_default().insert(one.symbol);
    }
    let draft = |((first, second), symbols): ((String, String), BTreeSet<String>)| {
        let names: BTreeSet<&str> = symbols.iter().map(String::as_str).collect();
        FindingDraft::new(id!("audit.symbols.duplicate"))
            .value("file", &first)
            .value("other", &second)
            .value("symbols", some(&names))
            .evidence(Evidence::file(second.as_str(), format!("{} symbols of {first}", names.len())))
    };
    pairs.into_iter().map(draft).collect()
}

/// C runtimes of Windows' objects that differ from each other, or from what was planned (P40).
pub(super) fn runtimes(subjects: &[AuditSubject<'_>]) -> Vec<FindingDraft> {
    let mut all: BTreeMap<MsvcRuntime, BTreeSet<String>> = BTreeMap::new();
    let mut drafts = Vec::new();
    for subject in subjects.iter().filter(|subject| matches!(subject.kind(), "static" | "object")) {
        let setting = subject.tree.and_then(|tree| tree.cache.get("CMAKE_MSVC_RUNTIME_LIBRARY"));
        let planned = setting.and_then(|setting| MsvcRuntime::of_setting(setting));
        for (runtime, members) in structure::read(&subject.data).runtimes {
            let place = |member: &String| match member.as_str() {
                "" => subject.path.to_string(),
                member => format!("{}({member})", subject.path),
            };
            let places: BTreeSet<String> = members.iter().map(place).collect();
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
    fn architectures_of_cmake_become_codes() {
        assert_eq!(cuda_codes("80-real"), ["sm_80"]);
        assert_eq!(cuda_codes("90a-virtual"), ["compute_90a"]);
        assert_eq!(cuda_codes("86"), ["sm_86", "compute_86"]);
        assert!(cuda_codes("native").is_empty() && cuda_codes("all-major").is_empty());
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some(&BTreeSet::from(["a", "b"])), "`a`, `b`");
        assert_eq!(some(&BTreeSet::from(["a", "b", "c", "d"])), "`a`, `b`, `c` and 1 more");
    }
}
