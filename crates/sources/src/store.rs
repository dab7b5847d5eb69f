//! Downloaded sources in gpubuild's cache, one folder per archive or commit. A folder exists only if it is complete.

use gpubuild_exec::python::Network;
use gpubuild_exec::store::write_json;
use gpubuild_host::{HostPath, Wait};
use gpubuild_plan::project::source::SourceOrigin;
use gpubuild_plan::project::source::locate::{self, MARKER, SourceMarker};
use gpubuild_plan::project::source::lock::LockedSource;

use crate::{SourceError, SourceRequest, SourceState, archive, git};

/// Name of the folder in a temporary folder that is published.
const TREE: &str = "tree";

/// The folder of the sources. Downloads them if they are neither vendored nor cached.
pub(crate) fn provide(
    request: &SourceRequest<'_>,
    locked: &LockedSource,
) -> Result<(HostPath, SourceState), SourceError> {
    let host = request.host;
    if let Some(folder) = locate::available(host, request.root, request.table, locked) {
        return Ok((folder, SourceState::Present));
    }
    let folder = locate::cached(host, locked).ok_or(SourceError::NoCache)?;
    let parent = folder.parent().ok_or(SourceError::NoCache)?;
    let name = locked.folder();
    let failed = |path: &HostPath| {
        let path = path.clone();
        move |error: std::io::Error| SourceError::write(&path, &error)
    };
    host.create_dir_all(&parent).map_err(failed(&parent))?;
    let lock_path = parent.join(&format!(".{name}.lock"));
    let _lock = host.lock(&lock_path, Wait::Yes).map_err(failed(&lock_path))?;
    // Another process may have downloaded them while this one waited.
    if locate::contains(host, &folder, locked) {
        return Ok((folder, SourceState::Fetched));
    }
    let scratch = parent.join(&format!(".{name}.tmp"));
    // A killed process has left its files there. Its download is continued.
    let tree = scratch.join(TREE);
    host.remove(&tree).map_err(failed(&tree))?;
    host.create_dir_all(&scratch).map_err(failed(&scratch))?;
    let published = download(request, locked, &scratch).and_then(|()| {
        let marker = SourceMarker { identity: locked.identity() };
        write_json(host, &tree.join(MARKER), &marker).map_err(failed(&tree))?;
        host.flush_all(&tree).map_err(failed(&tree))?;
        host.remove(&folder).and_then(|()| host.rename(&tree, &folder)).map_err(failed(&folder))
    });
    let is_interrupted = matches!(published, Err(SourceError::Fetch(_)));
    let has_part = || host.stat(&scratch.join(archive::PARTIAL)).is_ok_and(|stat| stat.size > 0);
    if !is_interrupted || !has_part() {
        // If this fails, the next download removes the folder.
        let _ = host.remove(&scratch);
    }
    published.map(|()| (folder, SourceState::Fetched))
}

/// Downloads sources into the folder [`TREE`] of `scratch`.
fn download(
    request: &SourceRequest<'_>,
    locked: &LockedSource,
    scratch: &HostPath,
) -> Result<(), SourceError> {
    let tree = scratch.join(TREE);
    let is_offline = request.client.network == Network::Offline;
    match &locked.origin {
        SourceOrigin::Git { .. } if is_offline => {}
        SourceOrigin::Git { url, rev, submodules } => {
            return git::fetch(request, url, rev, *submodules, &tree);
        }
        _ => {
            if let Some(archive) = archive::find(request, locked, scratch)? {
                return archive::unpack(request, locked, &archive, &tree);
            }
        }
    }
    Err(SourceError::Offline { source_name: locked.origin.shown(), is_pinned: true })
}
