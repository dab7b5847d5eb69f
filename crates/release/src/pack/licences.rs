//! Collects licence files: of the project, of the crates in its program, and of third-party libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_exec::python::Network;
use gpubuild_host::{Command, HostPath, InspectHost, Os, ReadFiles, WriteFiles};
use serde::Deserialize;

use super::PackError;
use super::layer::{LayerKind, LayerPiece};

/// The first letters of licence file names, in lower case.
const PREFIXES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// The time limit for `cargo metadata`.
const DEADLINE: Duration = Duration::from_secs(10 * 60);
/// The folder with the wheels of a toolkit that gpubuild installed.
const WHEELS: &str = "wheels";
/// The number of folders above a library in which the record of its wheel is searched.
const MAX_LEVELS: usize = 6;

/// The package of a program, from `cargo metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoPackage {
    /// The name of the package.
    pub name: String,
    /// The version of the package.
    pub version: String,
    /// All crates that are linked into the program.
    crates: Vec<LicensedCrate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LicensedCrate {
    name: String,
    version: String,
    licence: String,
    folder: HostPath,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct MetadataPackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolvedNode>,
}

#[derive(Deserialize)]
struct ResolvedNode {
    id: String,
    deps: Vec<ResolvedDependency>,
}

#[derive(Deserialize)]
struct ResolvedDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// Queries `cargo metadata` for the package of a program.
///
/// # Errors
/// Cargo fails, or its output is invalid.
pub fn query(host: &dyn InspectHost, folder: &HostPath, network: Network) -> Result<CargoPackage, PackError> {
    let platform = host.platform();
    let vendor = match platform.os {
        Os::Linux => "unknown-linux-gnu",
        Os::Windows => "pc-windows-msvc",
        Os::Macos => "apple-darwin",
    };
    let manifest = folder.join("Cargo.toml");
    let mut command = Command::new(host.env().get("CARGO").unwrap_or("cargo"), DEADLINE)
        .args(["metadata", "--format-version", "1", "--manifest-path", manifest.as_str()])
        .args(["--filter-platform", &format!("{}-{vendor}", platform.arch.id())]);
    if network == Network::Offline {
        command = command.arg("--offline");
    }
    let cargo = |what: String| PackError::Cargo { package: folder.to_string(), what };
    let output = host.run(&command).map_err(|error| cargo(error.to_string()))?;
    if !output.success() {
        return Err(cargo(output.stderr.lines().last().unwrap_or_default().to_owned()));
    }
    let metadata: Metadata =
        serde_json::from_str(&output.stdout).map_err(|error| cargo(error.to_string()))?;
    package(host, &manifest, metadata)
        .ok_or_else(|| cargo("its output does not contain the package".to_owned()))
}

/// The package with its normal dependencies, without those of build scripts and tests.
fn package(host: &dyn ReadFiles, manifest: &HostPath, metadata: Metadata) -> Option<CargoPackage> {
    let nodes: BTreeMap<String, Vec<ResolvedDependency>> =
        metadata.resolve.nodes.into_iter().map(|node| (node.id, node.deps)).collect();
    let root = metadata.packages.iter().find(|one| {
        let path = host.path(&one.manifest_path);
        path.key() == manifest.key() || host.is_same_file(&path, manifest)
    })?;
    let (mut reached, mut open) = (BTreeSet::from([root.id.clone()]), vec![root.id.clone()]);
    while let Some(id) = open.pop() {
        for dependency in nodes.get(&id).into_iter().flatten() {
            let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if is_linked && reached.insert(dependency.pkg.clone()) {
                open.push(dependency.pkg.clone());
            }
        }
    }
    let mut crates: Vec<LicensedCrate> = metadata
        .packages
        .iter()
        .filter(|one| one.id != root.id && reached.contains(&one.id))
        .map(|one| LicensedCrate {
            name: one.name.clone(),
            version: one.version.clone(),
            licence: one.license.clone().unwrap_or_else(|| "not specified".to_owned()),
            folder: host.path(&one.manifest_path).parent().unwrap_or_else(|| host.path("/")),
        })
        .collect();
    crates.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Some(CargoPackage { name: root.name.clone(), version: root.version.clone(), crates })
}

/// The collected licence files.
#[derive(Debug, Default)]
pub struct Licences {
    /// The licence files.
    pub pieces: Vec<LayerPiece>,
    /// Third-party libraries without licence files.
    pub without: Vec<String>,
}

impl Licences {
    /// Adds the licence files in a folder of the project or of a crate.
    pub fn of_folder(&mut self, host: &dyn ReadFiles, folder: &HostPath, name: &str) {
        let mut names = host.list(folder).unwrap_or_default();
        names.retain(|file| is_licence(file) && host.is_file(&folder.join(file)));
        for file in names {
            self.add(&format!("{name}/{file}"), folder.join(&file));
        }
    }

