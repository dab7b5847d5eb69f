//! Creates a lock: resolves the wheels of a toolkit release for all platforms with uv and the package index that uv uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::python::{Network, PipInstallError, installer_output};
use gpubuild_host::{Arch, Command, Host, HostPath, Os, Platform, RunError};
use gpubuild_plan::wheels::lock::{Component, PinnedFile, PinnedWheel, SCHEMA, WheelLock};
use gpubuild_plan::wheels::tag::{self, TagFit, WheelLibc};
use serde::Deserialize;

use super::kit::ToolkitLayout;

/// Timeout of the resolution, which downloads metadata but no wheels.
const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// The platforms that locks support.
const PLATFORMS: [(&str, Os, Arch); 4] = [
    ("linux-aarch64", Os::Linux, Arch::Aarch64),
    ("linux-x86_64", Os::Linux, Arch::X86_64),
    ("windows-aarch64", Os::Windows, Arch::Aarch64),
    ("windows-x86_64", Os::Windows, Arch::X86_64),
];

/// A lock that cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The wheels or archives of the release do not form a complete toolkit.
    #[error("{toolkit} {release} cannot be locked: {why}")]
    NoToolkit {
        /// Id of the toolkit.
        toolkit: String,
        /// The requested release.
        release: String,
        /// What it lacks.
        why: String,
        /// Whether a manifest of archives can be used instead.
        has_manifest: bool,
    },
    /// uv does not find the release, or fails.
    #[error(transparent)]
    Resolve(#[from] PipInstallError),
    /// The index or manifest lacks data that a lock needs.
    #[error("the index or manifest has no {what} for {toolkit} {release}")]
    Incomplete {
        /// The missing wheel, hash or version.
        what: String,
        /// Id of the toolkit.
        toolkit: String,
        /// The requested release.
        release: String,
    },
    /// The index has another file than the one that is known.
    #[error("`{file}` in the index does not have the known sha256 hash")]
    Hash {
        /// The wheel.
        file: String,
    },
    /// The output of uv is not a valid `pylock.toml`, or the lock made of it is not valid.
    #[error("uv did not print a valid list of wheels: {message}")]
    Unreadable {
        /// The parser's error.
        message: String,
    },
    /// The manifest of archives is invalid.
    #[error("`{manifest}` is not a manifest of the release {release}: {message}")]
    Manifest {
        /// Path or URL.
        manifest: String,
        /// The requested release.
        release: String,
        /// The problem.
        message: String,
    },
    /// A temporary file cannot be written.
    #[error("failed to write `{path}`: {message}")]
    Write {
        /// The path.
        path: String,
        /// The system's error.
        message: String,
    },
}

impl Diagnostic for PinError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoToolkit { .. } => id!("toolkit.not-in-wheels"),
            Self::Resolve(error) => error.id(),
            Self::Incomplete { .. } => id!("toolkit.lock-incomplete"),
            Self::Hash { .. } => id!("wheel.hash-mismatch"),
            Self::Unreadable { .. } | Self::Manifest { .. } => id!("toolkit.lock-unreadable"),
            Self::Write { .. } => id!("cache.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoToolkit { release, has_manifest: true, .. } => Some(format!(
                "`--manifest` reads NVIDIA's manifest of the archives of {release}: `redistrib_{release}.N.json`"
            )),
            _ => None,
        }
    }
}

/// The parts of a `pylock.toml` (PEP 751) that a lock needs.
#[derive(Debug, Deserialize)]
pub(crate) struct Pylock {
    #[serde(default)]
    packages: Vec<IndexPackage>,
}

impl Pylock {
    /// Parses the list.
    ///
    /// # Errors
    /// It is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, PinError> {
        gpubuild_toml::from_str(text)
            .map_err(|error| PinError::Unreadable { message: error.message().to_owned() })
    }

    /// Names and sha256 hashes of the files of a package.
    pub(crate) fn files(&self, package: &str) -> Vec<(&str, Option<&str>)> {
        let listed = self.packages.iter().filter(|one| one.name == package).flat_map(|one| &one.wheels);
        listed
            .filter_map(|wheel| Some((wheel.file_name()?, wheel.hashes.get("sha256").map(String::as_str))))
            .collect()
    }
}

#[derive(Debug, Deserialize)]
struct IndexPackage {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    wheels: Vec<IndexWheel>,
}

#[derive(Debug, Deserialize)]
struct IndexWheel {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

impl IndexWheel {
    /// Its file name; if it is not given, the last component of the URL or path.
    fn file_name(&self) -> Option<&str> {
        let place = self.name.as_deref().or(self.url.as_deref()).or(self.path.as_deref())?;
        let place = place.split(['?', '#']).next().unwrap_or(place);
        place.rsplit(['/', '\\']).next().filter(|name| !name.is_empty())
    }
}

/// What a lock pins, beside the toolkit and its release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PinOrigin<'a> {
    /// The URL of the index, if not the one that uv uses.
    pub index: Option<&'a str>,
    /// The GPUs whose kernels are pinned, for toolkits with a wheel for each: `gfx1100`.
    pub gpus: &'a [String],
}

