//! Downloads missing tools (CMake, Ninja, libclang) as wheels to gpubuild's cache.

use std::time::Duration;

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_detect::facts;
use gpubuild_host::{Command, Host, HostPath, InspectHost, Os, ReadFiles, RunPrograms, Wait};
use gpubuild_plan::plan::Fetch;
use gpubuild_plan::wheels::lock::{PinnedFile, PinnedWheel};
use gpubuild_plan::wheels::tag::WheelLibc;
use serde::{Deserialize, Serialize};

use super::error::WheelFetchError;
use super::install::{InstallTarget, install};
use super::installer_output::error_summary;
use super::{Network, WheelAccess};
use crate::event::{BuildEvent, Sink};
use crate::store;

/// Folder for tools in the cache.
const FOLDER: &str = "tools";

/// Marker in the folder of a tool, written after the wheel was installed with a verified hash and the program ran.
#[derive(Debug, Serialize, Deserialize)]
struct VerifiedWheel {
    package: String,
    version: String,
    program: String,
}

const VERIFIED: &str = "verified.json";

/// Returns the program or file of a tool if the cache already has it.
#[must_use]
pub fn fetched(host: &dyn ReadFiles, fetch: &Fetch) -> Option<HostPath> {
    verified(host, &gpubuild_host::folders::cache_folder(host)?.join(FOLDER).join(&name(fetch)))
}

fn name(fetch: &Fetch) -> String {
    format!("{}-{}", fetch.tool, fetch.version)
}

/// Returns a tool that only some builds of the project need, or `None` with a note that says why it could not be downloaded, except
/// offline.
///
/// # Errors
/// The user pressed Ctrl-C.
pub fn fetch_optional(
    host: &dyn Host,
    fetch: &Fetch,
    access: WheelAccess<'_>,
    sink: Sink<'_>,
) -> Result<Option<HostPath>, WheelFetchError> {
    match self::fetch(host, fetch, access, sink) {
        Ok(path) => Ok(Some(path)),
        Err(WheelFetchError::Interrupted) => Err(WheelFetchError::Interrupted),
        Err(WheelFetchError::Offline { .. }) => Ok(None),
        Err(error) => {
            sink(&BuildEvent::Note {
                text: format!("continuing without {}: {error} [{}]", fetch.tool, error.id()),
            });
            Ok(None)
        }
    }
}

/// Returns the program or file of a tool from the cache. Downloads it if necessary.
///
/// # Errors
/// See [`WheelFetchError`].
pub fn fetch(
    host: &dyn Host,
    fetch: &Fetch,
    access: WheelAccess<'_>,
    sink: Sink<'_>,
) -> Result<HostPath, WheelFetchError> {
    let cache = gpubuild_host::folders::cache_folder(host).ok_or(WheelFetchError::NoCache)?.join(FOLDER);
    let name = name(fetch);
    let folder = cache.join(&name);
    if let Some(program) = verified(host, &folder) {
        clear(host, &cache, &name);
        return Ok(program);
    }
    refuse_unsupported(host, fetch)?;
    if access.network == Network::Offline {
        let is_found = fetch.instead.is_none();
        let command =
            is_found.then(|| format!("python3 -m pip install {}=={}", fetch.package, fetch.version));
        return Err(WheelFetchError::Offline {
            tool: fetch.tool.clone(),
            command,
            folder: folder.to_string(),
            instead: instead(fetch),
        });
    }
    let failed = |path: &HostPath, error: &std::io::Error| WheelFetchError::Cache {
        path: path.to_string(),
        message: error.to_string(),
    };
    host.create_dir_all(&cache).map_err(|error| failed(&cache, &error))?;
    let lock_path = lock_path(&cache, &name);
    let _lock = host.lock(&lock_path, Wait::Yes).map_err(|error| failed(&lock_path, &error))?;
    if let Some(program) = verified(host, &folder) {
        return Ok(program);
    }
    let (tool, version) = (fetch.tool.clone(), fetch.version.clone());
    sink(&BuildEvent::Fetching { tool, version, into: folder.to_string() });
    let scratch = scratch(&cache, &name);
    // A killed process has left its files there.
    host.remove(&scratch).map_err(|error| failed(&scratch, &error))?;
    let temporary = host.temporary_dir(&scratch).map_err(|error| failed(&scratch, &error))?;
    let result = install_and_publish(host, fetch, access, &temporary, &folder);
    // If this fails, the next call removes the folder.
    let _ = host.remove(&scratch);
    result
}

