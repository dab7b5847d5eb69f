//! Libraries that do not fit together: two releases of one toolkit, or a copy other than the file's own.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::library::search::Via;
use gpubuild_object::When;
use gpubuild_object::graph::{GraphEdge, LibraryCopy, LoadedObject};

use super::{BinarySubject, found_by, real_version};

/// All findings about mixed libraries.
pub(super) fn mixed(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for (toolkit, name, backend, id) in [
        ("cuda", "CUDA", Backend::Cuda, id!("nv.cudart-mixed")),
        ("rocm", "ROCm", Backend::Rocm, id!("binary.rocm-mixed")),
    ] {
        let draft = majors(subject, toolkit, name, id).map(|draft| draft.backend(backend));
        drafts.extend(draft);
    }
    if drafts.iter().any(|draft| draft.id == "nv.cudart-mixed") {
        return drafts;
    }
    let draft = shadowed(subject).or_else(|| apart(subject));
    drafts.extend(draft.map(|draft| draft.backend(Backend::Cuda)));
    drafts
}

/// Libraries of two major releases in one program.
fn majors(subject: &BinarySubject<'_>, toolkit: &str, name: &str, id: DiagnosticId) -> Option<FindingDraft> {
    let mut by_major: BTreeMap<u64, Vec<&GraphEdge>> = BTreeMap::new();
    for link in subject.graph.links.iter().filter(|link| link.needed.when != When::Opened) {
        let library =
            libraries::find(&link.needed.name).filter(|library| library.major.as_deref() == Some(toolkit));
        let release = library.and_then(|_| libraries::release(&link.needed.name));
        if let Some(release) = release {
            by_major.entry(release.major()).or_default().push(link);
        }
    }
    if by_major.len() < 2 {
        return None;
    }
    let list: Vec<String> = by_major.keys().map(|major| format!("{name} {major}")).collect();
    let list = list.join(" and ");
    let example = by_major.values().filter_map(|links| links.first()).map(|link| &link.needed.name);
    let example = super::quoted(example);
    let mut draft = FindingDraft::new(id)
        .value("file", subject.file_name())
        .value("releases", list.as_str())
        .value("libraries", example.as_str())
        .summary(format!("`{}` loads libraries of {list} into one program: {example}", subject.file_name()))
        .case("program")
        .value("how", format!("build everything with one release of {name}"));
    for link in by_major.values().flatten() {
        let from = &subject.graph.objects[link.from].path;
        draft = draft.evidence(super::needs(from, &link.needed.name));
        if let Some(object) = subject.graph.loaded(link) {
            draft = draft.evidence(found_by(&object.path, object.via));
        }
    }
    Some(draft)
}

/// A copy of another release hides the one that the file is shipped with or was linked with.
fn shadowed(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    for link in &subject.graph.links {
        let Some(object) = subject.graph.loaded(link).filter(|_| is_cuda_runtime(&link.needed.name)) else {
            continue;
        };
        let by_variable = object.via == Some(Via::LibraryPath);
        let brought = |copy: &&LibraryCopy| matches!(copy.via, Via::Runpath | Via::Rpath | Via::Application);
        // The copy that the variable hides, or the file's own copy if another file's search found this one first.
        let hidden =
            link.later.iter().find(|copy| by_variable && brought(copy)).or(link.own.as_ref().filter(brought));
        let Some(hidden) = hidden.filter(|hidden| is_worse(&link.needed.name, object, hidden)) else {
            continue;
        };
        let (loaded, wanted) = (release(&object.real), release(&hidden.real));
        let fix = if by_variable {
            "unset LD_LIBRARY_PATH, or remove that folder from it"
        } else {
            "keep one copy, and let both files search the same folder"
        };
        let draft = FindingDraft::new(id!("nv.cudart-mixed"))
            .value("file", subject.file_name())
            .value("libraries", link.needed.name.as_str())
            .value("releases", format!("{loaded} and {wanted}"))
            .summary(format!(
                "`{}` {loaded} in `{}` is loaded instead of {wanted} in `{}`",
                link.needed.name,
                folder(&object.path),
                folder(&hidden.path),
            ))
            .case("program")
            .value("how", fix)
            .evidence(found_by(&object.path, object.via))
            .evidence(Evidence::file(hidden.path.as_str(), format!("release {wanted}")))
            .evidence(super::needs(&subject.graph.objects[link.from].path, &link.needed.name));
        return Some(draft);
    }
    None
}

/// Parts of one library, such as cuDNN, from several releases.
fn apart(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    let mut parts: BTreeMap<(&str, String), &LoadedObject> = BTreeMap::new();
    for object in &subject.graph.objects {
        let Some(together) = libraries::find(object.name()).and_then(|library| library.together.as_deref())
        else {
            continue;
        };
        if let Some(version) = real_version(&object.real).filter(|version| version.as_str().contains('.')) {
            parts.entry((together, version.to_string())).or_insert(object);
        }
    }
    let (name, _) = parts.keys().next()?.clone();
    let parts: Vec<(&String, &&LoadedObject)> = parts
        .iter()
        .filter(|((other, _), _)| *other == name)
        .map(|((_, version), object)| (version, object))
        .collect();
    if parts.len() < 2 {
        return None;
    }
    let releases = parts.iter().map(|(version, _)| version.as_str()).collect::<Vec<_>>().join(" and ");
    let draft = FindingDraft::new(id!("nv.cudart-mixed"))
        .value("file", subject.file_name())
        .value("libraries", name)
        .value("releases", releases.as_str())
        .summary(format!("parts of {name} from several releases are loaded together: {releases}"))
        .case("program")
        .value("how", "load all of them from one folder");
    Some(
        parts
            .into_iter()
            .fold(draft, |draft, (_, object)| draft.evidence(found_by(&object.path, object.via))),
    )
}

fn is_cuda_runtime(name: &str) -> bool {
    libraries::find(name)
        .is_some_and(|library| library.backend == Some(Backend::Cuda) && library.role == LibraryRole::Runtime)
}

/// Whether the loaded copy cannot replace the hidden one: it is an older release, or any other release of a library that
/// consists of parts.
fn is_worse(name: &str, loaded: &LoadedObject, hidden: &LibraryCopy) -> bool {
    let versions = (real_version(&loaded.real), real_version(&hidden.real));
    let (Some(loaded), Some(hidden)) = versions else { return false };
    // A name such as `libcudart.so.12` contains only the major version, which both copies have.
    if !loaded.as_str().contains('.') || !hidden.as_str().contains('.') {
        return false;
    }
    let comes_in_parts = libraries::find(name).is_some_and(|library| library.together.is_some());
    let short = |version: &Version| (version.major(), version.minor());
    if comes_in_parts { loaded != hidden } else { short(&loaded) < short(&hidden) }
}

fn release(path: &gpubuild_host::HostPath) -> String {
    real_version(path).map_or_else(|| "an unknown release".to_owned(), |version| version.to_string())
}

fn folder(path: &gpubuild_host::HostPath) -> String {
    path.parent().map(|folder| folder.to_string()).unwrap_or_default()
}
