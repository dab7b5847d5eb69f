//! Tools that the machine lacks, taken as Python wheels: pinned by version and sha256, installed by uv or pip into our own
//! cache. Their own settings (index, certificates, proxies) hold; no Python environment of the user is touched.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exec::Tools;
use crate::exec::{Event, Sink};
use crate::host::{Command, Environment, Host, HostPath, Os, Output, RunError, Wait};
use crate::plan::Fetch;
use crate::store;

/// A slow line and a wheel of 50 MB.
const INSTALL_DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Whether anything may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Yes.
    Allowed,
    /// No: `--offline`, `GPUBUILD_OFFLINE` or `CARGO_NET_OFFLINE`.
    Offline,
}

impl Network {
    /// What the environment says, in our word and in cargo's.
    #[must_use]
    pub fn from_env(env: &Environment) -> Self {
        let is_set =
            |name: &str| env.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"));
        if is_set("GPUBUILD_OFFLINE") || is_set("CARGO_NET_OFFLINE") { Self::Offline } else { Self::Allowed }
    }
}

/// Why a tool could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Fetching is forbidden.
    #[error("{tool} is needed, there is none on this machine, and it may not be fetched offline")]
    Offline {
        /// Tool.
        tool: String,
        /// The command that fixes it.
        command: String,
    },
    /// Neither uv nor Python.
    #[error(
        "{tool} is needed, there is none on this machine, and neither uv nor Python is there to fetch it"
    )]
    NoPython {
        /// Tool.
        tool: String,
    },
    /// A Python without pip.
    #[error("`{python}` has neither pip nor a complete venv module, so it cannot fetch {tool}")]
    NoPip {
        /// Tool.
        tool: String,
        /// The Python.
        python: String,
    },
    /// uv or pip said no.
    #[error("failed to fetch {tool} {version}: {message}")]
    Install {
        /// Tool.
        tool: String,
        /// Version that is pinned.
        version: String,
        /// What the installer said.
        message: String,
    },
    /// What was installed does not run.
    #[error("{tool} {version} was fetched and does not run here: {message}")]
    Broken {
        /// Tool.
        tool: String,
        /// Version that is pinned.
        version: String,
        /// What happened.
        message: String,
    },
    /// There is no folder to put it.
    #[error("there is no cache folder: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder of the cache.
    #[error("failed to write the cache at `{path}`: {message}")]
    Cache {
        /// The path.
        path: String,
        /// What the system said.
        message: String,
    },
}

impl FetchError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Offline { .. } => "fetch.offline",
            Self::NoPython { .. } => "python.missing",
            Self::NoPip { .. } => "python.pip-missing",
            Self::Install { .. } => "fetch.failed",
            Self::Broken { .. } => "fetch.broken",
            Self::NoCache => "cache.missing",
            Self::Interrupted => "build.interrupted",
            Self::Cache { .. } => "cache.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Offline { tool, command } => {
                Some(format!("install {tool}, or run `{command}`, or once build without `--offline`"))
            }
            Self::NoPython { tool } => Some(format!("install {tool} itself, uv, or Python with pip")),
            Self::NoPip { .. } => {
                Some("install pip (Debian, Ubuntu: `sudo apt install python3-pip`) or uv".to_owned())
            }
            Self::Install { tool, .. } => {
                Some(format!("look at pip's settings for its index and proxy, or install {tool} yourself"))
            }
            _ => None,
        }
    }
}

/// Written into a folder of the cache once what is in it was installed by hash and ran.
#[derive(Debug, Serialize, Deserialize)]
struct Verified {
    package: String,
    version: String,
    program: String,
}

const VERIFIED: &str = "verified.json";

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
    let cache = store::cache_folder(host).ok_or(FetchError::NoCache)?.join("tools");
    let name = format!("{}-{}", fetch.tool, fetch.version);
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
    let result = install_and_publish(host, fetch, tools, &temporary, &folder);
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
    tools: &Tools,
    temporary: &HostPath,
    folder: &HostPath,
) -> Result<HostPath, FetchError> {
    let cache_error =
        |error: std::io::Error| FetchError::Cache { path: temporary.to_string(), message: error.to_string() };
    let requirements = temporary.join("requirements.txt");
    host.write(&requirements, requirements_text(fetch).as_bytes()).map_err(cache_error)?;
    let site = temporary.join("site");
    install(host, fetch, tools, &requirements, &site)?;
    let program = find_program(host, &fetch.tool, &site).ok_or_else(|| FetchError::Broken {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message: format!("there is no program in `{}`", fetch.package),
    })?;
    verify(host, fetch, &site.join(&program))?;
    let marker =
        Verified { package: fetch.package.clone(), version: fetch.version.clone(), program: program.clone() };
    store::write_json(host, &site.join(VERIFIED), &marker).map_err(cache_error)?;
    // A folder without marker is what a kill left behind.
    host.remove(folder)
        .and_then(|()| host.rename(&site, folder))
        .map_err(|error| FetchError::Cache { path: folder.to_string(), message: error.to_string() })?;
    Ok(folder.join(&program))
}

