//! Installs pinned wheels with uv or pip in a folder or an environment, and verifies their hashes.
//!
//! Settings of uv and pip (index, certificates, proxies, caches) apply. Callers select the wheels and the target.

use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_host::{Command, CommandOutput, Host, HostPath, Os, ReadFiles, RunError, WriteFiles};
use gpubuild_plan::wheels::lock::PinnedWheel;

use super::error::PipInstallError;
use super::installer_output::{PipCause, cause, error_summary};
use super::{Network, WheelAccess};
use crate::event::{BuildEvent, Sink};

/// Minimum time limit of an installation, for a wheel of 50 MB and a slow connection.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(20 * 60);
/// Slowest supported download speed in bytes per second, from which the time limit is computed.
const SLOWEST_LINE: u64 = 64 << 10;
/// Wheels below this size in bytes are installed together.
const SMALL: u64 = 4 << 20;

/// Where to install wheels.
#[derive(Debug, Clone, Copy)]
pub enum InstallTarget<'a> {
    /// A folder with the layout of `site-packages`. All wheels are installed in one call.
    Folder(&'a HostPath),
    /// A Python environment. Each large wheel is installed in a separate call, so that finished ones are kept if a later one
    /// fails.
    Environment {
        /// Path of the environment's Python interpreter.
        python: &'a HostPath,
    },
}

/// Installs pinned wheels. `find_links` are folders that contain wheels. Offline, uv uses its cache; pip needs a folder with the
/// wheels.
///
/// # Errors
/// See [`PipInstallError`]. Finished downloads stay in the cache of uv or pip.
pub fn install(
    host: &dyn Host,
    access: WheelAccess<'_>,
    wheels: &[PinnedWheel],
    into: InstallTarget<'_>,
    find_links: &[HostPath],
    sink: Sink<'_>,
) -> Result<(), PipInstallError> {
    refuse_truncated(host, wheels, find_links)?;
    let total = wheels.iter().map(PinnedWheel::size).sum();
    let mut done = 0;
    for group in groups(wheels, into) {
        let names = group.iter().map(|wheel| wheel.package.as_str()).collect::<Vec<_>>().join(", ");
        sink(&BuildEvent::Installing { what: names, done, total });
        let scratch = scratch(host, into)?;
        let result = PipCall { host, access, group, into, find_links, scratch: &scratch }.install();
        let result = match (result, access.direct, into) {
            (
                Err(PipInstallError::NoPython { .. } | PipInstallError::NoPip { .. }),
                Some(direct),
                InstallTarget::Folder(folder),
            ) => group.iter().try_for_each(|wheel| direct.unpack(wheel, find_links, folder)),
            (result, ..) => result,
        };
        // A leftover temporary folder does no harm.
        let _ = host.remove(&scratch);
        result?;
        done += group.iter().map(PinnedWheel::size).sum::<u64>();
    }
    sink(&BuildEvent::Installing { what: String::new(), done, total });
    Ok(())
}

/// Renders the requirements file with names, versions and hashes.
#[must_use]
pub fn requirements_text(wheels: &[PinnedWheel]) -> String {
    let mut text = String::new();
    for wheel in wheels {
        write!(text, "{}=={}", wheel.package, wheel.version).expect("writing to a string");
        for file in &wheel.files {
            write!(text, " \\\n    --hash=sha256:{}", file.sha256).expect("writing to a string");
        }
        text.push('\n');
    }
    text
}

/// Splits wheels into groups that are installed in one call each. For a folder there is one group: pip skips folders that
/// exist, and every CUDA wheel contains the folder `nvidia`.
fn groups<'a>(wheels: &'a [PinnedWheel], into: InstallTarget<'_>) -> Vec<&'a [PinnedWheel]> {
    match into {
        _ if wheels.is_empty() => Vec::new(),
        InstallTarget::Folder(_) => vec![wheels],
        InstallTarget::Environment { .. } => {
            wheels.chunk_by(|a, b| a.size() < SMALL && b.size() < SMALL).collect()
        }
    }
}

/// Rejects wheel files with the wrong size before the installation starts.
fn refuse_truncated(
    host: &dyn ReadFiles,
    wheels: &[PinnedWheel],
    folders: &[HostPath],
) -> Result<(), PipInstallError> {
    for file in wheels.iter().flat_map(|wheel| &wheel.files).filter(|file| file.size > 0) {
        for folder in folders {
            let path = folder.join(&file.name);
            if let Ok(stat) = host.stat(&path)
                && stat.size != file.size
            {
                return Err(PipInstallError::Truncated {
                    path: path.to_string(),
                    has: stat.size,
                    pinned: file.size,
                });
            }
        }
    }
    Ok(())
}

/// Creates a temporary folder next to the target.
fn scratch(host: &dyn WriteFiles, into: InstallTarget<'_>) -> Result<HostPath, PipInstallError> {
    let parent = match into {
        InstallTarget::Folder(folder) => folder.parent(),
        InstallTarget::Environment { python } => python.parent().and_then(|bin| bin.parent()),
    };
    let parent = parent.unwrap_or_else(|| host.path("."));
    host.temporary_dir(&parent).map_err(|error| write_error(&parent, &error))
}

