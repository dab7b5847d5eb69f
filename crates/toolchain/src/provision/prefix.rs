//! Creates the root of a toolkit: merges the files of all its wheels or archives into one tree, and adds the links and the
//! version file that they lack.

use std::io;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};

use super::kit::ToolkitLayout;

/// Maximum folder depth, deeper than any toolkit.
const MAX_DEPTH: usize = 40;

/// Creates the tree from the roots of the toolkit in its wheels and archives. Its files are hard links to theirs, because
/// compilers search for their parts relative to their own resolved path.
pub(super) fn make(
    host: &dyn WriteFiles,
    kit: &ToolkitLayout,
    version: &Version,
    roots: &[HostPath],
    prefix: &HostPath,
) -> io::Result<()> {
    for root in roots {
        merge(host, root, prefix, 0)?;
    }
    for (name, to) in links(host, kit, prefix) {
        // Archives contain links.
        if host.read_link(&prefix.join(&name)).is_err() {
            host.symlink(&to, &prefix.join(&name))?;
        }
    }
    if let Some(file) = &kit.version_file {
        let path = prefix.join(&file.path);
        if !host.exists(&path) {
            host.write(&path, file.text.replace("{version}", version.as_str()).as_bytes())?;
        }
    }
    Ok(())
}

/// Links every file below `from` into `to`. Existing files are kept.
fn merge(host: &dyn WriteFiles, from: &HostPath, to: &HostPath, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH || !host.is_dir(from) {
        return Ok(());
    }
    host.create_dir_all(to)?;
    for name in host.list(from)? {
        // Skip hidden files at the root: they are leftovers of the vendor's packaging.
        if depth == 0 && name.starts_with('.') {
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        if let Ok(link) = host.read_link(&source) {
            if !host.exists(&target) && host.read_link(&target).is_err() {
                host.symlink(&link, &target)?;
            }
            continue;
        }
        match host.stat(&source)?.kind {
            FileKind::Directory => merge(host, &source, &target, depth + 1)?,
            FileKind::File if !host.exists(&target) => host.link(&source, &target)?,
            _ => {}
        }
    }
    Ok(())
}

/// The symbolic links of a prefix as (path, target): those of the kit, and on Linux the unversioned `.so` names that
/// linkers search for.
pub(super) fn links(host: &dyn ReadFiles, kit: &ToolkitLayout, prefix: &HostPath) -> Vec<(String, String)> {
    let os = host.platform().os;
    let fixed = kit.links.iter().filter(|link| link.on.contains(&os) && host.is_dir(&prefix.join(&link.to)));
    let mut links: Vec<(String, String)> = fixed.map(|link| (link.name.clone(), link.to.clone())).collect();
    if os == Os::Linux {
        let names = host.list(&prefix.join("lib")).unwrap_or_default();
        for name in &names {
            let Some((stem, number)) = name.split_once(".so.") else { continue };
            let plain = format!("{stem}.so");
            let is_number = number.starts_with(|c: char| c.is_ascii_digit());
            let is_file = |name: &str| {
                host.is_file(&prefix.join("lib").join(name))
                    && host.read_link(&prefix.join("lib").join(name)).is_err()
            };
            if is_number && !is_file(&plain) && !links.iter().any(|(path, _)| *path == format!("lib/{plain}"))
            {
                links.push((format!("lib/{plain}"), name.clone()));
            }
        }
    }
    links
}

/// All files below a folder as relative paths, sorted. Symbolic links are skipped.
pub(super) fn files(host: &dyn ReadFiles, folder: &HostPath) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(inside) = pending.pop() {
        for name in host.list(&folder.join(&inside))? {
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            let full = folder.join(&path);
            if host.read_link(&full).is_ok() {
                continue;
            }
            match host.stat(&full)?.kind {
                FileKind::Directory => pending.push(path),
                _ => found.push(path),
            }
        }
    }
    found.sort_indirect();
    Ok(found)
}