impl PinOrigin<'_> {
    /// The packages that a name in a kit stands for.
    fn packages(&self, name: &str) -> Vec<String> {
        if name.contains(GPU) {
            self.gpus.iter().map(|gpu| name.replace(GPU, gpu)).collect()
        } else {
            vec![name.to_owned()]
        }
    }
}

/// Stands for a GPU in the names of packages.
const GPU: &str = "{gpu}";

/// The requirements to resolve, one per line: the kit's package with the extras of all components, `cuda-toolkit[nvcc,cudart]==13.1.*`, or
/// each package.
///
/// # Errors
/// The wheels of the release do not form a complete toolkit.
pub fn requirement(
    kit: &ToolkitLayout,
    toolkit: &str,
    description: Option<&Description>,
    release: &Version,
    origin: PinOrigin<'_>,
) -> Result<String, PinError> {
    if let Some(offered) = description.and_then(|description| description.offered.as_ref())
        && *release < offered.since
    {
        return Err(PinError::NoToolkit {
            toolkit: toolkit.to_owned(),
            release: release.to_string(),
            why: offered.before.clone(),
            has_manifest: kit.archives.is_some(),
        });
    }
    let wheels = kit.components.iter().flat_map(|part| &part.wheels);
    if kit.each {
        let names = wheels.flat_map(|wheel| origin.packages(&wheel.package));
        let version = if release.as_str().matches('.').count() < 2 {
            format!("{release}.*")
        } else {
            release.to_string()
        };
        return Ok(names.map(|name| format!("{name}=={version}")).collect::<Vec<_>>().join("\n"));
    }
    let extras: Vec<&str> = wheels.map(|wheel| wheel.extra.as_str()).collect();
    Ok(format!("{}[{}]=={release}.*", kit.names, extras.join(",")))
}

/// Requirements and where their wheels are.
#[derive(Debug, Clone, Copy)]
pub struct PinRequest<'a> {
    /// The requirements, one per line.
    pub requirement: &'a str,
    /// The URL of an index, if not the one that uv uses.
    pub index: Option<&'a str>,
    /// Folders with wheels.
    pub find_links: &'a [HostPath],
    /// Whether the index may be used.
    pub network: Network,
}

/// Resolves requirements with uv. Returns the text of a `pylock.toml`.
///
/// # Errors
/// See [`PinError`].
pub fn resolve(
    host: &dyn Host,
    tools: &InstalledTools,
    uv: &HostPath,
    request: &PinRequest<'_>,
    scratch: &HostPath,
) -> Result<String, PinError> {
    let PinRequest { requirement, index, find_links, network } = *request;
    let input = scratch.join("requirements.in");
    host.write(&input, format!("{requirement}\n").as_bytes())
        .map_err(|error| PinError::Write { path: input.to_string(), message: error.to_string() })?;
    let mut command = Command::new(uv.as_str(), DEADLINE)
        .args(["pip", "compile", "--universal", "--format", "pylock.toml", "--no-header", "--quiet"])
        .args(["--only-binary", ":all:"]);
    if let Some(python) = &tools.python {
        command = command.args(["--python", python.as_str()]);
    }
    for folder in find_links {
        command = command.args(["--find-links", folder.as_str()]);
    }
    if let Some(index) = index {
        command = command.args(["--default-index", index]);
    }
    if network == Network::Offline {
        command = command.arg("--offline");
        if !find_links.is_empty() {
            command = command.arg("--no-index");
        }
    }
    let failed = |cause, message| PipInstallError::Failed {
        what: requirement.replace('\n', ", "),
        version: String::new(),
        cause,
        message,
    };
    let output =
        host.run(&command.arg(input.as_str()).env("NO_COLOR", "1")).map_err(|error| match error {
            RunError::Interrupted => PipInstallError::Interrupted,
            other => failed(installer_output::PipCause::Other, other.to_string()),
        })?;
    if !output.success() {
        return Err(failed(installer_output::cause(&output), installer_output::error_summary(&output)).into());
    }
    Ok(output.stdout)
}