fn write_error(path: &HostPath, error: &std::io::Error) -> PipInstallError {
    let cause = match error.kind() {
        std::io::ErrorKind::StorageFull => Some(PipCause::Space),
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
            Some(PipCause::ReadOnly)
        }
        _ => None,
    };
    let message = error.to_string();
    match cause {
        Some(cause) => {
            PipInstallError::Failed { what: "into".to_owned(), version: path.to_string(), cause, message }
        }
        None => PipInstallError::Write { path: path.to_string(), message },
    }
}

/// One call of uv or pip.
struct PipCall<'a> {
    host: &'a dyn Host,
    access: WheelAccess<'a>,
    group: &'a [PinnedWheel],
    into: InstallTarget<'a>,
    find_links: &'a [HostPath],
    scratch: &'a HostPath,
}

impl PipCall<'_> {
    fn install(&self) -> Result<(), PipInstallError> {
        let requirements = self.scratch.join("requirements.txt");
        self.host
            .write(&requirements, requirements_text(self.group).as_bytes())
            .map_err(|error| write_error(&requirements, &error))?;
        match &self.access.tools.uv {
            Some(uv) => self.finish(&self.run(&self.uv(uv, &requirements))?),
            None => self.install_with_pip(&requirements),
        }
    }

    fn uv(&self, uv: &HostPath, requirements: &HostPath) -> Command {
        let mut command = Command::new(uv.as_str(), self.deadline()).args(["pip", "install"]);
        command = self.common(command).args(["-r", requirements.as_str()]);
        if self.access.network == Network::Offline {
            command = command.arg("--offline");
        }
        let python = match self.into {
            InstallTarget::Folder(_) => self.access.tools.python.as_ref(),
            InstallTarget::Environment { python } => Some(python),
        };
        if let Some(python) = python {
            command = command.args(["--python", python.as_str()]);
        }
        command.env("NO_COLOR", "1")
    }

    fn install_with_pip(&self, requirements: &HostPath) -> Result<(), PipInstallError> {
        if self.access.network == Network::Offline && self.find_links.is_empty() {
            let first = &self.group[0];
            return Err(PipInstallError::Offline {
                what: first.package.clone(),
                version: first.version.clone(),
            });
        }
        let python = self.access.tools.python.as_ref();
        let of_target = match self.into {
            InstallTarget::Folder(_) => None,
            InstallTarget::Environment { python } => Some(python),
        };
        let Some(first) = of_target.or(python) else {
            return Err(PipInstallError::NoPython { what: self.what() });
        };
        let mut output = self.run(&self.pip(first, None, requirements))?;
        if lacks_pip(&output)
            && let (Some(target), Some(python)) = (of_target, python)
        {
            // An environment without pip: use the pip of the other Python.
            output = self.run(&self.pip(python, Some(target), requirements))?;
        }
        if lacks_pip(&output) {
            let own = self.own_environment(python.unwrap_or(first))?;
            output = self.run(&self.pip(&own, of_target, requirements))?;
        }
        self.finish(&output)
    }

    fn pip(&self, python: &HostPath, target: Option<&HostPath>, requirements: &HostPath) -> Command {
        let mut command = Command::new(python.as_str(), self.deadline()).args(["-m", "pip"]);
        if let Some(target) = target.filter(|target| *target != python) {
            command = command.args(["--python", target.as_str()]);
        }
        command = command.args(["install", "--disable-pip-version-check", "--no-input", "--no-color"]);
        if matches!(self.into, InstallTarget::Folder(_)) {
            command = command.arg("--no-compile");
        }
        command = self.common(command).args(["-r", requirements.as_str()]);
        // `--target` fails if the user's configuration sets a user site. Old versions of pip ignore the last variable.
        command.env("PIP_USER", "0").env("PIP_REQUIRE_VIRTUALENV", "0").env("PIP_RESUME_RETRIES", "5")
    }

    /// Adds the options that uv and pip have in common.
    fn common(&self, command: Command) -> Command {
        let mut command = command.args(["--require-hashes", "--no-deps", "--only-binary", ":all:"]);
        if let InstallTarget::Folder(folder) = self.into {
            command = command.args(["--target", folder.as_str()]);
        }
        for folder in self.find_links {
            command = command.args(["--find-links", folder.as_str()]);
        }
        if let Some(index) = self.access.index {
            command = command.args(["--index-url", index]);
        }
        if self.access.network == Network::Offline && !self.find_links.is_empty() {
            command = command.arg("--no-index");
        }
        command
    }

    /// Creates a temporary environment with pip, for a Python without pip but with a complete venv module.
    fn own_environment(&self, python: &HostPath) -> Result<HostPath, PipInstallError> {
        let folder = self.scratch.join("venv");
        let command = Command::new(python.as_str(), SHORTEST_DEADLINE).args(["-m", "venv", folder.as_str()]);
        let created = self.run(&command)?.success();
        let inside = match self.host.platform().os {
            Os::Windows => "Scripts/python.exe",
            Os::Linux | Os::Macos => "bin/python",
        };
        let own = folder.join(inside);
        if created && self.host.is_file(&own) {
            return Ok(own);
        }
        Err(PipInstallError::NoPip { what: self.what(), python: python.to_string() })
    }

    fn run(&self, command: &Command) -> Result<CommandOutput, PipInstallError> {
        // A signal leaves no temporary files of uv and pip, because the caller removes this folder.
        let folder = self.scratch.join("tmp");
        self.host.create_dir_all(&folder).map_err(|error| write_error(&folder, &error))?;
        let command = ["TMPDIR", "TEMP", "TMP"]
            .into_iter()
            .fold(command.clone(), |command, name| command.env(name, folder.as_str()));
        self.host.run(&command).map_err(|error| match error {
            RunError::Interrupted => PipInstallError::Interrupted,
            other => self.failed(PipCause::Other, other.to_string()),
        })
    }

    fn finish(&self, output: &CommandOutput) -> Result<(), PipInstallError> {
        if output.success() {
            return Ok(());
        }
        let cause = cause(output);
        if cause == PipCause::NotFound
            && self.access.network == Network::Offline
            && self.find_links.is_empty()
        {
            let first = &self.group[0];
            return Err(PipInstallError::Offline {
                what: first.package.clone(),
                version: first.version.clone(),
            });
        }
        Err(self.failed(cause, error_summary(output)))
    }

    fn failed(&self, cause: PipCause, message: String) -> PipInstallError {
        let version = match self.group {
            [only] => only.version.clone(),
            _ => String::new(),
        };
        PipInstallError::Failed { what: self.what(), version, cause, message }
    }

    fn what(&self) -> String {
        self.group.iter().map(|wheel| wheel.package.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn deadline(&self) -> Duration {
        let bytes: u64 = self.group.iter().map(PinnedWheel::size).sum();
        SHORTEST_DEADLINE.max(Duration::from_secs(bytes / SLOWEST_LINE))
    }
}

fn lacks_pip(output: &CommandOutput) -> bool {
    !output.success() && output.stderr.contains("No module named pip")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::toolkit::InstalledTools;
    use gpubuild_host::HostInfo;
    use gpubuild_plan::wheels::lock::PinnedFile;

    fn pinned(package: &str, size: u64) -> PinnedWheel {
        let file = |sum: &str| PinnedFile { name: String::new(), sha256: sum.to_owned(), size };
        PinnedWheel { package: package.into(), version: "1.13.2".into(), files: vec![file("aa"), file("bb")] }
    }

    #[test]
    fn requirements_contain_every_hash() {
        assert_eq!(
            requirements_text(&[pinned("ninja", 0)]),
            "ninja==1.13.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        );
    }

    #[test]
    fn large_wheels_are_installed_one_by_one_in_an_environment() {
        let wheels =
            [pinned("a", 1), pinned("b", 2), pinned("c", SMALL), pinned("d", 3 * SMALL), pinned("e", 1)];
        let host = gpubuild_host::RealHost::new();
        let python = host.path("/v/bin/python");
        let sizes = |into| groups(&wheels, into).iter().map(|group| group.len()).collect::<Vec<_>>();
        assert_eq!(sizes(InstallTarget::Environment { python: &python }), [2, 1, 1, 1]);
        assert_eq!(sizes(InstallTarget::Folder(&python)), [5]);
    }

    #[cfg(unix)]
    #[test]
    fn temporary_files_of_the_installer_are_removed_whatever_happens_to_it() {
        let host = gpubuild_host::RealHost::new();
        let folder = tempfile::tempdir().unwrap();
        let root = host.path(folder.path().to_str().unwrap());
        let uv = root.join("bin/uv");
        // The three variables must name the same folder, in which the installer leaves files and a process.
        let script = "#!/bin/sh\n[ \"$TMP\" = \"$TMPDIR\" ] && [ \"$TEMP\" = \"$TMPDIR\" ] || exit 9\n\
                      mkdir \"$TMPDIR/pip-unpack\" && echo \"$TMPDIR\" > \"${0%/*}/seen\"\nkill -s $(cat \"${0%/*}/signal\") $$\nsleep 9\n";
        host.write(&uv, script.as_bytes()).unwrap();
        host.set_executable(&uv).unwrap();
        let tools = InstalledTools { uv: Some(uv), ..InstalledTools::default() };
        let target = root.join("target/site");
        for signal in ["TERM", "KILL"] {
            host.write(&root.join("bin/signal"), signal.as_bytes()).unwrap();
            let wheels = [pinned("ninja", 0)];
            let into = InstallTarget::Folder(&target);
            let access = WheelAccess { tools: &tools, network: Network::Allowed, index: None, direct: None };
            assert!(install(&host, access, &wheels, into, &[], &|_| {}).is_err(), "{signal}");
            let seen = host.read_text(&root.join("bin/seen")).unwrap();
            assert!(host.path(seen.trim()).is_inside(&root.join("target")), "{seen}");
            assert!(host.list(&root.join("target")).unwrap().is_empty(), "{signal}");
            host.remove(&root.join("bin/seen")).unwrap();
        }
    }
}
