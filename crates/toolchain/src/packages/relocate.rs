//! Turns unpacked packages, which expect to be in `/usr`, into a prefix that can be anywhere.

use std::fmt::Write as _;
use std::io;

use gpubuild_detect::toolkit::pattern::fill;
use gpubuild_host::{HostPath, WriteFiles, glob};
use gpubuild_plan::packages::{PackageOffer, PackageRow, PrefixProgram, PrefixText};

use super::target::LibraryFolders;
use super::tree;
use crate::provision::files;

/// The folder of programs that a script starts.
const PROGRAMS: &str = "libexec/gpubuild";

/// Creates the prefix from the folder into which the packages were unpacked.
pub(super) fn make(
    host: &dyn WriteFiles,
    offer: &PackageOffer<'_>,
    folders: &LibraryFolders,
    unpacked: &HostPath,
    prefix: &HostPath,
) -> io::Result<()> {
    tree::merge(host, &unpacked.join("usr"), prefix)?;
    // Packages may still have files in `/lib` or `/etc`.
    for name in host.list(unpacked)?.iter().filter(|name| *name != "usr") {
        if host.is_dir(&unpacked.join(name)) {
            tree::merge(host, &unpacked.join(name), &prefix.join(name))?;
        }
    }
    for pattern in &offer.manager.leave_out {
        for path in glob(host, prefix.join(pattern).as_str()) {
            host.remove(&path)?;
        }
    }
    for (path, target) in files::walk(host, prefix)?.links {
        fix_link(host, prefix, &path, &target)?;
    }
    for text in &offer.set.texts {
        replace(host, &folders.linked, text, prefix)?;
    }
    for program in &offer.set.programs {
        start_by_script(host, &folders.programs, offer.row, program, prefix)?;
    }
    Ok(())
}

/// The path in the prefix of a path of the system.
fn inside(system: &str) -> &str {
    let path = system.trim_start_matches('/');
    path.strip_prefix("usr/").unwrap_or(path)
}

/// The path that leads from the folder of a file in the prefix to the prefix: `../..`.
fn up(path: &str) -> String {
    let depth = path.matches('/').count();
    if depth == 0 { ".".to_owned() } else { vec![".."; depth].join("/") }
}

/// Lets a link point into the prefix if its target was unpacked, else to the system's file if that exists. Removes it otherwise.
fn fix_link(host: &dyn WriteFiles, prefix: &HostPath, path: &str, target: &str) -> io::Result<()> {
    let link = prefix.join(path);
    let is_absolute = target.starts_with('/');
    if !is_absolute && host.exists(&link) && resolved(&link, target).is_inside(prefix) {
        return Ok(());
    }
    let usr = host.path("/usr");
    let on_system = if is_absolute { host.path(target) } else { resolved(&usr.join(path), target) };
    let unpacked = inside(on_system.as_str());
    let new = if host.exists(&prefix.join(unpacked)) {
        Some(format!("{}/{unpacked}", up(path)))
    } else {
        host.exists(&on_system).then(|| on_system.to_string())
    };
    match new {
        Some(new) if new == target => Ok(()),
        Some(new) => {
            host.remove(&link)?;
            host.symlink(&new, &link)
        }
        None => host.remove(&link),
    }
}

/// The path that a relative target of a link means.
fn resolved(link: &HostPath, target: &str) -> HostPath {
    link.parent().unwrap_or_else(|| link.clone()).join(target).normalized()
}

/// Fills `{lib}` and the placeholders of the host.
fn path_of(host: &dyn WriteFiles, lib: &str, path: &str) -> io::Result<String> {
    fill(&path.replace("{lib}", lib), host)
        .ok_or_else(|| io::Error::other(format!("`{path}` has an unknown placeholder")))
}