/// Creates a lock from the `pylock.toml` of uv.
///
/// # Errors
/// The list is invalid, or lacks a wheel or a hash.
pub fn lock(
    kit: &ToolkitLayout,
    toolkit: &str,
    release: &Version,
    origin: PinOrigin<'_>,
    pylock: &str,
) -> Result<WheelLock, PinError> {
    let list = Pylock::parse(pylock)?;
    let missing = |what: &str| PinError::Incomplete {
        what: what.to_owned(),
        toolkit: toolkit.to_owned(),
        release: release.to_string(),
    };
    let package = |name: &str| list.packages.iter().find(|one| one.name == name).ok_or_else(|| missing(name));
    let named = &package(&kit.names)?.version;
    let parts: Vec<&str> = named.split('.').take(3).collect();
    let version: Version = parts.join(".").parse().map_err(|_| missing(&format!("version in `{named}`")))?;
    let mut components = Vec::new();
    for part in &kit.components {
        let packages = part.wheels.iter().flat_map(|wheel| origin.packages(&wheel.package));
        let wheels = packages.map(|one| pinned(package(&one)?, &missing)).collect::<Result<Vec<_>, _>>()?;
        components.push(Component {
            id: part.id.clone(),
            optional: part.optional,
            needs: part.needs.clone(),
            wheels,
            archives: Vec::new(),
        });
    }
    let base = || components.iter().filter(|component| !component.optional).flat_map(|one| &one.wheels);
    let platforms: Vec<String> = PLATFORMS
        .into_iter()
        .filter(|(_, os, _)| kit.on.is_empty() || kit.on.contains(os))
        .filter(|(_, os, arch)| base().all(|wheel| wheel.files.iter().any(|file| runs(file, *os, *arch))))
        .map(|(name, ..)| name.to_owned())
        .collect();
    if platforms.is_empty() {
        return Err(missing("platform that has all wheels"));
    }
    let release = version.release().parse().unwrap_or_else(|_| release.clone());
    let lock = WheelLock {
        schema: SCHEMA.to_owned(),
        toolkit: toolkit.to_owned(),
        release,
        version,
        index: origin.index.map(str::to_owned),
        platforms,
        components,
    };
    lock.check().map_err(|message| PinError::Unreadable { message })?;
    Ok(lock)
}

/// Whether a wheel supports a platform with any version of glibc.
fn runs(file: &PinnedFile, os: Os, arch: Arch) -> bool {
    tag::fit(&file.name, Platform { os, arch }, &WheelLibc::Glibc(None)) == TagFit::Yes
}

fn pinned(package: &IndexPackage, missing: &dyn Fn(&str) -> PinError) -> Result<PinnedWheel, PinError> {
    let mut files = Vec::new();
    for wheel in &package.wheels {
        let name =
            wheel.file_name().ok_or_else(|| missing(&format!("name of a wheel of `{}`", package.name)))?;
        let file = PinnedFile { name: name.to_owned(), sha256: String::new(), size: wheel.size };
        if !PLATFORMS.iter().any(|(_, os, arch)| runs(&file, *os, *arch)) {
            continue;
        }
        let hash = wheel.hashes.get("sha256").ok_or_else(|| missing(&format!("sha256 of `{name}`")))?;
        files.push(PinnedFile { sha256: hash.to_ascii_lowercase(), ..file });
    }
    files.sort_indirect_by(|left, right| left.name.cmp(&right.name));
    if files.is_empty() {
        return Err(missing(&format!("wheel of `{}`", package.name)));
    }
    Ok(PinnedWheel { package: package.name.clone(), version: package.version.clone(), files })
}

/// The text of a lock file, formatted like those in `toolkits/locks/`.
#[must_use]
pub fn text(lock: &WheelLock, kit: &ToolkitLayout) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_lock(&mut out, lock, kit);
    out
}

fn write_lock(out: &mut String, lock: &WheelLock, kit: &ToolkitLayout) -> std::fmt::Result {
    let list = |items: &[String]| items.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", ");
    let name = lock.toolkit.to_ascii_uppercase();
    if lock.has_archives() {
        write!(out, "# {name} {} from the archives that NVIDIA's redistrib_{0}.json lists. ", lock.version)?;
    } else {
        let version = &lock.version;
        write!(out, "# {name} {version} from wheels")?;
        if !kit.each {
            write!(out, ": the packages that the wheel `{}` lists", kit.names)?;
        }
        write!(out, ". ")?;
    }
    writeln!(out, "The format is documented in docs/reference/toolkits.md.")?;
    writeln!(out, "schema = {}\ntoolkit = {}", quoted(&lock.schema), quoted(&lock.toolkit))?;
    writeln!(out, "release = {}", quoted(lock.release.as_str()))?;
    writeln!(out, "version = {}", quoted(lock.version.as_str()))?;
    if let Some(index) = &lock.index {
        writeln!(out, "index = {}", quoted(index))?;
    }
    writeln!(out, "platforms = [{}]", list(&lock.platforms))?;
    for component in &lock.components {
        writeln!(out, "\n[[components]]\nid = {}", quoted(&component.id))?;
        if component.optional {
            writeln!(out, "optional = true")?;
        }
        if !component.needs.is_empty() {
            writeln!(out, "needs = [{}]", list(&component.needs))?;
        }
        write_packages(out, "wheels", &component.wheels)?;
        write_packages(out, "archives", &component.archives)?;
    }
    Ok(())
}

fn write_packages(out: &mut String, kind: &str, packages: &[PinnedWheel]) -> std::fmt::Result {
    for package in packages {
        writeln!(out, "[[components.{kind}]]\npackage = {}", quoted(&package.package))?;
        writeln!(out, "version = {}\nfiles = [", quoted(&package.version))?;
        for file in &package.files {
            write!(out, "  {{ name = {}, sha256 = {}", quoted(&file.name), quoted(&file.sha256))?;
            if file.size > 0 {
                write!(out, ", size = {}", file.size)?;
            }
            writeln!(out, " }},")?;
        }
        writeln!(out, "]")?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "pin_tests.rs"]
mod tests;