fn lock_path(cache: &HostPath, name: &str) -> HostPath {
    cache.join(&format!(".{name}.lock"))
}

fn scratch(cache: &HostPath, name: &str) -> HostPath {
    cache.join(&format!(".{name}.tmp"))
}

/// Removes the temporary folder of a process that was killed after it had published the tool. If this fails, the next call tries again.
fn clear(host: &dyn Host, cache: &HostPath, name: &str) {
    let scratch = scratch(cache, name);
    if host.stat(&scratch).is_ok()
        && let Ok(Some(_lock)) = host.lock(&lock_path(cache, name), Wait::No)
    {
        let _ = host.remove(&scratch);
    }
}

/// Fails if no wheel supports this machine, which an installer would report as a missing version.
fn refuse_unsupported(host: &dyn InspectHost, fetch: &Fetch) -> Result<(), WheelFetchError> {
    let libc = facts::libc(host);
    if fetch.fits(host.platform(), &WheelLibc::of(libc.as_ref())) {
        return Ok(());
    }
    let platform = host.platform();
    let libc = libc.map(|libc| format!(" with {}", libc.label())).unwrap_or_default();
    Err(WheelFetchError::Unsupported {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        platform: format!("{} {}{libc}", platform.os.id(), platform.arch.id()),
        instead: instead(fetch),
    })
}

fn verified(host: &dyn ReadFiles, folder: &HostPath) -> Option<HostPath> {
    let marker: VerifiedWheel = store::read_json(host, &folder.join(VERIFIED))?;
    let program = folder.join(&marker.program);
    host.is_file(&program).then_some(program)
}

fn install_and_publish(
    host: &dyn Host,
    fetch: &Fetch,
    access: WheelAccess<'_>,
    temporary: &HostPath,
    folder: &HostPath,
) -> Result<HostPath, WheelFetchError> {
    let cache_error = |error: std::io::Error| WheelFetchError::Cache {
        path: temporary.to_string(),
        message: error.to_string(),
    };
    let site = temporary.join("site");
    // No progress for one small wheel: the download was already reported.
    install(host, access, &[pinned(fetch)], InstallTarget::Folder(&site), &[], &|_| {})
        .map_err(|error| WheelFetchError::from_install(fetch, instead(fetch), error))?;
    let broken = |what: &str| WheelFetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message: format!("`{}` does not contain {what}", fetch.package),
    };
    let program = if let Some(path) = fetch.file.get(host.platform().os.id()) {
        if !host.is_file(&site.join(path)) {
            return Err(broken(&format!("`{path}`")));
        }
        path.clone()
    } else {
        let program = find_program(host, &fetch.tool, &site).ok_or_else(|| broken("the program"))?;
        verify(host, fetch, &site.join(&program))?;
        program
    };
    let marker = VerifiedWheel {
        package: fetch.package.clone(),
        version: fetch.version.clone(),
        program: program.clone(),
    };
    store::write_json(host, &site.join(VERIFIED), &marker).map_err(cache_error)?;
    // A folder without a marker is from an interrupted download.
    host.remove(folder)
        .and_then(|()| host.rename(&site, folder))
        .map_err(|error| WheelFetchError::Cache { path: folder.to_string(), message: error.to_string() })?;
    Ok(folder.join(&program))
}

