//! Creates the root of a toolkit: merges the files of all its wheels or archives into one tree, and adds the links and the
//! version file that they lack.

use std::io;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};

use super::kit::ToolkitLayout;

/// Maximum folder depth, deeper than any toolkit.
const MAX_DEPTH: usize = 40;

/// The folders in wheels that map to the toolkit's root, in the order of the kit.
pub(super) fn roots(host: &dyn ReadFiles, kit: &ToolkitLayout, wheels: &[HostPath]) -> Vec<HostPath> {
    let in_wheel = |tree: &str, wheel: &HostPath| -> Vec<HostPath> {
        let Some(start) = tree.strip_suffix('*') else { return vec![wheel.join(tree)] };
        let names = host.list(wheel).unwrap_or_default();
        names.iter().filter(|name| name.starts_with(start)).map(|name| wheel.join(name)).collect()
    };
    kit.trees.iter().flat_map(|tree| wheels.iter().flat_map(move |wheel| in_wheel(tree, wheel))).collect()
}

/// Links to the prefix, in the folder beside it, with the names of the roots that differ between wheels: the libraries of one wheel search
/// for those of another in the folders beside their own (`$ORIGIN/../../_rocm_sdk_core/lib`).
pub(super) fn link_roots(
    host: &dyn WriteFiles,
    kit: &ToolkitLayout,
    roots: &[HostPath],
    prefix: &HostPath,
) -> io::Result<()> {
    let (Some(folder), Some(to)) = (prefix.parent(), prefix.file_name()) else { return Ok(()) };
    let starts: Vec<&str> = kit.trees.iter().filter_map(|tree| tree.strip_suffix('*')).collect();
    for name in roots.iter().filter_map(|root| root.file_name()) {
        let link = folder.join(name);
        if starts.iter().any(|start| name.starts_with(start)) && host.read_link(&link).is_err() {
            host.symlink(to, &link)?;
        }
    }
    Ok(())
}

/// Where a link leads in the prefix, relative to its folder. `path` is the path of the link below its root, with the names of the folders;
/// a link may lead into the root of another wheel beside its own. `None` if it leads elsewhere.
fn link_in_prefix(path: &[&str], link: &str) -> Option<String> {
    let folders = path.split_last().map_or(&[][..], |(_, folders)| folders);
    let up = link.split('/').take_while(|part| *part == "..").count();
    if up <= folders.len() {
        return Some(link.to_owned());
    }
    // Out of its own root, into a root beside it.
    let mut rest = link.split('/').skip(up);
    let is_beside = up == folders.len() + 1 && rest.next().is_some();
    let target: Vec<&str> = rest.collect();
    if !is_beside || target.is_empty() || target.contains(&"..") || target == path {
        return None;
    }
    Some(folders.iter().map(|_| "..").chain(target).collect::<Vec<_>>().join("/"))
}

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
        merge(host, root, prefix, &mut Vec::new())?;
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
fn merge(host: &dyn WriteFiles, from: &HostPath, to: &HostPath, path: &mut Vec<String>) -> io::Result<()> {
    if path.len() > MAX_DEPTH {
        return Err(io::Error::other(format!("`{from}` is nested in more than {MAX_DEPTH} folders")));
    }
    if !host.is_dir(from) {
        return Ok(());
    }
    host.create_dir_all(to)?;
    for name in host.list(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        // Skip hidden files at the root: they are leftovers of the vendor's packaging. ROCm's kernels are in the folder `.kpack`.
        if path.is_empty() && name.starts_with('.') && !host.is_dir(&source) {
            continue;
        }
        path.push(name);
        if let Ok(link) = host.read_link(&source) {
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let link = link_in_prefix(&names, &link);
            if let Some(link) = link.filter(|_| !host.exists(&target) && host.read_link(&target).is_err()) {
                host.symlink(&link, &target)?;
            }
        } else {
            match host.stat(&source)?.kind {
                FileKind::Directory => merge(host, &source, &target, path)?,
                FileKind::File if !host.exists(&target) => host.link(&source, &target)?,
                _ => {}
            }
        }
        path.pop();
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

#[cfg(test)]
mod tests {
    use super::link_in_prefix;

    #[test]
    fn links_to_other_wheels_lead_into_the_prefix() {
        for (path, link, expected) in [
            ("lib/libx.so", "libx.so.7", Some("libx.so.7")),
            ("lib/a/x", "../../include/x", Some("../../include/x")),
            ("lib/libx.so", "../../_rocm_sdk_core/lib/libx.so.7", Some("../lib/libx.so.7")),
            ("llvm", "../_rocm_sdk_core/lib/llvm", Some("lib/llvm")),
            // The file itself, in the other wheel.
            ("lib/libx.so.7", "../../_rocm_sdk_core/lib/libx.so.7", None),
            ("lib/x", "../../../etc/passwd", None),
            ("lib/x", "../..", None),
            ("lib/x", "../../_rocm_sdk_core/../../x", None),
        ] {
            let path: Vec<&str> = path.split('/').collect();
            assert_eq!(link_in_prefix(&path, link).as_deref(), expected, "{path:?} {link}");
        }
    }
}
