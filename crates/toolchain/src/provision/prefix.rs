//! The root of an installation: the files of all its wheels in one tree, and what consumers miss in them.

use std::io;

use gpubuild_core::version::Version;
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};

use super::kit::ToolkitLayout;

/// Deeper than any toolkit.
const DEEPEST: usize = 40;

/// Makes the tree. Files are second names of the wheels' files: compilers look for their parts beside their own real file.
pub(super) fn make(
    host: &dyn WriteFiles,
    kit: &ToolkitLayout,
    version: &Version,
    wheels: &[HostPath],
    prefix: &HostPath,
) -> io::Result<()> {
    for wheel in wheels {
        merge(host, &wheel.join(&kit.tree), prefix, 0)?;
    }
    for (name, to) in links(host, kit, prefix) {
        host.symlink(&to, &prefix.join(&name))?;
    }
    if let Some(file) = &kit.version_file {
        let path = prefix.join(&file.path);
        if !host.exists(&path) {
            host.write(&path, file.text.replace("{version}", version.as_str()).as_bytes())?;
        }
    }
    Ok(())
}

/// Gives every file below `from` a second name below `to`; what stands there already stays.
fn merge(host: &dyn WriteFiles, from: &HostPath, to: &HostPath, depth: usize) -> io::Result<()> {
    if depth > DEEPEST || !host.is_dir(from) {
        return Ok(());
    }
    host.create_dir_all(to)?;
    for name in host.list(from)? {
        // What the vendor's own packaging left at the root is nobody's.
        if depth == 0 && name.starts_with('.') {
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        match host.stat(&source)?.kind {
            FileKind::Directory => merge(host, &source, &target, depth + 1)?,
            FileKind::File if !host.exists(&target) => host.link(&source, &target)?,
            _ => {}
        }
    }
    Ok(())
}

/// The links that a prefix of these files has, as (path, what it says): those of the kit, and the names without numbers
/// that linkers look for.
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

/// Files below a folder, as paths from it, sorted. Links are not followed into folders.
pub(super) fn files(host: &dyn ReadFiles, folder: &HostPath) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(inside) = waiting.pop() {
        for name in host.list(&folder.join(&inside))? {
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            let full = folder.join(&path);
            if host.read_link(&full).is_ok() {
                continue;
            }
            match host.stat(&full)?.kind {
                FileKind::Directory => waiting.push(path),
                _ => found.push(path),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