/// What makes the download of a tool unnecessary.
fn instead(fetch: &Fetch) -> String {
    fetch.instead.clone().unwrap_or_else(|| format!("install {}", fetch.tool))
}

fn pinned(fetch: &Fetch) -> PinnedWheel {
    let file = |sum: &String| PinnedFile { name: String::new(), sha256: sum.clone(), size: 0 };
    let files = fetch.sha256.iter().map(file).collect();
    PinnedWheel { package: fetch.package.clone(), version: fetch.version.clone(), files }
}

/// Finds the program in an installed wheel. `data` folders come first, because `bin` may contain a script that needs the
/// Python that installed it.
fn find_program(host: &dyn ReadFiles, tool: &str, site: &HostPath) -> Option<String> {
    let suffix = if host.platform().os == Os::Windows { ".exe" } else { "" };
    let folders = [
        format!("{tool}/data/bin"),
        format!("{tool}/data/CMake.app/Contents/bin"),
        "bin".to_owned(),
        "Scripts".to_owned(),
    ];
    let candidates = folders.iter().map(|folder| format!("{folder}/{tool}{suffix}"));
    candidates.into_iter().find(|path| host.is_file(&site.join(path)))
}

fn verify(host: &dyn RunPrograms, fetch: &Fetch, program: &HostPath) -> Result<(), WheelFetchError> {
    let broken = |message: String| WheelFetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message,
    };
    let command = Command::new(program.as_str(), Duration::from_secs(60)).arg("--version");
    let output = host.run(&command).map_err(|error| broken(error.to_string()))?;
    if output.success() { Ok(()) } else { Err(broken(error_summary(&output))) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use gpubuild_detect::toolkit::InstalledTools;
    use gpubuild_host::{Arch, RecordedHost};
    use gpubuild_plan::plan::libclang;

    /// The result of fetching libclang on a host that cannot be written, and the notes.
    fn fetched_on(
        arch: Arch,
        network: Network,
        loader: &str,
    ) -> (Result<HostPath, WheelFetchError>, Vec<String>) {
        let host =
            RecordedHost::builder(Os::Linux, arch).env("GPUBUILD_CACHE", "/c").file(loader, "").build();
        let tools = InstalledTools::default();
        let access = WheelAccess { tools: &tools, network, index: None, direct: None };
        let notes: Mutex<Vec<String>> = Mutex::default();
        let sink = |event: &BuildEvent| notes.lock().unwrap().push(format!("{event:?}"));
        let optional = fetch_optional(&host, &libclang::pinned(), access, &sink).unwrap();
        assert_eq!(optional, None);
        (fetch(&host, &libclang::pinned(), access, &|_| {}), notes.into_inner().unwrap())
    }

    #[test]
    fn unsupported_platforms_are_refused_and_optional_tools_noted() {
        let musl = "/lib/ld-musl-aarch64.so.1";
        let (result, notes) = fetched_on(Arch::Aarch64, Network::Allowed, musl);
        let error = result.unwrap_err();
        assert_eq!(error.id().as_str(), "fetch.unsupported");
        assert!(error.to_string().ends_with("libclang 18.1.1 supports linux aarch64 with musl"), "{error}");
        assert!(
            notes[0].contains("continuing without libclang: ") && notes[0].contains("[fetch.unsupported]")
        );
        // A wheel for musl on x86_64 exists.
        let musl = "/lib/ld-musl-x86_64.so.1";
        let (result, notes) = fetched_on(Arch::X86_64, Network::Offline, musl);
        assert_eq!((result.unwrap_err().id().as_str(), notes.len()), ("fetch.offline", 0));
        let (result, notes) = fetched_on(Arch::X86_64, Network::Allowed, musl);
        assert_eq!(result.unwrap_err().id().as_str(), "cache.failed");
        assert!(notes[0].contains("[cache.failed]"), "{notes:?}");
    }
}
