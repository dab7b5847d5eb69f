//! From the places of a description to paths on the host: globs and PATH.

use std::io;

use crate::host::{FileKind, Host, HostPath, Os};

use super::pattern::name_matches;

/// Every existing path that matches an absolute pattern with `*` in its names, sorted by name within a folder.
pub(crate) fn expand(host: &dyn Host, pattern: &str) -> Vec<HostPath> {
    let pattern = host.path(pattern);
    if !pattern.is_absolute() {
        return Vec::new();
    }
    expand_below(host, &pattern)
}

fn expand_below(host: &dyn Host, pattern: &HostPath) -> Vec<HostPath> {
    if !pattern.as_str().contains('*') {
        return if host.exists(pattern) { vec![pattern.clone()] } else { Vec::new() };
    }
    let (Some(parent), Some(name)) = (pattern.parent(), pattern.file_name()) else { return Vec::new() };
    let parents = if parent.as_str().contains('*') { expand_below(host, &parent) } else { vec![parent] };
    if !name.contains('*') {
        return parents.iter().map(|folder| folder.join(name)).filter(|path| host.exists(path)).collect();
    }
    let os = host.platform().os;
    parents
        .iter()
        .flat_map(|folder| {
            let names = host.list(folder).unwrap_or_default();
            names.into_iter().filter(|entry| name_matches(name, entry, os)).map(|entry| folder.join(&entry))
        })
        .collect()
}

/// The folders of PATH that are absolute, in order, each once.
pub(crate) fn path_folders(host: &dyn Host) -> Vec<HostPath> {
    let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
    let mut folders: Vec<HostPath> = Vec::new();
    for text in host.env().get("PATH").unwrap_or_default().split(separator) {
        let folder = host.path(text.trim_matches('"'));
        if folder.is_absolute() && folders.iter().all(|known| known.key() != folder.key()) {
            folders.push(folder);
        }
    }
    folders
}

/// Every file that a bare program name can mean in these folders, in order.
pub(crate) fn programs(host: &dyn Host, folders: &[HostPath], name: &str) -> Vec<HostPath> {
    let names: Vec<String> = if host.platform().os == Os::Windows {
        let extensions = host.env().get("PATHEXT").unwrap_or(".COM;.EXE;.BAT;.CMD");
        extensions.split(';').map(|extension| format!("{name}{}", extension.to_lowercase())).collect()
    } else {
        vec![name.to_owned()]
    };
    let is_program =
        |path: &HostPath| host.stat(path).is_ok_and(|stat| stat.kind == FileKind::File && stat.executable);
    folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).filter(is_program).collect()
}

/// Goes up from a path; stays at the root.
pub(crate) fn go_up(path: &HostPath, folders: usize) -> HostPath {
    (0..folders).fold(path.clone(), |path, _| path.parent().unwrap_or(path))
}

/// Reads the first part of a text file; files of toolkits say what they are near their start.
pub(crate) fn read_head(host: &dyn Host, path: &HostPath) -> io::Result<String> {
    const LIMIT: usize = 64 * 1024;
    Ok(String::from_utf8_lossy(&host.read_start(path, LIMIT)?).into_owned())
}
