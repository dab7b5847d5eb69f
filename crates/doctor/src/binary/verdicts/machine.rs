//! Backends that the file uses and that are blocked on this machine for any file.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::libraries;
use gpubuild_object::When;

use super::BinarySubject;

/// One draft per blocked backend that the file uses and whose hardware is present. The checks of the machine report the cause.
pub(super) fn blocked(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let mut drafts = Vec::new();
    for verdict in &subject.case.matrix.verdicts {
        let Some(uses) = uses(subject, verdict.backend).filter(|_| verdict.hardware == Presence::Present)
        else {
            continue;
        };
        if let (Readiness::Blocked, Some(reason)) = (verdict.run, verdict.run_reasons.first()) {
            let draft = FindingDraft::new(id!("binary.backend-blocked"))
                .backend(verdict.backend)
                .value("file", subject.file_name())
                .value("backend", verdict.backend.id())
                .value("reason", reason.text.as_str())
                .evidence(uses);
            drafts.push(draft);
        }
    }
    drafts
}

/// Evidence that the file uses a backend.
fn uses(subject: &BinarySubject<'_>, backend: Backend) -> Option<Evidence> {
    let link = subject.graph.links.iter().find(|link| {
        let is_needed = matches!(link.needed.when, When::Start | When::Opened);
        is_needed
            && libraries::find(&link.needed.name).is_some_and(|library| library.backend == Some(backend))
    });
    if let Some(link) = link {
        return Some(super::needs(&subject.graph.objects[link.from].path, &link.needed.name));
    }
    let object = subject.graph.objects.iter().find(|object| {
        object.binary().is_some_and(|binary| match backend {
            Backend::Cuda => !binary.cuda.is_empty(),
            Backend::Rocm => !binary.hip.is_empty(),
            _ => false,
        })
    })?;
    Some(Evidence::file(object.path.as_str(), format!("kernels for {backend}")))
}
