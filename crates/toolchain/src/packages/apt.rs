//! Packages from apt: it resolves dependencies, and checks downloads with the hashes in the signed Release files.

use gpubuild_core::clean;
use gpubuild_host::{Command, CommandOutput, HostPath};

use super::source::{self, SourceContext};
use crate::provision::{PackageError, ProvisionError, UnpackedPackage};

/// Options of every call: no write access to the system's caches, and no unsigned packages.
const OPTIONS: [&str; 5] = [
    "Dir::Cache::pkgcache=",
    "Dir::Cache::srcpkgcache=",
    "APT::Get::AllowUnauthenticated=false",
    "Acquire::AllowInsecureRepositories=false",
    "Acquire::ForceHash=SHA256",
];

fn with_options(context: &SourceContext<'_>, mut command: Command) -> Command {
    for option in OPTIONS {
        command = command.args(["-o", option]);
    }
    if let Some(lists) = &context.lists {
        command = command.arg("-o").arg(format!("Dir::State::lists={lists}"));
    }
    // As after `dpkg --add-architecture`, which needs root.
    for arch in context.target.iter().flat_map(|target| [&target.native, &target.foreign]) {
        command = command.arg("-o").arg(format!("APT::Architectures::={arch}"));
    }
    if context.host.identity().uid == Some(0) {
        // The user `_apt` cannot write to folders of root's cache.
        command = command.args(["-o", "APT::Sandbox::User=root"]);
    }
    command
}

/// The files of packages and of their dependencies that are not installed. Changes nothing and needs no network.
pub(super) fn resolve(
    context: &SourceContext<'_>,
    packages: &[String],
) -> Result<Vec<UnpackedPackage>, ProvisionError> {
    let Some(target) = &context.target else { return query(context, packages, None) };
    let (programs, libraries) = target.split(packages);
    let mut found = query(context, &libraries, Some(NOTHING_INSTALLED))?;
    // Dependencies that run on this machine, such as Python for a script, are not needed to link with the libraries.
    found.retain(|one| packages.contains(&one.name) || arch_of(&one.file) == target.foreign);
    if !programs.is_empty() {
        found.extend(query(context, &programs, None)?);
    }
    Ok(found)
}

/// A list of installed packages without any. No package of the target is installed, and those of this machine must not matter: a library
/// of another version than the target's would be a conflict.
const NOTHING_INSTALLED: &str = "Dir::State::status=/dev/null";

fn query(
    context: &SourceContext<'_>,
    packages: &[String],
    option: Option<&str>,
) -> Result<Vec<UnpackedPackage>, ProvisionError> {
    // `--reinstall` also lists the packages that the system has, because the prefix must contain all of them.
    let query = source::query(context, "apt-get")?.args([
        "install",
        "-q",
        "-y",
        "--print-uris",
        "--reinstall",
        "--no-install-recommends",
    ]);
    let mut query = with_options(context, query);
    if let Some(option) = option {
        query = query.args(["-o", option]);
    }
    let output = source::run(context, &query.args(packages.iter().cloned()))?;
    if !output.success() {
        return Err(failure(&output));
    }
    Ok(output.stdout.lines().filter_map(parse_uri).collect())
}

/// A line of `--print-uris`: `'URI' FILE SIZE SHA256:HASH`. The file is called `NAME_VERSION_ARCHITECTURE.deb`.
fn parse_uri(line: &str) -> Option<UnpackedPackage> {
    let rest = line.strip_prefix('\'')?;
    let (_, rest) = rest.split_once("' ")?;
    let mut words = rest.split(' ');
    let (file, size, hash) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    if file.contains('/') || file.starts_with('.') {
        return None;
    }
    let mut parts = file.strip_suffix(".deb")?.splitn(3, '_');
    let (name, version) = (parts.next()?, parts.next()?);
    parts.next()?;
    Some(UnpackedPackage {
        name: name.to_owned(),
        version: version.replace("%3a", ":").replace("%3A", ":"),
        file: file.to_owned(),
        sha256: hash.strip_prefix("SHA256:").unwrap_or_default().to_owned(),
        size: size.parse().ok()?,
    })
}

/// The architecture in the name of a package's file.
fn arch_of(file: &str) -> &str {
    file.strip_suffix(".deb").and_then(|file| file.rsplit('_').next()).unwrap_or("all")
}

/// Options of an update: neither descriptions in other languages nor data of software catalogues.
const LISTS_ONLY: [&str; 2] =
    ["Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"];

/// Downloads the package lists into `lists`.
pub(super) fn update(context: &SourceContext<'_>) -> Result<(), ProvisionError> {
    if let Some(lists) = &context.lists {
        let partial = lists.join("partial");
        context.host.create_dir_all(&partial).map_err(|error| ProvisionError::of_io(&error))?;
    }
    let mut command = source::transfer(context, "apt-get")?.args(["update", "-q"]);
    for option in LISTS_ONLY {
        command = command.args(["-o", option]);
    }
    let output = source::run(context, &with_options(context, command))?;
    if output.success() { Ok(()) } else { Err(failure(&output)) }
}