fn replace(host: &dyn WriteFiles, lib: &str, text: &PrefixText, prefix: &HostPath) -> io::Result<()> {
    for pattern in &text.files {
        let pattern = path_of(host, lib, pattern)?;
        for file in glob(host, prefix.join(&pattern).as_str()) {
            if host.read_link(&file).is_ok() || !host.is_file(&file) {
                continue;
            }
            let content = host.read_text(&file)?;
            let relative = file.as_str().strip_prefix(prefix.as_str()).unwrap_or_default();
            let to = text.to.replace("{up}", &up(relative.trim_start_matches('/')));
            let from = path_of(host, lib, &text.from)?;
            if content.contains(&from) {
                host.write(&file, content.replace(&from, &to).as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Writes a script in the place of a program, because programs have no search path for the libraries in the prefix.
fn start_by_script(
    host: &dyn WriteFiles,
    lib: &str,
    row: &PackageRow,
    program: &PrefixProgram,
    prefix: &HostPath,
) -> io::Result<()> {
    let path = path_of(host, lib, &program.path)?;
    let script = prefix.join(&path);
    let runs = program.runs.as_ref().map(|runs| path_of(host, lib, &row.fill_folders(runs))).transpose()?;
    let runs = match runs.filter(|runs| host.is_file(&prefix.join(runs))) {
        Some(runs) => runs,
        None => move_program(host, &path, prefix)?,
    };
    let text = script_text(&path, &runs, lib, row, program);
    host.remove(&script)?;
    if let Some(folder) = script.parent() {
        host.create_dir_all(&folder)?;
    }
    host.write(&script, text.as_bytes())?;
    host.set_executable(&script)
}

/// Moves a program to where a script can start it, and returns its new path in the prefix.
fn move_program(host: &dyn WriteFiles, path: &str, prefix: &HostPath) -> io::Result<String> {
    let program = prefix.join(path);
    if !host.is_file(&program) {
        return Err(io::Error::other(format!("the packages do not contain `{path}`")));
    }
    let moved = format!("{PROGRAMS}/{}", program.file_name().unwrap_or_default());
    host.create_dir_all(&prefix.join(PROGRAMS))?;
    host.rename(&program, &prefix.join(&moved))?;
    Ok(moved)
}

fn script_text(path: &str, runs: &str, lib: &str, row: &PackageRow, program: &PrefixProgram) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Written by gpubuild: starts a program of this prefix with the libraries of the prefix.\n",
    );
    let _ = writeln!(text, "self=$(readlink -f -- \"$0\") || exit 1\nprefix=${{self%/{path}}}");
    let _ = writeln!(
        text,
        "LD_LIBRARY_PATH=\"$prefix/{lib}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\nexport LD_LIBRARY_PATH"
    );
    for (name, value) in &program.set {
        let value = row.fill_folders(value).replace("{prefix}", "$prefix").replace("{lib}", lib);
        let _ = writeln!(text, "export {name}=\"{value}\"");
    }
    let _ = writeln!(text, "exec \"$prefix/{runs}\" \"$@\"");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_back_to_the_prefix() {
        assert_eq!(up("lib/x86_64-linux-gnu/pkgconfig/vulkan.pc"), "../../..");
        assert_eq!(up("file"), ".");
        assert_eq!(inside("/usr/lib/x"), "lib/x");
        assert_eq!(inside("/lib/x"), "lib/x");
    }

    #[test]
    fn scripts_find_the_prefix_from_their_own_path() {
        let set = [("HIP_PATH".to_owned(), "{prefix}/{lib}/{hip}".to_owned())].into();
        let row = "id = 'debian'\nsince = '13'\nsource = 's'\nfolders = { hip = 'hip' }\n";
        let row: PackageRow = gpubuild_toml::from_str(row).unwrap();
        let program = PrefixProgram { path: "bin/hipcc".to_owned(), runs: None, set };
        assert_eq!(
            script_text("bin/hipcc", "libexec/gpubuild/hipcc", "lib/x", &row, &program)
                .lines()
                .skip(2)
                .collect::<Vec<_>>(),
            [
                "self=$(readlink -f -- \"$0\") || exit 1",
                "prefix=${self%/bin/hipcc}",
                "LD_LIBRARY_PATH=\"$prefix/lib/x${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"",
                "export LD_LIBRARY_PATH",
                "export HIP_PATH=\"$prefix/lib/x/hip\"",
                "exec \"$prefix/libexec/gpubuild/hipcc\" \"$@\"",
            ]
        );
    }
}
