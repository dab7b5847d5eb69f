//! Virtual environments: adopts an existing one by its `pyvenv.cfg`, or creates one. Existing environments are changed only
//! by installing packages.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::python::Network;
use gpubuild_exec::store;
use gpubuild_host::{Command, Host, HostInfo, HostPath, Os, ReadFiles, RunError, WriteFiles};

use super::problem::VenvProblem;

/// Timeout for creating an environment; uv may download Python.
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// A usable virtual environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualEnvironment {
    /// Its folder.
    pub folder: HostPath,
    /// Its Python interpreter.
    pub python: HostPath,
    /// Version of the interpreter.
    pub version: Version,
    /// Its `site-packages` folder.
    pub site: HostPath,
}

/// Adopts the environment in a folder; `None` if the folder is empty or does not exist.
///
/// # Errors
/// The folder contains something else, or an unusable environment. Nothing is changed.
pub fn adopt(
    host: &dyn ReadFiles,
    folder: &HostPath,
    oldest: &Version,
) -> Result<Option<VirtualEnvironment>, VenvProblem> {
    match host.list(folder) {
        Ok(names) if names.is_empty() && !host.has_unlisted(folder).unwrap_or(true) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(not_one(folder, &format!("it cannot be listed ({error})")));
        }
    }
    let config = folder.join("pyvenv.cfg");
    let Ok(text) = host.read_text(&config) else {
        let conda = host.is_dir(&folder.join("conda-meta"));
        let what = if conda { "it is a conda environment" } else { "it has no `pyvenv.cfg`" };
        return Err(not_one(folder, what));
    };
    let os = host.platform().os;
    let python = match own_python(host, folder, os) {
        Some(python) => python,
        None if own_python(host, folder, other(os)).is_some() => {
            return Err(elsewhere(folder, "it has the layout of another system"));
        }
        None => return Err(broken(host, folder, &config, &text, os)),
    };
    refuse_foreign(host, folder, &python)?;
    let site = site(host, folder, os).ok_or_else(|| {
        VenvProblem::refused(id!("venv.broken"))
            .value("path", folder.as_str())
            .value("why", "it has no site-packages")
    })?;
    let version = value(&text, &["version_info", "version"]).and_then(|text| text.parse::<Version>().ok());
    let version = version.or_else(|| version_of_site(&site)).unwrap_or_else(|| oldest.clone());
    if version < *oldest {
        return Err(VenvProblem::refused(id!("venv.python-too-old"))
            .value("path", folder.as_str())
            .value("version", version.as_str())
            .value("oldest", oldest.as_str())
            .evidence(Evidence::file(config.as_str(), version.as_str())));
    }
    Ok(Some(VirtualEnvironment { folder: folder.clone(), python, version, site }))
}

fn not_one(folder: &HostPath, what: &str) -> VenvProblem {
    VenvProblem::refused(id!("venv.not-an-environment")).value("path", folder.as_str()).value("what", what)
}

fn elsewhere(folder: &HostPath, why: &str) -> VenvProblem {
    VenvProblem::refused(id!("venv.other-platform")).value("path", folder.as_str()).value("why", why)
}

fn broken(host: &dyn ReadFiles, folder: &HostPath, config: &HostPath, text: &str, os: Os) -> VenvProblem {
    let home = value(text, &["home"]).unwrap_or("an unknown folder");
    let link = folder.join(programs(os)[0]);
    let why = match host.read_link(&link) {
        Ok(target) => format!("its Python, `{target}`, does not exist"),
        Err(_) => format!("it has no Python; it was created with the one in `{home}`"),
    };
    VenvProblem::refused(id!("venv.broken"))
        .value("path", folder.as_str())
        .value("why", why)
        .evidence(Evidence::file(config.as_str(), format!("home = {home}")))
}

/// Paths of the interpreter in an environment, preferred ones first.
fn programs(os: Os) -> &'static [&'static str] {
    match os {
        Os::Windows => &["Scripts/python.exe"],
        Os::Linux | Os::Macos => &["bin/python", "bin/python3"],
    }
}

fn other(os: Os) -> Os {
    if os == Os::Windows { Os::Linux } else { Os::Windows }
}

fn own_python(host: &dyn ReadFiles, folder: &HostPath, os: Os) -> Option<HostPath> {
    programs(os).iter().map(|program| folder.join(program)).find(|path| host.is_file(path))
}