/// Downloads exactly these packages. apt keeps complete files in the folder and resumes partial ones.
pub(super) fn download(
    context: &SourceContext<'_>,
    packages: &[&UnpackedPackage],
    folder: &HostPath,
) -> Result<(), ProvisionError> {
    let exact = packages.iter().map(|one| {
        let arch = arch_of(&one.file);
        let arch = if arch == "all" { String::new() } else { format!(":{arch}") };
        format!("{}{arch}={}", one.name, one.version)
    });
    let command = source::transfer(context, "apt-get")?.args(["download", "-q"]);
    let command = with_options(context, command).args(exact.collect::<Vec<_>>());
    let output = source::run(context, &command.current_dir(folder.clone()))?;
    if output.success() { Ok(()) } else { Err(failure(&output)) }
}

/// The command that unpacks a package.
pub(super) fn unpack(
    context: &SourceContext<'_>,
    file: &HostPath,
    folder: &HostPath,
) -> Result<Command, PackageError> {
    Ok(source::transfer(context, "dpkg-deb")?.args(["-x", file.as_str(), folder.as_str()]))
}

fn failure(output: &CommandOutput) -> ProvisionError {
    // The line that names the dependency is not an error line.
    let detail = output.stdout.lines().chain(output.stderr.lines()).find(|line| line.contains(": Depends: "));
    match source::failure(output, KNOWN, &|message| PackageError::Download { message }) {
        ProvisionError::Packages(PackageError::Conflict { message }) => {
            let message = detail.map_or(message, |detail| clean::line(detail.trim()).into_owned());
            PackageError::Conflict { message }.into()
        }
        other => other,
    }
}

/// Messages of apt.
const KNOWN: &[source::KnownFailure] = &[
    (&["Hash Sum mismatch", "unexpected size"], |file| PackageError::Changed { file }),
    (
        &[
            "unauthenticated packages",
            "cannot be authenticated",
            "is not signed",
            "signatures couldn't be verified",
            "OpenPGP signature verification failed",
        ],
        |message| PackageError::Unsigned { message },
    ),
    (
        &["Unable to locate package", "has no installation candidate", "Can't find a source to download"],
        |message| PackageError::Missing { message, update: None },
    ),
    (
        &[
            "unmet dependencies",
            "held broken packages",
            "Unable to satisfy dependencies",
            "dpkg was interrupted",
        ],
        |message| PackageError::Conflict { message },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::diagnostic::Diagnostic as _;

    #[test]
    fn lines_of_print_uris_are_parsed() {
        let line = "'http://x/pool/p/libpci3_1%3a3.9.0-4_amd64.deb' libpci3_1%3a3.9.0-4_amd64.deb 67432 SHA256:50071ab7";
        let one = parse_uri(line).unwrap();
        assert_eq!((one.name.as_str(), one.version.as_str(), one.size), ("libpci3", "1:3.9.0-4", 67432));
        assert_eq!((one.file.as_str(), one.sha256.as_str()), ("libpci3_1%3a3.9.0-4_amd64.deb", "50071ab7"));
        for broken in [
            "",
            "Reading package lists...",
            "'http://x/a.deb' a.deb 12 SHA256:00",
            "'http://x/a' ../a_1_all.deb 12 SHA256:00",
            "'http://x/a_1_all.deb' a_1_all.deb many SHA256:00",
        ] {
            assert_eq!(parse_uri(broken), None, "{broken}");
        }
    }

    #[test]
    fn failures_have_ids() {
        for (text, id) in [
            ("E: Unable to locate package glslc", "toolkit.package-missing"),
            ("E: Package 'glslc' has no installation candidate", "toolkit.package-missing"),
            ("E: Failed to fetch http://x/a.deb  Hash Sum mismatch", "toolkit.package-changed"),
            (
                "E: There were unauthenticated packages and -y was used without --allow-unauthenticated",
                "toolkit.package-unsigned",
            ),
            ("E: You don't have enough free space in /x/.", "disk.full"),
            (
                "The following packages have unmet dependencies:\nE: Unable to correct problems",
                "toolkit.package-conflict",
            ),
            // apt 3, if it writes to a terminal.
            ("Error: Unable to locate package glslc", "toolkit.package-missing"),
            (
                "E: Unable to satisfy dependencies. Reached two conflicting assignments:",
                "toolkit.package-conflict",
            ),
            ("E: Failed to fetch http://x/a.deb  404  Not Found", "toolkit.package-download"),
            ("", "toolkit.package-download"),
        ] {
            let output = CommandOutput {
                stdout: String::new(),
                stderr: text.to_owned(),
                exit: Some(100),
                signal: None,
            };
            assert_eq!(failure(&output).id(), id, "{text}");
        }
    }
}
