//! NVIDIA's driver: stubs in its place, a driver that is too old, functions that it lacks, and files that are linked with its
//! library.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::libraries;
use gpubuild_host::library::search::Via;
use gpubuild_object::When;
use gpubuild_object::graph::{EdgeTarget, GraphEdge, LoadedObject};

use super::{BinarySubject, found_by, needs};

/// All findings about the driver.
pub(super) fn driver(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    if let Some((link, object)) = subject.driver_library() {
        if is_stub(object) {
            // The versions and functions of a stub mean nothing.
            drafts.push(stub(subject, link, object));
            return drafts;
        }
        drafts.extend(linked(subject, link, object));
    }
    drafts.extend(absent(subject));
    drafts.extend(too_old(subject));
    drafts.extend(functions(subject));
    drafts
}

/// Whether an object is a toolkit's stub of the driver's library. Stubs are for linking and are in a folder with this name.
fn is_stub(object: &LoadedObject) -> bool {
    [&object.path, &object.real].iter().any(|path| {
        let path = path.forward_slashes();
        path.split('/').any(|folder| folder == "stubs")
    })
}

fn stub(subject: &BinarySubject<'_>, link: &GraphEdge, object: &LoadedObject) -> FindingDraft {
    let from = &subject.graph.objects[link.from];
    let folder = object.path.parent().map(|folder| folder.to_string()).unwrap_or_default();
    let (how, fix) = match object.via {
        Some(Via::LibraryPath) => {
            ("LD_LIBRARY_PATH", format!("remove `{folder}` from LD_LIBRARY_PATH; stubs are for linking only"))
        }
        Some(Via::Rpath) => ("RPATH", without_rpath(subject)),
        Some(Via::Runpath) => ("RUNPATH", without_rpath(subject)),
        _ => (
            "the loader's configuration",
            format!("remove `{folder}` from /etc/ld.so.conf and run `ldconfig`"),
        ),
    };
    let said = from.binary().map(|binary| {
        let folders: Vec<&str> = binary.rpath.iter().chain(&binary.runpath).map(String::as_str).collect();
        Evidence::file(from.path.as_str(), format!("{how} {}", folders.join(":")))
    });
    let by_path = said.filter(|_| matches!(object.via, Some(Via::Rpath | Via::Runpath)));
    let draft = FindingDraft::new(id!("cuda.stub-at-runtime"))
        .backend(Backend::Cuda)
        .value("file", subject.file_name())
        .value("library", object.path.as_str())
        .value("folder", folder.as_str())
        .value("variable", how)
        .summary(format!(
            "`{}` loads the toolkit's stub `{}` instead of NVIDIA's driver through {how}; every call fails with error 34",
            subject.file_name(),
            object.path
        ))
        .fix(fix)
        .evidence(found_by(&object.path, object.via))
        .evidence(Evidence::file(object.real.as_str(), "a stub"));
    by_path.into_iter().fold(draft, FindingDraft::evidence)
}

fn without_rpath(subject: &BinarySubject<'_>) -> String {
    format!(
        "link without `-rpath` to the folder of the stubs (`-Wl,-rpath-link` is enough), or remove it: `patchelf --remove-rpath {}`",
        subject.file_name()
    )
}

/// The file is linked with the driver's library and starts only if the driver is installed, which matters when it is shipped.
fn linked(subject: &BinarySubject<'_>, link: &GraphEdge, object: &LoadedObject) -> Option<FindingDraft> {
    (link.needed.when == When::Start).then(|| {
        let from = &subject.graph.objects[link.from].path;
        FindingDraft::new(id!("binary.driver-linked"))
            .backend(Backend::Cuda)
            .value("file", subject.file_name())
            .value("library", link.needed.name.as_str())
            .evidence(needs(from, &link.needed.name))
            .evidence(found_by(&object.path, object.via))
    })
}

