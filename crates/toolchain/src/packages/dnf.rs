//! Packages from dnf. Written from its documentation and tested with stand-ins; never run on Fedora.

use gpubuild_host::{Command, CommandOutput, HostPath};

use super::source::{self, SourceContext};
use crate::provision::{PackageError, ProvisionError, UnpackedPackage};

/// The files of packages and of their dependencies that are not installed.
pub(super) fn resolve(
    context: &SourceContext<'_>,
    packages: &[String],
) -> Result<Vec<UnpackedPackage>, ProvisionError> {
    let query = source::query(context, "dnf")?.args(["download", "-q", "--resolve", "--url"]);
    let output = source::run(context, &query.args(packages.iter().cloned()))?;
    if !output.success() {
        return Err(failure(&output));
    }
    Ok(output.stdout.lines().filter_map(parse_url).collect())
}

/// The address of a file `NAME-VERSION-RELEASE.ARCHITECTURE.rpm`. dnf names neither size nor hash.
fn parse_url(line: &str) -> Option<UnpackedPackage> {
    let (scheme, path) = line.trim().split_once("://")?;
    let file = path.rsplit('/').next()?;
    let (rest, _arch) = file.strip_suffix(".rpm")?.rsplit_once('.')?;
    let (rest, release) = rest.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    let is_safe = scheme.chars().all(|c| c.is_ascii_alphanumeric()) && !file.starts_with(['-', '.']);
    is_safe.then(|| UnpackedPackage {
        name: name.to_owned(),
        version: format!("{version}-{release}"),
        file: file.to_owned(),
        sha256: String::new(),
        size: 0,
    })
}

/// Downloads the packages, then checks their signatures, which `dnf download` does not.
pub(super) fn download(
    context: &SourceContext<'_>,
    packages: &[&UnpackedPackage],
    folder: &HostPath,
) -> Result<(), ProvisionError> {
    let exact = packages.iter().filter_map(|one| one.file.strip_suffix(".rpm"));
    let command = source::transfer(context, "dnf")?.args(["download", "-q", "--destdir", folder.as_str()]);
    let output = source::run(context, &command.args(exact.collect::<Vec<_>>()))?;
    if !output.success() {
        return Err(failure(&output));
    }
    let files = packages.iter().map(|one| folder.join(&one.file).to_string());
    let check = source::transfer(context, "rpmkeys")?.arg("--checksig").args(files.collect::<Vec<_>>());
    let output = source::run(context, &check)?;
    // A package without a signature is a success for rpmkeys: its line has `digests OK` only.
    let signed = output.stdout.lines().filter(|line| line.trim_end().ends_with("signatures OK")).count();
    if output.success() && signed == packages.len() {
        return Ok(());
    }
    Err(PackageError::Unsigned { message: source::summary(&output) }.into())
}

/// The command that unpacks a package into the current folder.
pub(super) fn unpack(context: &SourceContext<'_>, file: &HostPath) -> Result<Command, PackageError> {
    const SCRIPT: &str = "set -e; rpm2cpio \"$1\" > .cpio; cpio -idm --quiet < .cpio; rm .cpio";
    Ok(source::transfer(context, "sh")?.args(["-c", SCRIPT, "sh", file.as_str()]))
}

fn failure(output: &CommandOutput) -> ProvisionError {
    source::failure(output, KNOWN, &|message| PackageError::Download { message })
}

/// Messages of dnf.
const KNOWN: &[source::KnownFailure] = &[
    (&["No package", "No match for argument", "Unable to find a match"], |message| PackageError::Missing {
        message,
        update: None,
    }),
    (&["nothing provides", "conflicting requests"], |message| PackageError::Conflict { message }),
    (&["checksum doesn't match", "Checksum doesn't match"], |file| PackageError::Changed { file }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::diagnostic::Diagnostic as _;
    use gpubuild_host::recorded::CommandResult;
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};
    use gpubuild_plan::packages::ManagerKind;

    const LOADER: &str = "vulkan-loader-1.3.296.0-1.fc41.x86_64.rpm";

    /// A Fedora whose tools answer as documented.
    fn fedora(download: CommandResult, signatures: CommandResult) -> RecordedHost {
        let url = format!("https://x/f/{LOADER}\nhttps://x/f/glibc-2.40-3.fc41.x86_64.rpm\n");
        let stem = LOADER.strip_suffix(".rpm").unwrap();
        let file = format!("/packages/{LOADER}");
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/bin")
            .file("/etc/os-release", "ID=fedora\nVERSION_ID=41\n")
            .executable("/usr/bin/dnf")
            .executable("/usr/bin/rpmkeys")
            .command(&["/usr/bin/dnf", "download", "-q", "--resolve", "--url", "vulkan-loader"], &url)
            .command_result(&["/usr/bin/dnf", "download", "-q", "--destdir", "/packages", stem], download)
            .command_result(&["/usr/bin/rpmkeys", "--checksig", &file], signatures)
            .build()
    }

    fn answer(stderr: &str, exit: i32) -> CommandResult {
        let stderr = stderr.to_owned();
        CommandResult::Ended(CommandOutput { stderr, exit: Some(exit), ..CommandOutput::default() })
    }

    /// The answer of `rpmkeys --checksig`.
    fn checked(result: &str) -> CommandResult {
        let stdout = format!("/packages/{LOADER}: {result}\n");
        CommandResult::Ended(CommandOutput { stdout, exit: Some(0), ..CommandOutput::default() })
    }

    /// Resolves and downloads the loader.
    fn outcome(host: &RecordedHost) -> Result<Vec<UnpackedPackage>, ProvisionError> {
        let kind = ManagerKind::Dnf;
        let manager = gpubuild_plan::packages::manager(kind);
        let context = SourceContext { host, kind, manager, lock: None, lists: None };
        let found = resolve(&context, &["vulkan-loader".to_owned()])?;
        download(&context, &[&found[0]], &host.path("/packages"))?;
        Ok(found)
    }

    #[test]
    fn packages_are_resolved_downloaded_and_their_signatures_checked() {
        let found = outcome(&fedora(answer("", 0), checked("digests signatures OK"))).unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["vulkan-loader", "glibc"]);
        for (download, signatures, id) in [
            (answer("Error: Unable to find a match: x", 1), answer("", 0), "toolkit.package-missing"),
            (answer("Error: nothing provides y", 1), answer("", 0), "toolkit.package-conflict"),
            (answer("Error: No space left on device", 1), answer("", 0), "disk.full"),
            (answer("Error: Failed to download metadata", 1), answer("", 0), "toolkit.package-download"),
            (answer("", 0), answer("digests SIGNATURES NOT OK", 1), "toolkit.package-unsigned"),
            (answer("", 0), checked("digests OK"), "toolkit.package-unsigned"),
            (answer("", 0), answer("", 0), "toolkit.package-unsigned"),
        ] {
            assert_eq!(outcome(&fedora(download, signatures)).unwrap_err().id(), id);
        }
    }

    #[test]
    fn addresses_are_parsed() {
        let one = parse_url("https://x/f/vulkan-loader-devel-1.3.296.0-1.fc41.x86_64.rpm").unwrap();
        assert_eq!((one.name.as_str(), one.version.as_str()), ("vulkan-loader-devel", "1.3.296.0-1.fc41"));
        for broken in
            ["", "Last metadata expiration check: 0:01", "https://x/a.rpm", "https://x/-a-1-2.noarch.rpm"]
        {
            assert_eq!(parse_url(broken), None, "{broken}");
        }
    }
}