/// The requirements file: one package, one version, the sums of its wheels.
#[must_use]
pub fn requirements_text(fetch: &Fetch) -> String {
    let hashes: Vec<String> =
        fetch.sha256.iter().map(|sum| format!(" \\\n    --hash=sha256:{sum}")).collect();
    format!("{}=={}{}\n", fetch.package, fetch.version, hashes.concat())
}

fn install(
    host: &dyn Host,
    fetch: &Fetch,
    tools: &Tools,
    requirements: &HostPath,
    site: &HostPath,
) -> Result<(), FetchError> {
    let options =
        ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", site.as_str(), "-r"];
    let install_error = |output: &Output| FetchError::Install {
        tool: fetch.tool.clone(),
        version: fetch.version.clone(),
        message: what_it_said(output),
    };
    if let Some(uv) = &tools.uv {
        let mut command = Command::new(uv.as_str(), INSTALL_DEADLINE).args(["pip", "install"]).args(options);
        command = command.arg(requirements.as_str());
        if let Some(python) = &tools.python {
            command = command.args(["--python", python.as_str()]);
        }
        let output = run(host, fetch, &command.env("NO_COLOR", "1"))?;
        return if output.success() { Ok(()) } else { Err(install_error(&output)) };
    }
    let python = tools.python.as_ref().ok_or_else(|| FetchError::NoPython { tool: fetch.tool.clone() })?;
    let pip = |python: &str| {
        Command::new(python, INSTALL_DEADLINE)
            .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-color"])
            .args(options)
            .arg(requirements.as_str())
            // `--target` and a user site that is set for good exclude each other.
            .env("PIP_USER", "0")
            .env("PIP_REQUIRE_VIRTUALENV", "0")
    };
    let mut output = run(host, fetch, &pip(python.as_str()))?;
    if output.stderr.contains("No module named pip") {
        let own = own_environment(host, fetch, python, site)?;
        output = run(host, fetch, &pip(own.as_str()))?;
    }
    if output.success() { Ok(()) } else { Err(install_error(&output)) }
}

/// A Python without pip makes an environment that has it, if its venv module is complete.
fn own_environment(
    host: &dyn Host,
    fetch: &Fetch,
    python: &HostPath,
    site: &HostPath,
) -> Result<HostPath, FetchError> {
    let folder = site.join("../venv").normalized();
    let command = Command::new(python.as_str(), INSTALL_DEADLINE).args(["-m", "venv", folder.as_str()]);
    let made = run(host, fetch, &command)?.success();
    let inside = match host.platform().os {
        Os::Windows => "Scripts/python.exe",
        Os::Linux | Os::Macos => "bin/python",
    };
    let own = folder.join(inside);
    if made && host.is_file(&own) {
        return Ok(own);
    }
    Err(FetchError::NoPip { tool: fetch.tool.clone(), python: python.to_string() })
}

fn run(host: &dyn Host, fetch: &Fetch, command: &Command) -> Result<Output, FetchError> {
    host.run(command).map_err(|error| match error {
        RunError::Interrupted => FetchError::Interrupted,
        other => FetchError::Install {
            tool: fetch.tool.clone(),
            version: fetch.version.clone(),
            message: other.to_string(),
        },
    })
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

/// The last lines that say that something is wrong, on one line.
fn what_it_said(output: &Output) -> String {
    let lines: Vec<&str> = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let errors: Vec<&str> =
        lines.iter().copied().filter(|line| line.to_ascii_lowercase().contains("error")).collect();
    let telling = if errors.is_empty() { &lines } else { &errors };
    telling.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_name_every_sum() {
        let fetch = Fetch {
            tool: "ninja".into(),
            version: "1.13.2".into(),
            package: "ninja".into(),
            sha256: vec!["aa".into(), "bb".into()],
        };
        assert_eq!(
            requirements_text(&fetch),
            "ninja==1.13.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        );
    }

    #[test]
    fn offline_is_said_in_two_words() {
        let network =
            |name: &str, value: &str| Network::from_env(&Environment::new(Os::Linux, [(name, value)]));
        assert_eq!(network("GPUBUILD_OFFLINE", "1"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "true"), Network::Offline);
        assert_eq!(network("CARGO_NET_OFFLINE", "false"), Network::Allowed);
        assert_eq!(network("OTHER", "1"), Network::Allowed);
    }

    #[test]
    fn installers_are_quoted_by_their_errors() {
        let stderr =
            "Looking in indexes\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\nsome text\n".to_owned();
        let output = Output { stderr, ..Output::default() };
        assert_eq!(what_it_said(&output), "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES");
    }
}
