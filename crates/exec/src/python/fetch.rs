//! Tools that the machine lacks (CMake, Ninja, libclang), taken as wheels into our own cache.

use std::time::Duration;

use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_host::{Command, Host, HostPath, Os, ReadFiles, RunPrograms, Wait};
use gpubuild_plan::plan::Fetch;
use gpubuild_plan::wheels::lock::{PinnedFile, PinnedWheel};
use serde::{Deserialize, Serialize};

use super::Network;
use super::error::WheelFetchError;
use super::install::{InstallTarget, Options, install};
use super::said::what_it_said;
use crate::event::{BuildEvent, Sink};
use crate::store;

/// The folder of the cache.
const FOLDER: &str = "tools";

/// Written into a folder of the cache once what is in it was installed by hash and ran.
#[derive(Debug, Serialize, Deserialize)]
struct VerifiedWheel {
    package: String,
    version: String,
    program: String,
}

const VERIFIED: &str = "verified.json";

/// What of a wheel is wanted.
#[derive(Debug, Clone, Copy)]
pub enum WantedWheel<'a> {
    /// The program that bears the tool's name. It is started once before it counts.
    Program,
    /// A file at this place in the wheel.
    File(&'a str),
}

/// The program of a tool, from the cache or fetched into it.
///
/// # Errors
/// See [`WheelFetchError`].
pub fn fetch(
    host: &dyn Host,
    fetch: &Fetch,
    tools: &InstalledTools,
    network: Network,
    sink: Sink<'_>,
) -> Result<HostPath, WheelFetchError> {
    fetch_wanted(host, fetch, WantedWheel::Program, tools, network, sink)
}

/// What was fetched at an earlier time.
#[must_use]
pub fn fetched(host: &dyn ReadFiles, fetch: &Fetch) -> Option<HostPath> {
    verified(host, &gpubuild_host::folders::cache_folder(host)?.join(FOLDER).join(&name(fetch)))
}

fn name(fetch: &Fetch) -> String {
    format!("{}-{}", fetch.tool, fetch.version)
}

/// A program or another file, from the cache or fetched into it.
///
/// # Errors
/// See [`WheelFetchError`].
pub fn fetch_wanted(
    host: &dyn Host,
    fetch: &Fetch,
    wanted: WantedWheel<'_>,
    tools: &InstalledTools,
    network: Network,
    sink: Sink<'_>,
) -> Result<HostPath, WheelFetchError> {
    let cache = gpubuild_host::folders::cache_folder(host).ok_or(WheelFetchError::NoCache)?.join(FOLDER);
    let name = name(fetch);
    let folder = cache.join(&name);
    if let Some(program) = verified(host, &folder) {
        return Ok(program);
    }
    if network == Network::Offline {
        let command = format!("python3 -m pip install {}=={}", fetch.package, fetch.version);
        return Err(WheelFetchError::Offline { tool: fetch.tool.clone(), command });
    }
    let failed = |path: &HostPath, error: &std::io::Error| WheelFetchError::Cache {
        path: path.to_string(),
        message: error.to_string(),
    };
    host.create_dir_all(&cache).map_err(|error| failed(&cache, &error))?;
    let lock_path = cache.join(&format!(".{name}.lock"));
    let _lock = host.lock(&lock_path, Wait::Yes).map_err(|error| failed(&lock_path, &error))?;
    if let Some(program) = verified(host, &folder) {
        return Ok(program);
    }
    let (tool, version) = (fetch.tool.clone(), fetch.version.clone());
    sink(&BuildEvent::Fetching { tool, version, into: folder.to_string() });
    let temporary = host.temporary_dir(&cache).map_err(|error| failed(&cache, &error))?;
    let result = install_and_publish(host, fetch, wanted, tools, &temporary, &folder);
    // Whatever is left of a failure is in nobody's way, so a second failure to clean up is not worth a message.
    let _ = host.remove(&temporary);
    result
}

fn verified(host: &dyn ReadFiles, folder: &HostPath) -> Option<HostPath> {
    let marker: VerifiedWheel = store::read_json(host, &folder.join(VERIFIED))?;
    let program = folder.join(&marker.program);
    host.is_file(&program).then_some(program)
}

fn install_and_publish(
    host: &dyn Host,
    fetch: &Fetch,
    wanted: WantedWheel<'_>,
    tools: &InstalledTools,
    temporary: &HostPath,
    folder: &HostPath,
) -> Result<HostPath, WheelFetchError> {
    let cache_error = |error: std::io::Error| WheelFetchError::Cache {
        path: temporary.to_string(),
        message: error.to_string(),
    };
    let site = temporary.join("site");
    let options = Options { network: Network::Allowed, find_links: &[] };
    // One small wheel: that it is being fetched was told.
    install(host, tools, &[pinned(fetch)], InstallTarget::Folder(&site), options, &|_| {})
        .map_err(|error| WheelFetchError::of_install(&fetch.tool, &fetch.version, error))?;
    let broken = |what: &str| WheelFetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message: format!("there is no {what} in `{}`", fetch.package),
    };
    let program = match wanted {
        WantedWheel::Program => {
            let program = find_program(host, &fetch.tool, &site).ok_or_else(|| broken("program"))?;
            verify(host, fetch, &site.join(&program))?;
            program
        }
        WantedWheel::File(path) => {
            Some(path.to_owned()).filter(|path| host.is_file(&site.join(path))).ok_or_else(|| broken(path))?
        }
    };
    let marker = VerifiedWheel {
        package: fetch.package.clone(),
        version: fetch.version.clone(),
        program: program.clone(),
    };
    store::write_json(host, &site.join(VERIFIED), &marker).map_err(cache_error)?;
    // A folder without marker is what a kill left behind.
    host.remove(folder)
        .and_then(|()| host.rename(&site, folder))
        .map_err(|error| WheelFetchError::Cache { path: folder.to_string(), message: error.to_string() })?;
    Ok(folder.join(&program))
}

fn pinned(fetch: &Fetch) -> PinnedWheel {
    let file = |sum: &String| PinnedFile { name: String::new(), sha256: sum.clone(), size: 0 };
    let files = fetch.sha256.iter().map(file).collect();
    PinnedWheel { package: fetch.package.clone(), version: fetch.version.clone(), files }
}

/// Where wheels put the program itself; what they put into `bin` may be a script that needs the Python that installed it.
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
    if output.success() { Ok(()) } else { Err(broken(what_it_said(&output))) }
}