    /// Adds the licence files of a program's crates, and a list of all crates, which is written to `list`.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn of_crates(
        &mut self,
        host: &dyn WriteFiles,
        package: &CargoPackage,
        list: &HostPath,
    ) -> Result<(), PackError> {
        let mut text = String::from("Crates in the program, with their licences.\n\n");
        for one in &package.crates {
            let _ = writeln!(text, "{} {}: {}", one.name, one.version, one.licence);
            self.of_folder(host, &one.folder, &format!("crates/{}-{}", one.name, one.version));
        }
        host.write(list, text.as_bytes()).map_err(|error| PackError::io("write", list, &error))?;
        self.add("crates.txt", list.clone());
        Ok(())
    }

    /// Adds the licence files of a third-party library, from its wheel or from the distribution's package.
    pub fn of_library(&mut self, host: &dyn ReadFiles, name: &str, path: &HostPath) {
        let found = of_wheel(host, path).or_else(|| of_debian(host, path));
        match found {
            None => self.without.push(name.to_owned()),
            Some((package, files)) => {
                for file in files {
                    let Some(last) = file.file_name().map(str::to_owned) else { continue };
                    self.add(&format!("{package}/{last}"), file);
                }
            }
        }
    }

    /// Adds one file.
    pub fn add(&mut self, name: &str, from: HostPath) {
        let path = format!("share/licences/{name}");
        // Some crates contain the same file in upper and lower case.
        if !self.pieces.iter().any(|piece| piece.path.eq_ignore_ascii_case(&path)) {
            self.pieces.push(LayerPiece { path, from, executable: false, part: LayerKind::Licences });
        }
    }
}

fn is_licence(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_source = name.rsplit('.').next() == Some("rs");
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !is_source
}

/// The wheel that contains a library, found through its `RECORD`. A toolkit that gpubuild installed has its wheels in `wheels`, with links
/// to their files.
fn of_wheel(host: &dyn ReadFiles, library: &HostPath) -> Option<(String, Vec<HostPath>)> {
    let mut folder = library.parent()?;
    for _ in 0..MAX_LEVELS {
        let wheels = folder.join(WHEELS);
        let inner = host.list(&wheels).unwrap_or_default();
        let sites = std::iter::once(folder.clone()).chain(inner.iter().map(|name| wheels.join(name)));
        for site in sites {
            for name in host.list_matching(&site, "*.dist-info").unwrap_or_default() {
                let info = site.join(&name);
                if records(host, &site, &info, library) {
                    let package = name.trim_end_matches(".dist-info").to_owned();
                    let files = licences_of(host, &info);
                    return (!files.is_empty()).then_some((package, files));
                }
            }
        }
        folder = folder.parent()?;
    }
    None
}

/// Whether the record of a wheel lists a file.
fn records(host: &dyn ReadFiles, site: &HostPath, info: &HostPath, library: &HostPath) -> bool {
    let record = host.read_text(&info.join("RECORD")).unwrap_or_default();
    let name = library.file_name().unwrap_or_default();
    let listed = record.lines().filter_map(|line| line.split(',').next()).filter(|path| path.ends_with(name));
    listed
        .map(|path| site.join(path))
        .any(|path| path.key() == library.key() || host.is_same_file(&path, library))
}

fn licences_of(host: &dyn ReadFiles, info: &HostPath) -> Vec<HostPath> {
    let mut files = Vec::new();
    for place in [info.clone(), info.join("licenses")] {
        let names = host.list(&place).unwrap_or_default();
        files.extend(names.iter().filter(|name| is_licence(name)).map(|name| place.join(name)));
    }
    files.retain(|file| host.is_file(file));
    files
}

/// The Debian or Ubuntu package that contains a library.
fn of_debian(host: &dyn ReadFiles, library: &HostPath) -> Option<(String, Vec<HostPath>)> {
    let info = host.path("/var/lib/dpkg/info");
    let path = library.as_str();
    let without_usr = path.strip_prefix("/usr").unwrap_or(path);
    let lists = host.list_matching(&info, "*.list").ok()?;
    let owner = lists.iter().find(|name| {
        let text = host.read_text(&info.join(name)).unwrap_or_default();
        text.lines().any(|line| line == path || line == without_usr)
    })?;
    let package = owner.trim_end_matches(".list").split(':').next().unwrap_or_default().to_owned();
    let file = host.path(&format!("/usr/share/doc/{package}/copyright"));
    host.is_file(&file).then(|| (package, vec![file]))
}
