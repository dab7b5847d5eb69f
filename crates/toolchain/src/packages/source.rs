//! Package managers as sources of packages.

use std::time::Duration;

use gpubuild_core::clean;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::python::Network;
use gpubuild_exec::store;
use gpubuild_host::{Command, CommandOutput, Host, HostPath, RunError, find_program};
use gpubuild_plan::packages::{ManagerKind, PackageManager, PackageOffer};

use super::target::TargetPackages;
use super::{apt, dnf};
use crate::provision::{PackageError, ProvisionError, UnpackedPackage};

/// Time limit of queries.
const QUERY: Duration = Duration::from_secs(120);
/// Time limit of downloads, which print nothing while they run.
const TRANSFER: Duration = Duration::from_secs(3600);

/// What every step of a package manager needs.
pub(super) struct SourceContext<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) kind: ManagerKind,
    pub(super) manager: &'a PackageManager,
    /// The lock that is held until the programs have ended.
    pub(super) lock: Option<&'a HostPath>,
    /// Separate package lists, which replace the system's.
    pub(super) lists: Option<HostPath>,
    /// The architectures, if the packages are for another platform.
    pub(super) target: Option<TargetPackages>,
    /// Whether the package manager may use the network.
    pub(super) network: Network,
}

/// The packages `names` and their dependencies that the system lacks.
pub(super) fn resolve(
    context: &SourceContext<'_>,
    offer: &PackageOffer<'_>,
    names: &[String],
) -> Result<Vec<UnpackedPackage>, ProvisionError> {
    let mut found = match context.kind {
        ManagerKind::Apt => apt::resolve(context, names)?,
        ManagerKind::Dnf => dnf::resolve(context, names)?,
    };
    let never = || offer.manager.never.iter().chain(&offer.set.never);
    found.retain(|one| !never().any(|pattern| gpubuild_host::search::star_matches(pattern, &one.name)));
    found.sort_indirect_by(|left, right| left.file.cmp(&right.file));
    found.dedup_by(|left, right| left.file == right.file);
    if found.is_empty() {
        let message = "the package manager named no packages".to_owned();
        return Err(PackageError::Missing { message, update: None }.into());
    }
    Ok(found)
}

/// Fills `lists` with the current package lists. dnf does so by itself.
pub(super) fn update(context: &SourceContext<'_>) -> Result<(), ProvisionError> {
    match context.kind {
        ManagerKind::Apt => apt::update(context),
        ManagerKind::Dnf => Ok(()),
    }
}

/// Downloads packages into a folder. Complete files in it are kept.
pub(super) fn download(
    context: &SourceContext<'_>,
    packages: &[&UnpackedPackage],
    folder: &HostPath,
) -> Result<(), ProvisionError> {
    match context.kind {
        ManagerKind::Apt => apt::download(context, packages, folder),
        ManagerKind::Dnf => dnf::download(context, packages, folder),
    }
}

/// Whether a file, whose name is that of the package, is this package. The hash in the signed lists decides; dnf does not show it, so its
/// packages need a valid signature.
pub(super) fn is_package(context: &SourceContext<'_>, one: &UnpackedPackage, file: &HostPath) -> bool {
    match context.kind {
        ManagerKind::Dnf => context.host.is_file(file) && dnf::is_package(context, one, file),
        ManagerKind::Apt => {
            !one.sha256.is_empty()
                && store::hash_file(context.host, file).is_ok_and(|(found, _)| found == one.sha256)
        }
    }
}

/// Unpacks a package into a folder.
pub(super) fn unpack(
    context: &SourceContext<'_>,
    file: &HostPath,
    folder: &HostPath,
) -> Result<(), ProvisionError> {
    let command = match context.kind {
        ManagerKind::Apt => apt::unpack(context, file, folder)?,
        ManagerKind::Dnf => dnf::unpack(context, file)?,
    };
    let output = run(context, &command.current_dir(folder.clone()))?;
    if output.success() {
        return Ok(());
    }
    let unpack = |message| PackageError::Unpack { file: file.to_string(), message };
    Err(failure(&output, &[], &unpack))
}

/// Checks that every program of the manager is installed.
pub(super) fn check_tools(context: &SourceContext<'_>) -> Result<(), PackageError> {
    for tool in &context.manager.programs {
        program(context, &tool.name)?;
    }
    Ok(())
}

fn program(context: &SourceContext<'_>, name: &str) -> Result<HostPath, PackageError> {
    find_program(context.host, name).into_iter().next().ok_or_else(|| {
        let known = context.manager.programs.iter().find(|tool| tool.name == name);
        PackageError::NoTool {
            name: name.to_owned(),
            from: known.map_or_else(|| format!("`{name}`"), |tool| tool.from.clone()),
        }
    })
}

/// A query of the package manager.
pub(super) fn query(context: &SourceContext<'_>, name: &str) -> Result<Command, PackageError> {
    command(context, name, QUERY)
}

/// A command that uses the network or unpacks.
pub(super) fn transfer(context: &SourceContext<'_>, name: &str) -> Result<Command, PackageError> {
    command(context, name, TRANSFER)
}

fn command(context: &SourceContext<'_>, name: &str, deadline: Duration) -> Result<Command, PackageError> {
    let program = program(context, name)?;
    let command =
        Command::new(program.as_str(), deadline).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(match context.lock {
        Some(lock) => command.lock(lock.clone()),
        None => command,
    })
}

/// Runs a command of the package manager.
pub(super) fn run(context: &SourceContext<'_>, command: &Command) -> Result<CommandOutput, ProvisionError> {
    context.host.run(command).map_err(|error| match error {
        RunError::Interrupted => ProvisionError::Interrupted,
        other => PackageError::Download { message: other.to_string() }.into(),
    })
}

/// The error lines of a program, or its last line.
pub(super) fn summary(output: &CommandOutput) -> String {
    let text = format!("{}\n{}", output.stdout, output.stderr);
    let error = |line: &&str| {
        ["E: ", "Error: ", "error: ", "dpkg-deb: error"].iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = text.lines().filter(error).take(3).collect();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    let shown = if lines.is_empty() { last.into_iter().collect() } else { lines };
    if shown.is_empty() {
        return output.ending();
    }
    clean::line(&shown.join("; ")).into_owned()
}

/// Parts of messages that a package manager prints for one error, and the error with the summary of the output.
pub(super) type KnownFailure = (&'static [&'static str], fn(String) -> PackageError);

/// The error for the output of a program that failed: a full disk, else the first known failure, else `other`. Messages are not translated
/// (`LC_ALL=C`).
pub(super) fn failure(
    output: &CommandOutput,
    known: &[KnownFailure],
    other: &dyn Fn(String) -> PackageError,
) -> ProvisionError {
    let text = format!("{}\n{}", output.stdout, output.stderr);
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let message = summary(output);
    if has(&["No space left on device", "enough free space"]) {
        return ProvisionError::Cache { message, kind: std::io::ErrorKind::StorageFull };
    }
    match known.iter().find(|(parts, _)| has(parts)) {
        Some((_, error)) => error(message).into(),
        None => other(message).into(),
    }
}
