//! Packages from dnf. Tested with dnf 4.14 and a local repository, never with those of Fedora.

use gpubuild_core::clean;
use gpubuild_exec::python::Network;
use gpubuild_host::{Command, CommandOutput, HostPath};

use super::source::{self, SourceContext};
use crate::provision::{PackageError, ProvisionError, UnpackedPackage};

/// The files of packages and of their dependencies that are not installed.
pub(super) fn resolve(
    context: &SourceContext<'_>,
    packages: &[String],
) -> Result<Vec<UnpackedPackage>, ProvisionError> {
    // Fedora's repositories for x86_64 also contain 32-bit packages, which dnf would select beside the others.
    let archs = format!("--arch={},noarch", context.host.platform().arch.id());
    let mut query = source::query(context, "dnf")?.args(["download", "-q", "--resolve", "--url", &archs]);
    if context.network == Network::Offline {
        // Otherwise it replaces old lists.
        query = query.arg("--cacheonly");
    }
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
    let (rest, _) = file.strip_suffix(".rpm")?.rsplit_once('.')?;
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
    let files: Vec<HostPath> = packages.iter().map(|one| folder.join(&one.file)).collect();
    check_signatures(context, &files)
}

/// Fails unless every file has a signature of a key that rpm trusts.
fn check_signatures(context: &SourceContext<'_>, files: &[HostPath]) -> Result<(), ProvisionError> {
    let names = files.iter().map(ToString::to_string).collect::<Vec<_>>();
    let check = source::transfer(context, "rpmkeys")?.arg("--checksig").args(names);
    let output = source::run(context, &check)?;
    // A package without a signature is a success for rpmkeys: its line has `digests OK` only.
    let (signed, others): (Vec<&str>, Vec<&str>) =
        output.stdout.lines().partition(|line| line.trim_end().ends_with(" signatures OK"));
    if output.success() && signed.len() == files.len() {
        return Ok(());
    }
    let message = if others.is_empty() { source::summary(&output) } else { others.join("; ") };
    Err(PackageError::Unsigned { message: clean::line(&message).into_owned() }.into())
}

/// What `rpm` prints for a package: the name that its file has in a repository.
const NAME: &str = "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm";

/// Whether a file is the signed package that its name says.
pub(super) fn is_package(context: &SourceContext<'_>, one: &UnpackedPackage, file: &HostPath) -> bool {
    if check_signatures(context, std::slice::from_ref(file)).is_err() {
        return false;
    }
    let query =
        source::query(context, "rpm").map(|query| query.args(["-qp", "--queryformat", NAME, file.as_str()]));
    let Ok(query) = query else { return false };
    source::run(context, &query).is_ok_and(|output| output.success() && output.stdout == one.file)
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
    (&["checksum doesn't match", "Checksum doesn't match", "have incorrect checksum"], |file| {
        PackageError::Changed { file }
    }),
    (&["Cache-only enabled but no cache"], |files| PackageError::Offline { files }),
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
            .command(
                &[
                    "/usr/bin/dnf",
                    "download",
                    "-q",
                    "--resolve",
                    "--url",
                    "--arch=x86_64,noarch",
                    "vulkan-loader",
                ],
                &url,
            )
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
        let context = SourceContext {
            host,
            kind,
            manager,
            lock: None,
            lists: None,
            target: None,
            network: Network::Allowed,
        };
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
            (
                answer("Error: Some packages from local repository have incorrect checksum", 1),
                answer("", 0),
                "toolkit.package-changed",
            ),
            (answer("Error: Cache-only enabled but no cache for 'x'", 1), answer("", 0), "fetch.offline"),
            (answer("", 0), answer("digests SIGNATURES NOT OK", 1), "toolkit.package-unsigned"),
            (answer("", 0), checked("digests OK"), "toolkit.package-unsigned"),
            (answer("", 0), answer("", 0), "toolkit.package-unsigned"),
        ] {
            assert_eq!(outcome(&fedora(download, signatures)).unwrap_err().id(), id);
        }
    }

    #[test]
    fn a_file_is_the_package_that_it_names_if_it_is_signed() {
        let file = format!("/packages/{LOADER}");
        let one = parse_url(&format!("https://x/{LOADER}")).unwrap();
        for (signatures, name, expected) in [
            ("digests signatures OK", LOADER, true),
            ("digests OK", LOADER, false),
            ("digests signatures OK", "vulkan-loader-1.3.0-1.fc41.x86_64.rpm", false),
        ] {
            let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
                .env("PATH", "/usr/bin")
                .executable("/usr/bin/rpm")
                .executable("/usr/bin/rpmkeys")
                .command_result(&["/usr/bin/rpmkeys", "--checksig", &file], checked(signatures))
                .command(&["/usr/bin/rpm", "-qp", "--queryformat", NAME, &file], name)
                .build();
            let kind = ManagerKind::Dnf;
            let manager = gpubuild_plan::packages::manager(kind);
            let network = Network::Offline;
            let context =
                SourceContext { host: &host, kind, manager, lock: None, lists: None, target: None, network };
            assert_eq!(is_package(&context, &one, &host.path(&file)), expected, "{signatures}, {name}");
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