/// Refuses an environment whose Python is for another processor or system.
fn refuse_foreign(host: &dyn ReadFiles, folder: &HostPath, python: &HostPath) -> Result<(), VenvProblem> {
    let here = host.platform();
    let real = host.canonical(python).unwrap_or_else(|_| python.clone());
    // Accept files that cannot be parsed: wrapper scripts, and recordings without content.
    let Ok(program) = gpubuild_object::read(host, &real, here.arch) else { return Ok(()) };
    let known = program.also.contains(&here.arch.id()) || program.machine.is(here.arch);
    if program.format.os() == here.os && known {
        return Ok(());
    }
    let (format, machine) = (program.format.label(), program.machine.name);
    let why = format!(
        "its Python is an {format} program for {machine}, but this is {} on {}",
        here.os.id(),
        here.arch.id()
    );
    Err(elsewhere(folder, &why))
}

fn site(host: &dyn ReadFiles, folder: &HostPath, os: Os) -> Option<HostPath> {
    if os == Os::Windows {
        return Some(folder.join("Lib/site-packages")).filter(|site| host.is_dir(site));
    }
    let names = host.list_matching(&folder.join("lib"), "py*").ok()?;
    names
        .iter()
        .map(|name| folder.join("lib").join(name).join("site-packages"))
        .find(|site| host.is_dir(site))
}

/// The version in the path of `site-packages`: `3.11` of `lib/python3.11/site-packages`.
fn version_of_site(site: &HostPath) -> Option<Version> {
    site.parent()?.file_name()?.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// The value of the first of these keys in a `pyvenv.cfg`.
fn value<'t>(text: &'t str, keys: &[&str]) -> Option<&'t str> {
    let find = |key: &&str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            name.trim().eq_ignore_ascii_case(key).then(|| value.trim())
        })
    };
    keys.iter().find_map(find).filter(|value| !value.is_empty())
}

/// Creates environments.
#[derive(Clone, Copy)]
pub struct VenvCreator<'a> {
    /// The machine.
    pub host: &'a dyn Host,
    /// Paths of uv and Python.
    pub tools: &'a InstalledTools,
    /// Python version or program given with `--python`.
    pub python: Option<&'a str>,
    /// Whether uv may download Python.
    pub network: Network,
    /// The command that installs missing parts of Python on this system.
    pub install: Option<&'a str>,
}

