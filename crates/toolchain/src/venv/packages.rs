//! Installs Python packages by requirement and index into an environment with uv, or with pip without it.

use std::time::Duration;

use gpubuild_detect::id;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::python::Network;
use gpubuild_host::{Command, CommandOutput, Host, HostPath, RunError};

use super::environment::VirtualEnvironment;
use super::installed::distributions;
use super::problem::VenvProblem;

/// Time limit of an installation: builds of PyTorch have several gigabytes.
const DEADLINE: Duration = Duration::from_secs(4 * 60 * 60);

/// A package of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedPackage {
    /// The requirement: `torch<2.15`.
    pub requirement: String,
    /// URL of the index; the configured one if `None`.
    pub index: Option<String>,
}

impl IndexedPackage {
    /// The name in the requirement.
    #[must_use]
    pub fn name(&self) -> &str {
        let end = self.requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
        &self.requirement[..end.unwrap_or(self.requirement.len())]
    }

    /// Whether an installed version is of another build: PyTorch's indexes end in the local part of their versions, as `cu128` for
    /// `2.7.0+cu128`.
    fn is_other_build(&self, version: &str) -> bool {
        let build = self.index.as_ref().and_then(|index| index.trim_end_matches('/').rsplit('/').next());
        match (build, version.split_once('+')) {
            (Some(build), Some((_, local))) => build != local && is_build(build),
            _ => false,
        }
    }
}

/// Whether the last part of an index's URL is the name of a build: `cpu`, `cu128`, `rocm6.4`.
fn is_build(name: &str) -> bool {
    ["cpu", "cu", "rocm", "xpu"].iter().any(|start| name.starts_with(start))
}

/// The state of a package after the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version before; `None` if it was not installed.
    pub before: Option<String>,
}

/// Installs packages. A package that is installed from another build of the same product is replaced.
///
/// # Errors
/// uv or pip is missing or fails. Packages before the failed one stay installed.
pub fn install(
    host: &dyn Host,
    environment: &VirtualEnvironment,
    tools: &InstalledTools,
    network: Network,
    packages: &[IndexedPackage],
) -> Result<Vec<InstalledPackage>, VenvProblem> {
    let before = distributions(host, environment)?;
    let mut results = Vec::new();
    for package in packages {
        let key = gpubuild_core::text::python_package(package.name());
        let old = before.get(&key).map(|known| known.version.clone());
        let replaces = old.as_ref().is_some_and(|version| package.is_other_build(version));
        let call = PackageCall { host, python: &environment.python, tools, network, package, replaces };
        call.run()?;
        let after = distributions(host, environment)?;
        let Some(known) = after.get(&key) else {
            return Err(failed(package, "it is still not in the environment"));
        };
        results.push(InstalledPackage { name: key, version: known.version.clone(), before: old });
    }
    Ok(results)
}

fn failed(package: &IndexedPackage, why: &str) -> VenvProblem {
    VenvProblem::failed(id!("venv.package-failed"))
        .value("package", package.requirement.as_str())
        .value("why", why)
}

/// One call of uv or pip.
struct PackageCall<'a> {
    host: &'a dyn Host,
    python: &'a HostPath,
    tools: &'a InstalledTools,
    network: Network,
    package: &'a IndexedPackage,
    replaces: bool,
}

impl PackageCall<'_> {
    fn run(&self) -> Result<(), VenvProblem> {
        let output = match &self.tools.uv {
            Some(uv) => self.start(&self.uv(uv))?,
            None => self.pip()?,
        };
        if output.success() {
            return Ok(());
        }
        let mut lines = output.stderr.lines().chain(output.stdout.lines());
        let last = lines.rfind(|line| !line.trim().is_empty()).unwrap_or("no output");
        Err(failed(self.package, &format!("the installer {}: {}", output.ending(), last.trim())))
    }

    fn uv(&self, uv: &HostPath) -> Command {
        let mut command = Command::new(uv.as_str(), DEADLINE).args(["pip", "install"]);
        command = command.args(["--python", self.python.as_str()]);
        if self.network == Network::Offline {
            command = command.arg("--offline");
        }
        if self.replaces {
            command = command.args(["--reinstall-package", self.package.name()]);
        }
        self.common(command).env("NO_COLOR", "1")
    }

    fn pip(&self) -> Result<CommandOutput, VenvProblem> {
        let own = self.start(&self.pip_of(self.python, None))?;
        match &self.tools.python {
            Some(other) if own.stderr.contains("No module named pip") => {
                self.start(&self.pip_of(other, Some(self.python)))
            }
            _ => Ok(own),
        }
    }

    fn pip_of(&self, python: &HostPath, target: Option<&HostPath>) -> Command {
        let mut command = Command::new(python.as_str(), DEADLINE).args(["-m", "pip"]);
        if let Some(target) = target {
            command = command.args(["--python", target.as_str()]);
        }
        command = command.args(["install", "--disable-pip-version-check", "--no-input", "--no-color"]);
        if self.network == Network::Offline {
            command = command.arg("--no-index");
        }
        if self.replaces {
            command = command.arg("--force-reinstall");
        }
        self.common(command).env("PIP_USER", "0")
    }

    /// Adds the requirement and its index.
    fn common(&self, command: Command) -> Command {
        let command = command.arg(self.package.requirement.as_str());
        match &self.package.index {
            Some(index) if self.network == Network::Allowed => command.args(["--index-url", index]),
            _ => command,
        }
    }

    fn start(&self, command: &Command) -> Result<CommandOutput, VenvProblem> {
        self.host.run(command).map_err(|error| match error {
            RunError::Interrupted => VenvProblem::failed(id!("build.interrupted")),
            other => failed(self.package, &other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_builds_of_a_package_are_recognised() {
        let package = |index: Option<&str>| IndexedPackage {
            requirement: "torch<2.15".to_owned(),
            index: index.map(str::to_owned),
        };
        let cuda = package(Some("https://download.pytorch.org/whl/cu126"));
        assert_eq!(cuda.name(), "torch");
        assert!(cuda.is_other_build("2.9.0+cpu") && cuda.is_other_build("2.9.0+cu128"));
        assert!(!cuda.is_other_build("2.9.0+cu126") && !cuda.is_other_build("2.9.0"));
        assert!(!package(None).is_other_build("2.9.0+cpu"));
        assert!(!package(Some("https://example.org/simple")).is_other_build("2.9.0+cpu"));
    }
}
