//! The libraries that a file needs and its library search path (P4, P6, P8).

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::libraries;
use gpubuild_host::{HostPath, ReadFiles, search};
use gpubuild_object::graph::{self, EdgeTarget, Graph};
use gpubuild_object::{ObjectFile, ObjectFormat, When};

use super::{AuditRequest, AuditSubject, Depth};

/// Number of folders to search upwards for a `CMakeCache.txt`, including the first one.
const MAX_LEVELS: usize = 5;

/// The library search path in a file: RPATH, then RUNPATH.
pub(super) fn folders(binary: &ObjectFile) -> impl Iterator<Item = &String> {
    binary.rpath.iter().chain(&binary.runpath)
}

/// The findings about an executable or shared library.
pub(super) fn drafts(
    host: &dyn ReadFiles,
    subject: &AuditSubject<'_>,
    request: &AuditRequest,
) -> Vec<FindingDraft> {
    let Some(binary) = &subject.binary else { return Vec::new() };
    let mut drafts = rpaths(host, subject, binary, request);
    drafts.extend(absolute_names(subject, binary));
    let here = host.platform();
    if binary.format.os() == here.os && binary.machine.is(here.arch) {
        let graph = graph::resolve(host, &subject.path, binary.clone());
        drafts.extend(missing(subject, &graph, &request.loaded));
        drafts.extend(other_copies(subject, &graph, request));
    }
    if request.depth == Depth::Full {
        drafts.extend(drivers(subject, binary));
    }
    drafts
}

fn rpaths(
    host: &dyn ReadFiles,
    subject: &AuditSubject<'_>,
    binary: &ObjectFile,
    request: &AuditRequest,
) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for folder in folders(binary) {
        let path = HostPath::new(subject.path.rules(), folder);
        let id = if is_stubs(folder) {
            id!("audit.rpath.stubs")
        } else if request.depth == Depth::Build || folder.starts_with(['$', '@']) {
            continue;
        } else if !path.is_absolute() {
            id!("audit.rpath.relative")
        } else if is_build_folder(host, &path, request) {
            id!("audit.rpath.build-folder")
        } else {
            id!("audit.rpath.absolute")
        };
        let draft = FindingDraft::new(id).value("file", subject.path.as_str()).value("folder", folder);
        drafts.push(draft.evidence(Evidence::file(subject.path.as_str(), format!("RUNPATH {folder}"))));
    }
    drafts
}

/// Whether a folder contains a toolkit's stub libraries, which replace driver libraries at link time only.
fn is_stubs(folder: &str) -> bool {
    folder.split(['/', '\\']).any(|part| part == "stubs")
}

fn is_build_folder(host: &dyn ReadFiles, folder: &HostPath, request: &AuditRequest) -> bool {
    let mut trees = request.manifest.iter().flat_map(|manifest| &manifest.trees);
    if trees.any(|tree| folder.is_inside(&host.path(&tree.build))) {
        return true;
    }
    let mut at = Some(folder.clone());
    for _ in 0..MAX_LEVELS {
        let Some(here) = at else { return false };
        if host.is_file(&here.join("CMakeCache.txt")) {
            return true;
        }
        at = here.parent();
    }
    false
}

/// Libraries that are referenced by an absolute path (P56). Paths of macOS system libraries are always absolute.
fn absolute_names(subject: &AuditSubject<'_>, binary: &ObjectFile) -> Vec<FindingDraft> {
    let is_system_library = |name: &str| {
        binary.format == ObjectFormat::MachO
            && (name.starts_with("/usr/lib/") || name.starts_with("/System/"))
    };
    let names = binary.needed.iter().map(|needed| needed.name.as_str());
    names
        .filter(|name| name.starts_with('/') && !is_system_library(name))
        .map(|name| {
            FindingDraft::new(id!("audit.needed.absolute"))
                .value("file", subject.path.as_str())
                .value("library", name)
                .evidence(Evidence::file(subject.path.as_str(), format!("NEEDED {name}")))
        })
        .collect()
}

fn missing(subject: &AuditSubject<'_>, graph: &Graph, loaded: &[String]) -> Vec<FindingDraft> {
    let is_loaded = |name: &str| loaded.iter().any(|pattern| search::star_matches(pattern, name));
    let is_missing = |link: &&graph::GraphEdge| {
        // A driver exists only on machines with the hardware, and `audit.needed.driver` reports that the file needs it.
        link.target == EdgeTarget::Missing
            && link.needed.when == When::Start
            && !libraries::is_driver(&link.needed.name)
            && !is_loaded(&link.needed.name)
    };
    let names: BTreeSet<(&str, &str)> = graph
        .links
        .iter()
        .filter(is_missing)
        .map(|link| (link.needed.name.as_str(), graph.objects[link.from].path.as_str()))
        .collect_set();
    let draft = |(name, by): (&str, &str)| {
        FindingDraft::new(id!("audit.needed.missing"))
            .value("file", subject.path.as_str())
            .value("library", name)
            .evidence(Evidence::file(by, format!("NEEDED {name}, which the loader does not find")))
    };
    names.into_iter().map(draft).collect()
}

/// Libraries of this build of which the loader finds another copy.
fn other_copies(subject: &AuditSubject<'_>, graph: &Graph, request: &AuditRequest) -> Vec<FindingDraft> {
    let Some(manifest) = &request.manifest else { return Vec::new() };
    let files = || manifest.trees.iter().flat_map(|tree| &tree.files);
    let mut drafts = Vec::new();
    for object in graph.objects.iter().skip(1) {
        let name = object.path.file_name().unwrap_or_default();
        let of_build = |path: &str| path.rsplit(['/', '\\']).next() == Some(name);
        let same = |path: &str| object.path.as_str() == path || object.real.as_str() == path;
        let own: Vec<&str> = files().map(|file| file.path.as_str()).filter(|path| of_build(path)).collect();
        let Some(expected) = own.first().filter(|_| !own.iter().any(|path| same(path))) else { continue };
        drafts.push(
            FindingDraft::new(id!("audit.needed.other-copy"))
                .value("file", subject.path.as_str())
                .value("library", name)
                .value("found", object.path.as_str())
                .evidence(Evidence::file(object.path.as_str(), "loaded"))
                .evidence(Evidence::file(*expected, "built")),
        );
    }
    drafts
}

fn drivers(subject: &AuditSubject<'_>, binary: &ObjectFile) -> Vec<FindingDraft> {
    binary
        .needed
        .iter()
        .filter(|needed| needed.when == When::Start && libraries::is_driver(&needed.name))
        .map(|needed| {
            let names = needed.functions.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let value = if names.is_empty() { "NEEDED".to_owned() } else { format!("NEEDED for {names}") };
            FindingDraft::new(id!("audit.needed.driver"))
                .value("file", subject.path.as_str())
                .value("library", &needed.name)
                .evidence(Evidence::file(subject.path.as_str(), format!("{value}: {}", needed.name)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_folders_are_recognized() {
        assert!(is_stubs("/usr/local/cuda/lib64/stubs") && is_stubs("$ORIGIN/stubs"));
        assert!(!is_stubs("/opt/stubsy/lib"));
    }
}
