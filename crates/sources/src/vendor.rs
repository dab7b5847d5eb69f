//! Copies of downloaded sources in a folder of the project, which belongs into its repository.

use gpubuild_exec::store::files;
use gpubuild_host::links::refuse_link;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::project::ProjectTable;
use gpubuild_plan::project::source::locate;
use gpubuild_plan::project::source::lock::LockedSource;

use crate::SourceError;

/// Updates the vendored copy, if gpubuild.toml sets `vendor`. Returns its folder. The copy is replaced by one rename.
pub(crate) fn update(
    host: &dyn Host,
    root: &HostPath,
    table: &ProjectTable,
    locked: &LockedSource,
    from: &HostPath,
) -> Result<Option<HostPath>, SourceError> {
    let Some(target) = locate::vendored(root, table, locked) else { return Ok(None) };
    if locate::contains(host, &target, locked) {
        return Ok(Some(target));
    }
    let parent = target.parent().unwrap_or_else(|| root.clone());
    for folder in std::iter::successors(Some(target.clone()), HostPath::parent) {
        if !folder.is_inside(root) || folder.key() == root.key() {
            break;
        }
        refuse_link(host, &folder)?;
    }
    // A copy has its marker from the moment at which it appears. One that is here belongs to somebody else.
    if host.exists(&target) && !host.is_file(&target.join(locate::MARKER)) {
        return Err(SourceError::Occupied { path: target.to_string() });
    }
    let scratch = parent.join(&format!(".{}.tmp", locked.name()));
    let copied = copy(host, from, &scratch).and_then(|()| {
        host.flush_all(&scratch)?;
        host.remove(&target)?;
        host.rename(&scratch, &target)
    });
    if let Err(error) = copied {
        // The next call removes the rest.
        let _ = host.remove(&scratch);
        return Err(SourceError::write(&target, &error));
    }
    Ok(Some(target))
}

fn copy(host: &dyn Host, from: &HostPath, to: &HostPath) -> std::io::Result<()> {
    host.remove(to)?;
    host.create_dir_all(to)?;
    let found = files::walk_inside(host, from).map_err(|(_, error)| error)?;
    for path in found.keys() {
        let name = path[from.as_str().len()..].trim_start_matches(['/', '\\']);
        let target = to.join(name);
        host.duplicate(&host.path(path), &target)?;
        host.set_writable(&target)?;
    }
    Ok(())
}