/// The file has a CUDA runtime, and the driver that it opens is missing: the program starts without CUDA. A program that is linked with the
/// driver as well does not start, which another finding reports.
fn absent(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    let missing = || {
        let is_missing =
            |link: &&GraphEdge| libraries::is_driver(&link.needed.name) && link.target == EdgeTarget::Missing;
        subject.graph.links.iter().filter(is_missing)
    };
    if missing().any(|link| link.needed.when == When::Start) {
        return None;
    }
    let link = missing().find(|link| matches!(link.needed.when, When::Opened | When::FirstCall))?;
    let from = &subject.graph.objects[link.from].path;
    Some(
        FindingDraft::new(id!("binary.driver-absent"))
            .backend(Backend::Cuda)
            .value("file", subject.file_name())
            .value("library", link.needed.name.as_str())
            .evidence(Evidence::file(from.as_str(), format!("opens {}", link.needed.name))),
    )
}

/// The driver is older than the minimum for the runtime's major release.
fn too_old(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    let (release, runtime_evidence) = subject.runtime()?;
    let (driver, evidence) = subject.driver_version()?;
    let cuda = subject.case.catalogue.get("cuda")?;
    // A name such as `libcudart.so.12` means every 12.x, so the requirement of 12.0 applies.
    let line = format!("{}.{}", release.major(), release.minor()).parse::<Version>().ok()?;
    let floor = cuda.driver_floor(&line, subject.case.facts.platform.os)?;
    (driver < *floor).then(|| {
        FindingDraft::new(id!("nv.driver.too-old"))
            .backend(Backend::Cuda)
            .value("file", subject.file_name())
            .value("driver", driver.as_str())
            .value("version", release.as_str())
            .value("floor", floor.as_str())
            .summary(format!(
                "`{}` uses CUDA {release}, which requires driver {floor} or newer; {driver} is installed",
                subject.file_name()
            ))
            .fix(format!("update the driver to {floor} or newer, or use a build for an older CUDA"))
            .evidence(runtime_evidence)
            .evidence(evidence)
    })
}

/// Functions of the driver's library that a file imports and the installed driver lacks.
fn functions(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    let (link, object) = subject.driver_library()?;
    let offered = object.binary().map(|binary| binary.functions.as_slice()).filter(|list| !list.is_empty());
    let release = subject.driver_release();
    let lacks = |name: &String| match (offered, libraries::function_since(name), &release) {
        (Some(offered), _, _) => !offered.contains(name),
        (None, Some(since), Some((release, _))) => release < since,
        _ => false,
    };
    let users = subject.graph.links.iter().filter(|link| libraries::is_driver(&link.needed.name));
    let mut lacking: BTreeMap<&String, usize> = BTreeMap::new();
    for user in users {
        lacking.extend(user.needed.functions.iter().filter(|name| lacks(name)).map(|name| (name, user.from)));
    }
    let (newest, from) = lacking.iter().max_by_key(|(name, _)| libraries::function_since(name))?;
    let since = libraries::function_since(newest).map(ToString::to_string);
    let from = &subject.graph.objects[*from].path;
    let has = release.as_ref().map(|(release, _)| release.to_string());
    let of = since.as_ref().map(|release| format!(" of CUDA {release}")).unwrap_or_default();
    let supported = has.as_ref().map(|release| format!(" for CUDA {release}")).unwrap_or_default();
    let more = match lacking.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let draft = FindingDraft::new(id!("nv.symbol-too-new"))
        .backend(Backend::Cuda)
        .value("file", subject.file_name())
        .value("function", newest.as_str())
        .value("wanted", since.clone().unwrap_or_default())
        .value("has", has.clone().unwrap_or_default())
        .summary(format!(
            "`{}` imports `{newest}`{of}{more}, which the installed driver{supported} does not have",
            from.file_name().unwrap_or_default()
        ))
        .fix(match &since {
            Some(since) => format!(
                "update the driver to one for CUDA {since} or newer, or build for an older driver API"
            ),
            None => "update the driver, or build for an older driver API".to_owned(),
        })
        .evidence(Evidence::file(from.as_str(), format!("imports {newest} from {}", link.needed.name)))
        .evidence(found_by(&object.path, object.via));
    Some(release.into_iter().map(|(_, evidence)| evidence).fold(draft, FindingDraft::evidence))
}
