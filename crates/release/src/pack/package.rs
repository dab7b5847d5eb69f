//! The package of a program, and the crates that are linked into it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::python::Network;
use gpubuild_host::{Command, HostPath, InspectHost, Os, ReadFiles};
use serde::Deserialize;

use super::PackError;

/// The time limit for `cargo metadata`.
const DEADLINE: Duration = Duration::from_secs(10 * 60);
/// The source of crates from crates.io in the output of cargo, also if a mirror replaces it.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The package of a program, from `cargo metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoPackage {
    /// The name of the package.
    pub name: String,
    /// The version of the package.
    pub version: String,
    /// All crates that are linked into the program, by name and version.
    pub crates: Vec<LinkedCrate>,
    /// The ids of those that it names itself.
    pub depends: Vec<String>,
}

impl CargoPackage {
    /// The name and version of something that contains no crates.
    #[must_use]
    pub fn without_crates(name: &str, version: &str) -> Self {
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { name, version, crates: Vec::new(), depends: Vec::new() }
    }
}

/// A crate in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedCrate {
    /// Its id in the output of cargo.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression, if it has one.
    pub licence: Option<String>,
    /// Whether it comes from crates.io.
    pub is_published: bool,
    /// The ids of the crates that it needs.
    pub depends: Vec<String>,
    /// The folder of its sources.
    pub folder: HostPath,
}

/// Cargo's error and its last cause, without the backtrace.
fn cargo_message(stderr: &str) -> String {
    let text = stderr.split("Stack backtrace:").next().unwrap_or_default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.find(|line| line.starts_with("error")).map(|line| line.trim_start_matches("error: "));
    match (error, lines.next_back()) {
        (Some(error), Some(cause)) => format!("{error}: {cause}"),
        (Some(error), None) => error.to_owned(),
        (None, _) => text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned(),
    }
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
    source: Option<String>,
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

/// Queries `cargo metadata` for the package of a program, with the dependencies for a target: by default for this machine.
///
/// # Errors
/// Cargo fails, or its output is invalid.
pub fn query(
    host: &dyn InspectHost,
    folder: &HostPath,
    target: Option<&str>,
    network: Network,
) -> Result<CargoPackage, PackError> {
    let platform = host.platform();
    let vendor = match platform.os {
        Os::Linux => "unknown-linux-gnu",
        Os::Windows => "pc-windows-msvc",
        Os::Macos => "apple-darwin",
    };
    let target = target.map_or_else(|| format!("{}-{vendor}", platform.arch.id()), str::to_owned);
    let manifest = folder.join("Cargo.toml");
    let mut command = Command::new(host.env().get("CARGO").unwrap_or("cargo"), DEADLINE)
        .args(["metadata", "--format-version", "1", "--manifest-path", manifest.as_str()])
        .args(["--filter-platform", &target]);
    if network == Network::Offline {
        command = command.arg("--offline");
    }
    let cargo = |what: String| PackError::Cargo { package: folder.to_string(), what };
    let output = host.run(&command).map_err(|error| cargo(error.to_string()))?;
    if !output.success() {
        return Err(cargo(cargo_message(&output.stderr)));
    }
    let metadata: Metadata =
        serde_json::from_str(&output.stdout).map_err(|error| cargo(error.to_string()))?;
    package(host, &manifest, metadata)
        .ok_or_else(|| cargo("its output does not contain the package".to_owned()))
}

/// The package with its normal dependencies, without those of build scripts and tests.
fn package(host: &dyn ReadFiles, manifest: &HostPath, metadata: Metadata) -> Option<CargoPackage> {
    let linked = |node: ResolvedNode| {
        let is_linked = |one: &ResolvedDependency| one.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let mut ids: Vec<String> =
            node.deps.into_iter().filter(is_linked).map(|dependency| dependency.pkg).collect();
        ids.sort_indirect();
        (node.id, ids)
    };
    let mut depends: BTreeMap<String, Vec<String>> =
        metadata.resolve.nodes.into_iter().map(linked).collect_map();
    let root = metadata.packages.iter().find(|one| {
        let path = host.path(&one.manifest_path);
        path.key() == manifest.key() || host.is_same_file(&path, manifest)
    })?;
    let (mut reached, mut open) = (BTreeSet::from([root.id.clone()]), vec![root.id.clone()]);
    while let Some(id) = open.pop() {
        let new = depends.get(&id).into_iter().flatten().filter(|id| reached.insert((*id).clone()));
        open.extend(new.cloned());
    }
    let mut crates: Vec<LinkedCrate> = metadata
        .packages
        .iter()
        .filter(|one| one.id != root.id && reached.contains(&one.id))
        .map(|one| LinkedCrate {
            id: one.id.clone(),
            name: one.name.clone(),
            version: one.version.clone(),
            licence: one.license.clone(),
            is_published: one.source.as_deref() == Some(CRATES_IO),
            depends: depends.remove(&one.id).unwrap_or_default(),
            folder: host.path(&one.manifest_path).parent().unwrap_or_else(|| host.path("/")),
        })
        .collect();
    crates.sort_indirect_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let depends = depends.remove(&root.id).unwrap_or_default();
    Some(CargoPackage { name: root.name.clone(), version: root.version.clone(), crates, depends })
}

#[cfg(test)]
mod tests {
    use super::cargo_message;

    #[test]
    fn messages_of_cargo_have_the_error_and_its_cause() {
        let failed = "error: failed to parse manifest at `/x/Cargo.toml`\n\nCaused by:\n  no targets specified\n\nStack backtrace:\n  13: <unknown>\n";
        assert_eq!(
            cargo_message(failed),
            "failed to parse manifest at `/x/Cargo.toml`: no targets specified"
        );
        assert_eq!(cargo_message("    Updating index\nerror: no network\n"), "no network");
        assert_eq!(cargo_message("killed\n\n"), "killed");
    }
}