impl VenvCreator<'_> {
    /// Creates an environment. Removes it if this fails. If the process is killed, the next call removes it.
    ///
    /// # Errors
    /// Python is missing or has no ensurepip, or uv or Python failed.
    pub fn create(&self, folder: &HostPath, oldest: &Version) -> Result<VirtualEnvironment, VenvProblem> {
        let marker = marker_file(self.host, folder);
        if let Some(marker) = &marker {
            let io = |error: std::io::Error| VenvProblem::io("write", marker, &error);
            self.host.write(marker, folder.as_str().as_bytes()).map_err(io)?;
        }
        let created = self.run(folder).and_then(|()| {
            adopt(self.host, folder, oldest)?.ok_or_else(|| failed(folder, "the folder is empty"))
        });
        if created.is_err() {
            // If the removal fails, the marker remains and the next call tries again.
            let _ = self.host.remove(folder);
        }
        if let Some(marker) = marker.filter(|_| !self.host.exists(folder) || created.is_ok()) {
            let _ = self.host.remove(&marker);
        }
        created
    }

    fn run(&self, folder: &HostPath) -> Result<(), VenvProblem> {
        let wanted = self.python.map(str::to_owned);
        let python = wanted.clone().or_else(|| self.tools.python.as_ref().map(ToString::to_string));
        if let Some(uv) = &self.tools.uv {
            let mut command = Command::new(uv.as_str(), DEADLINE).args(["venv", "--quiet"]);
            if let Some(python) = &python {
                command = command.args(["--python", python]);
            }
            if self.network == Network::Offline {
                command = command.arg("--offline");
            }
            return self.start(&command.arg(folder.as_str()).env("NO_COLOR", "1"), folder);
        }
        let Some(python) = python else {
            let problem = VenvProblem::refused(id!("venv.python-missing"));
            return Err(self.with_install(problem));
        };
        let program = program_of(&python);
        let asked = Command::new(&program, DEADLINE).args(["-c", "import ensurepip, venv"]);
        match self.host.run(&asked) {
            Ok(output) if output.success() => {}
            Ok(output) => {
                let last_line =
                    output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                let problem =
                    VenvProblem::refused(id!("venv.ensurepip-missing")).value("python", &program).evidence(
                        Evidence::new(gpubuild_detect::finding::EvidenceKind::Exec, &program, last_line),
                    );
                return Err(self.with_install(problem));
            }
            Err(RunError::NotFound { .. }) => {
                let problem =
                    VenvProblem::refused(id!("venv.python-missing")).value("python", &program).case("named");
                return Err(self.with_install(problem));
            }
            Err(error) => return Err(stopped(folder, &error)),
        }
        self.start(&Command::new(program, DEADLINE).args(["-m", "venv"]).arg(folder.as_str()), folder)
    }

    fn with_install(&self, mut problem: VenvProblem) -> VenvProblem {
        let commands = self.install.map(|command| vec![command.to_owned()]).unwrap_or_default();
        problem.draft.steps.insert("install_environment".to_owned(), commands);
        problem
    }

    fn start(&self, command: &Command, folder: &HostPath) -> Result<(), VenvProblem> {
        let output = self.host.run(command).map_err(|error| stopped(folder, &error))?;
        if output.success() {
            return Ok(());
        }
        let lines: Vec<&str> = output
            .stderr
            .lines()
            .chain(output.stdout.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        Err(failed(folder, &lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ")))
    }
}

/// The program for `--python`: `python3.12` for `3.12`.
fn program_of(python: &str) -> String {
    if python.starts_with(|c: char| c.is_ascii_digit()) {
        format!("python{python}")
    } else {
        python.to_owned()
    }
}

fn failed(folder: &HostPath, why: &str) -> VenvProblem {
    VenvProblem::failed(id!("venv.not-made")).value("path", folder.as_str()).value("why", why)
}

fn stopped(folder: &HostPath, error: &RunError) -> VenvProblem {
    match error {
        RunError::Interrupted => VenvProblem::failed(id!("build.interrupted")),
        other => failed(folder, &other.to_string()),
    }
}

/// The marker file that exists while gpubuild creates an environment in the folder.
fn marker_file(host: &dyn HostInfo, folder: &HostPath) -> Option<HostPath> {
    cache_file(host, folder, "making")
}

/// The lock file of an environment.
#[must_use]
pub fn lock_file(host: &dyn HostInfo, folder: &HostPath) -> Option<HostPath> {
    cache_file(host, folder, "lock")
}

fn cache_file(host: &dyn HostInfo, folder: &HostPath, kind: &str) -> Option<HostPath> {
    let name = &store::sha256(folder.key().as_bytes())[..16];
    Some(gpubuild_host::folders::cache_folder(host)?.join("environments").join(&format!("{name}.{kind}")))
}

/// Removes an environment whose creation was interrupted by a kill. The caller must hold the lock.
pub fn remove_partial(host: &dyn WriteFiles, folder: &HostPath) {
    let Some(marker) = marker_file(host, folder).filter(|marker| host.is_file(marker)) else { return };
    if host.remove(folder).is_ok() {
        let _ = host.remove(&marker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, RecordedHost};

    const CONFIG: &str = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n";

    fn oldest() -> Version {
        "3.8".parse().unwrap()
    }

    fn machine(os: Os) -> RecordedHostBuilder {
        RecordedHost::builder(os, Arch::X86_64)
    }

    fn refusal(host: &RecordedHost, folder: &str) -> (String, String) {
        let problem = adopt(host, &host.path(folder), &oldest()).unwrap_err();
        let values = problem.draft.values.into_values().collect::<Vec<_>>().join(" ");
        (problem.draft.id.to_string(), values)
    }

    #[test]
    fn environments_are_adopted_by_pyvenv_cfg() {
        let host = machine(Os::Linux)
            .file("/v/pyvenv.cfg", CONFIG)
            .link("/v/bin/python", "/usr/bin/python3.11")
            .executable("/usr/bin/python3.11")
            .directory("/v/lib/python3.11/site-packages")
            .build();
        let found = adopt(&host, &host.path("/v"), &oldest()).unwrap().unwrap();
        assert_eq!(found.version.as_str(), "3.11.2");
        assert_eq!(found.site.as_str(), "/v/lib/python3.11/site-packages");
        // The format of uv, on Windows.
        let host = machine(Os::Windows)
            .file(
                r"C:\v\pyvenv.cfg",
                "home = C:\\Python\nimplementation = CPython\nuv = 0.13.8\nversion_info = 3.13.1\n",
            )
            .executable(r"C:\v\Scripts\python.exe")
            .directory(r"C:\v\Lib\site-packages")
            .build();
        let found = adopt(&host, &host.path(r"C:\v"), &oldest()).unwrap().unwrap();
        assert_eq!((found.version.as_str(), found.site.file_name()), ("3.13.1", Some("site-packages")));
        assert_eq!(adopt(&host, &host.path(r"C:\none"), &oldest()), Ok(None));
    }

    #[test]
    fn unusable_environments_are_refused() {
        let host = machine(Os::Linux)
            .file("/plain/readme", "")
            .file("/conda/conda-meta/history", "")
            .file("/windows/pyvenv.cfg", CONFIG)
            .executable("/windows/Scripts/python.exe")
            .file("/gone/pyvenv.cfg", CONFIG)
            .link("/gone/bin/python", "/opt/python3.9/bin/python3.9")
            .file("/old/pyvenv.cfg", &CONFIG.replace("3.11.2", "3.6.8"))
            .executable("/old/bin/python")
            .directory("/old/lib/python3.6/site-packages")
            .file("/foreign/pyvenv.cfg", CONFIG)
            .bytes("/foreign/bin/python", &program(183))
            .file("/file", "")
            .build();
        for (folder, id, text) in [
            ("/plain", "venv.not-an-environment", "pyvenv.cfg"),
            ("/conda", "venv.not-an-environment", "conda"),
            ("/file", "venv.not-an-environment", "cannot be listed"),
            ("/windows", "venv.other-platform", "another system"),
            ("/gone", "venv.broken", "/opt/python3.9/bin/python3.9"),
            ("/old", "venv.python-too-old", "3.6.8"),
            ("/foreign", "venv.other-platform", "aarch64"),
        ] {
            let (found, values) = refusal(&host, folder);
            assert_eq!(found, id, "{folder}: {values}");
            assert!(values.contains(text), "{folder}: {values}");
        }
    }

    /// A minimal ELF program: a header and one segment that contains the complete file.
    fn program(machine: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend(machine.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
        bytes.extend([1_u32, 5].map(u32::to_le_bytes).concat());
        bytes.extend([0_u64, 0, 0, 120, 120, 4096].map(u64::to_le_bytes).concat());
        bytes
    }

    #[test]
    fn python_without_ensurepip_is_reported_with_the_install_command() {
        let host = machine(Os::Linux)
            .executable("/usr/bin/python3")
            .command_result(
                &["/usr/bin/python3", "-c", "import ensurepip, venv"],
                gpubuild_host::recorded::CommandResult::Ended(gpubuild_host::CommandOutput {
                    stderr: "ModuleNotFoundError: No module named 'ensurepip'\n".into(),
                    exit: Some(1),
                    ..gpubuild_host::CommandOutput::default()
                }),
            )
            .build();
        let tools =
            InstalledTools { python: Some(host.path("/usr/bin/python3")), ..InstalledTools::default() };
        let install = Some("sudo apt install python3-venv");
        let creator =
            VenvCreator { host: &host, tools: &tools, python: None, network: Network::Allowed, install };
        let problem = creator.create(&host.path("/v"), &oldest()).unwrap_err();
        assert_eq!(problem.draft.id, "venv.ensurepip-missing");
        assert_eq!(problem.draft.steps["install_environment"], ["sudo apt install python3-venv"]);
        assert!(problem.draft.evidence[0].value.contains("No module named 'ensurepip'"));
        let creator = VenvCreator { tools: &InstalledTools::default(), ..creator };
        assert_eq!(creator.create(&host.path("/v"), &oldest()).unwrap_err().draft.id, "venv.python-missing");
        let creator = VenvCreator { python: Some("3.99"), ..creator };
        let problem = creator.create(&host.path("/v"), &oldest()).unwrap_err();
        assert_eq!(problem.draft.values["python"], "python3.99");
    }
}
