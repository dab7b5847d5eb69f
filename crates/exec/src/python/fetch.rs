//! Tools that the machine lacks (CMake, Ninja, libclang), taken as wheels into our own cache.

use std::time::Duration;

use gpubuild_detect::toolkit::Tools;
use gpubuild_host::{Command, Host, HostPath, Os, Wait};
use gpubuild_plan::plan::Fetch;
use gpubuild_plan::wheels::lock::{Pinned, PinnedFile};
use serde::{Deserialize, Serialize};

use super::Network;
use super::error::FetchError;
use super::install::{Options, Target, install};
use super::said::what_it_said;
use crate::event::{Event, Sink};
use crate::store;

/// The folder of the cache.
const FOLDER: &str = "tools";

/// Written into a folder of the cache once what is in it was installed by hash and ran.
#[derive(Debug, Serialize, Deserialize)]
struct Verified {
    package: String,
    version: String,
    program: String,
}

const VERIFIED: &str = "verified.json";

/// What of a wheel is wanted.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// The program that bears the tool's name. It is started once before it counts.
    Program,
    /// A file at this place in the wheel.
    File(&'a str),
}

/// The program of a tool, from the cache or fetched into it.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch(
    host: &dyn Host,
    fetch: &Fetch,
    tools: &Tools,
    network: Network,
    sink: Sink<'_>,
) -> Result<HostPath, FetchError> {
    fetch_wanted(host, fetch, Wanted::Program, tools, network, sink)
}

/// What was fetched at an earlier time.
#[must_use]
pub fn fetched(host: &dyn Host, fetch: &Fetch) -> Option<HostPath> {
    verified(host, &gpubuild_host::folders::cache_folder(host)?.join(FOLDER).join(&name(fetch)))
}

fn name(fetch: &Fetch) -> String {
    format!("{}-{}", fetch.tool, fetch.version)
}

/// A program or another file, from the cache or fetched into it.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch_wanted(
    host: &dyn Host,
    fetch: &Fetch,
    wanted: Wanted<'_>,
    tools: &Tools,
    network: Network,
    sink: Sink<'_>,
) -> Result<HostPath, FetchError> {
    let cache = gpubuild_host::folders::cache_folder(host).ok_or(FetchError::NoCache)?.join(FOLDER);
    let name = name(fetch);
    let folder = cache.join(&name);
    if let Some(program) = verified(host, &folder) {
        return Ok(program);
    }
    if network == Network::Offline {
        let command = format!("python3 -m pip install {}=={}", fetch.package, fetch.version);
        return Err(FetchError::Offline { tool: fetch.tool.clone(), command });
    }
    let failed = |path: &HostPath, error: &std::io::Error| FetchError::Cache {
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
    sink(&Event::Fetching { tool, version, into: folder.to_string() });
    let temporary = host.temporary_dir(&cache).map_err(|error| failed(&cache, &error))?;
    let result = install_and_publish(host, fetch, wanted, tools, &temporary, &folder);
    // Whatever is left of a failure is in nobody's way, so a second failure to clean up is not worth a message.
    let _ = host.remove(&temporary);
    result
}

fn verified(host: &dyn Host, folder: &HostPath) -> Option<HostPath> {
    let marker: Verified = store::read_json(host, &folder.join(VERIFIED))?;
    let program = folder.join(&marker.program);
    host.is_file(&program).then_some(program)
}

fn install_and_publish(
    host: &dyn Host,
    fetch: &Fetch,
    wanted: Wanted<'_>,
    tools: &Tools,
    temporary: &HostPath,
    folder: &HostPath,
) -> Result<HostPath, FetchError> {
    let cache_error =
        |error: std::io::Error| FetchError::Cache { path: temporary.to_string(), message: error.to_string() };
    let site = temporary.join("site");
    let options = Options { network: Network::Allowed, find_links: &[] };
    // One small wheel: that it is being fetched was told.
    install(host, tools, &[pinned(fetch)], Target::Folder(&site), options, &|_| {})
        .map_err(|error| FetchError::of_install(&fetch.tool, &fetch.version, error))?;
    let broken = |what: &str| FetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message: format!("there is no {what} in `{}`", fetch.package),
    };
    let program = match wanted {
        Wanted::Program => {
            let program = find_program(host, &fetch.tool, &site).ok_or_else(|| broken("program"))?;
            verify(host, fetch, &site.join(&program))?;
            program
        }
        Wanted::File(path) => {
            Some(path.to_owned()).filter(|path| host.is_file(&site.join(path))).ok_or_else(|| broken(path))?
        }
    };
    let marker =
        Verified { package: fetch.package.clone(), version: fetch.version.clone(), program: program.clone() };
    store::write_json(host, &site.join(VERIFIED), &marker).map_err(cache_error)?;
    // A folder without marker is what a kill left behind.
    host.remove(folder)
        .and_then(|()| host.rename(&site, folder))
        .map_err(|error| FetchError::Cache { path: folder.to_string(), message: error.to_string() })?;
    Ok(folder.join(&program))
}

fn pinned(fetch: &Fetch) -> Pinned {
    let file = |sum: &String| PinnedFile { name: String::new(), sha256: sum.clone(), size: 0 };
    let files = fetch.sha256.iter().map(file).collect();
    Pinned { package: fetch.package.clone(), version: fetch.version.clone(), files }
}

/// Where wheels put the program itself; what they put into `bin` may be a script that needs the Python that installed it.
fn find_program(host: &dyn Host, tool: &str, site: &HostPath) -> Option<String> {
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

fn verify(host: &dyn Host, fetch: &Fetch, program: &HostPath) -> Result<(), FetchError> {
    let broken = |message: String| FetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message,
    };
    let command = Command::new(program.as_str(), Duration::from_secs(60)).arg("--version");
    let output = host.run(&command).map_err(|error| broken(error.to_string()))?;
    if output.success() { Ok(()) } else { Err(broken(what_it_said(&output))) }
}
