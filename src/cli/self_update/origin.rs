//! How the running copy of gpubuild was installed. Only reads files.

use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_release::install::InstalledRelease;
use gpubuild_release::install::versions::VERSIONS;

use super::NAME;

/// How a copy of gpubuild was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// `gpubuild install` wrote it into this folder.
    Installation(HostPath),
    /// Another program installed it.
    Other {
        /// The name of that program.
        installer: &'static str,
        /// The command that updates gpubuild.
        command: String,
    },
    /// It is not known. The path is that of the program.
    Unknown(HostPath),
}

impl Origin {
    fn other(installer: &'static str, command: impl Into<String>) -> Self {
        Self::Other { installer, command: command.into() }
    }
}

/// How the running program was installed.
pub(super) fn of(host: &dyn ReadFiles) -> Origin {
    let program = host.own_program().unwrap_or_else(|| host.path(NAME));
    of_program(host, &host.canonical(&program).unwrap_or(program))
}

/// How the program at a path without links was installed: each installer keeps a record near it.
fn of_program(host: &dyn ReadFiles, program: &HostPath) -> Origin {
    let Some((bin, root)) = program.parent().and_then(|bin| Some((bin.clone(), bin.parent()?))) else {
        return Origin::Unknown(program.clone());
    };
    installation(host, &root)
        .map(Origin::Installation)
        .or_else(|| by_python(host, &bin, &root))
        .or_else(|| by_cargo(host, &root))
        .unwrap_or_else(|| Origin::Unknown(program.clone()))
}

/// The folder of the installation one of whose versions is `version`.
fn installation(host: &dyn ReadFiles, version: &HostPath) -> Option<HostPath> {
    let versions = version.parent().filter(|folder| folder.file_name() == Some(VERSIONS))?;
    let folder = versions.parent()?;
    let is_own = |folder: &HostPath| InstalledRelease::read(host, folder).is_some_and(|one| one.name == NAME);
    Some(folder).filter(is_own)
}

/// A Python environment with the wheel of gpubuild.
fn by_python(host: &dyn ReadFiles, bin: &HostPath, root: &HostPath) -> Option<Origin> {
    let info = dist_info(host, root)?;
    if host.is_file(&root.join("uv-receipt.toml")) {
        return Some(Origin::other("uv", "uv tool upgrade gpubuild"));
    }
    if host.is_file(&root.join("pipx_metadata.json")) {
        return Some(Origin::other("pipx", "pipx upgrade gpubuild"));
    }
    let interpreter = match host.platform().os {
        Os::Windows => bin.join("python.exe"),
        Os::Linux | Os::Macos => bin.join("python3"),
    };
    let python = if host.is_file(&interpreter) { interpreter.to_string() } else { "python3".to_owned() };
    let installer = host.read_text(&info.join("INSTALLER")).unwrap_or_default();
    Some(match installer.trim() {
        "uv" => Origin::other("uv", format!("uv pip install --python {python} --upgrade gpubuild")),
        _ => Origin::other("pip", format!("{python} -m pip install --upgrade gpubuild")),
    })
}

/// The folder with the metadata of the wheel in an environment.
fn dist_info(host: &dyn ReadFiles, root: &HostPath) -> Option<HostPath> {
    let libraries = match host.platform().os {
        Os::Windows => vec![root.join("Lib")],
        Os::Linux | Os::Macos => {
            let lib = root.join("lib");
            let names = host.list_matching(&lib, "python3*").unwrap_or_default();
            names.iter().map(|name| lib.join(name)).collect()
        }
    };
    let folders = libraries
        .iter()
        .flat_map(|library| ["site-packages", "dist-packages"].map(|packages| library.join(packages)));
    folders.into_iter().find_map(|folder| {
        let names = host.list_matching(&folder, "gpubuild-*.dist-info").ok()?;
        names.first().map(|name| folder.join(name))
    })
}

/// A folder of `cargo install` whose record lists gpubuild.
fn by_cargo(host: &dyn ReadFiles, root: &HostPath) -> Option<Origin> {
    let record = host.read_text(&root.join(".crates.toml")).ok()?;
    if !record.lines().any(|line| line.trim_start().starts_with("\"gpubuild ")) {
        return None;
    }
    let env = host.env();
    let home = env.get("HOME").or_else(|| env.get("USERPROFILE")).map(|home| host.path(home).join(".cargo"));
    let usual = env.get("CARGO_HOME").map(|folder| host.path(folder)).or(home);
    let is_usual = usual.is_some_and(|usual| host.is_same_file(&usual, root));
    let from = if is_usual { String::new() } else { format!("--root {root} ") };
    Some(Origin::other("cargo", format!("cargo install {from}gpubuild")))
}
