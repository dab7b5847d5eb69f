//! A virtual environment: adopted by its `pyvenv.cfg` and never touched beyond installing, or made where there is none.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::InstalledTools;
use gpubuild_exec::python::Network;
use gpubuild_exec::store;
use gpubuild_host::{Command, Host, HostInfo, HostPath, Os, ReadFiles, RunError, WriteFiles};

use super::problem::VenvProblem;

/// uv may fetch a Python for it.
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// An environment that wheels can be installed into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualEnvironment {
    /// Its folder.
    pub folder: HostPath,
    /// Its Python.
    pub python: HostPath,
    /// The version of its Python.
    pub version: Version,
    /// The folder that wheels are unpacked in.
    pub site: HostPath,
}

/// The environment in a folder; `None` if there is nothing yet.
///
/// # Errors
/// Something else is there, or an environment that cannot be used. Nothing is changed.
pub fn adopt(
    host: &dyn ReadFiles,
    folder: &HostPath,
    oldest: &Version,
) -> Result<Option<VirtualEnvironment>, VenvProblem> {
    match host.list(folder) {
        Ok(names) if names.is_empty() => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(not_one(folder, &format!("it can't be listed ({error})")));
        }
    }
    let config = folder.join("pyvenv.cfg");
    let Ok(text) = host.read_text(&config) else {
        let conda = host.is_dir(&folder.join("conda-meta"));
        let what = if conda { "it is an environment of conda" } else { "it holds no `pyvenv.cfg`" };
        return Err(not_one(folder, what));
    };
    let os = host.platform().os;
    let python = match own_python(host, folder, os) {
        Some(python) => python,
        None if own_python(host, folder, other(os)).is_some() => {
            return Err(elsewhere(folder, "its layout is that of another system"));
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
        Ok(target) => format!("its Python, `{target}`, is gone"),
        Err(_) => format!("it has no Python of its own; it was made from the one in `{home}`"),
    };
    VenvProblem::refused(id!("venv.broken"))
        .value("path", folder.as_str())
        .value("why", why)
        .evidence(Evidence::file(config.as_str(), format!("home = {home}")))
}

/// Where the Python of an environment is, best first.
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

/// A Python for another processor or system cannot load what is installed for this one.
fn refuse_foreign(host: &dyn ReadFiles, folder: &HostPath, python: &HostPath) -> Result<(), VenvProblem> {
    let here = host.platform();
    let real = host.canonical(python).unwrap_or_else(|_| python.clone());
    // A wrapper script, or a recording without content, tells nothing.
    let Ok(program) = gpubuild_object::read(host, &real, here.arch) else { return Ok(()) };
    let known = program.also.contains(&here.arch.id()) || program.machine.is(here.arch);
    if program.format.os() == here.os && known {
        return Ok(());
    }
    let (format, machine) = (program.format.label(), program.machine.name);
    let why = format!(
        "its Python is an {format} program for {machine}, and this is {} on {}",
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

/// `3.11` of `lib/python3.11/site-packages`.
fn version_of_site(site: &HostPath) -> Option<Version> {
    site.parent()?.file_name()?.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// The value of the first key that is there.
fn value<'t>(text: &'t str, keys: &[&str]) -> Option<&'t str> {
    let find = |key: &&str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            name.trim().eq_ignore_ascii_case(key).then(|| value.trim())
        })
    };
    keys.iter().find_map(find).filter(|value| !value.is_empty())
}

/// How an environment is made.
#[derive(Clone, Copy)]
pub struct VenvCreator<'a> {
    /// The machine.
    pub host: &'a dyn Host,
    /// uv and Python.
    pub tools: &'a InstalledTools,
    /// `--python`: a version or a program.
    pub python: Option<&'a str>,
    /// Whether uv may fetch a Python.
    pub network: Network,
    /// What installs the missing parts of a Python here.
    pub install: Option<&'a str>,
}

impl VenvCreator<'_> {
    /// Makes one. What is left of a failure is removed; what a kill leaves is removed by the next call.
    ///
    /// # Errors
    /// No Python, one without ensurepip, or what the program said.
    pub fn make(&self, folder: &HostPath, oldest: &Version) -> Result<VirtualEnvironment, VenvProblem> {
        let mark = mark(self.host, folder);
        if let Some(mark) = &mark {
            let io = |error: std::io::Error| VenvProblem::io("write", mark, &error);
            self.host.write(mark, folder.as_str().as_bytes()).map_err(io)?;
        }
        let made = self.run(folder).and_then(|()| {
            adopt(self.host, folder, oldest)?.ok_or_else(|| failed(folder, "there is nothing in it"))
        });
        if made.is_err() {
            // A failure to clean up is in nobody's way: the mark stays and the next call tries again.
            let _ = self.host.remove(folder);
        }
        if let Some(mark) = mark.filter(|_| !self.host.exists(folder) || made.is_ok()) {
            let _ = self.host.remove(&mark);
        }
        made
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
                let said = output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                let problem = VenvProblem::refused(id!("venv.ensurepip-missing"))
                    .value("python", &program)
                    .evidence(Evidence::new(gpubuild_detect::finding::EvidenceKind::Exec, &program, said));
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
        let said: Vec<&str> = output
            .stderr
            .lines()
            .chain(output.stdout.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        Err(failed(folder, &said.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ")))
    }
}

/// `--python 3.12` names a program of that version.
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

/// The file that says that this folder is being made by us.
fn mark(host: &dyn HostInfo, folder: &HostPath) -> Option<HostPath> {
    state(host, folder, "making")
}

/// The file that is locked while an environment is changed.
#[must_use]
pub fn lock_file(host: &dyn HostInfo, folder: &HostPath) -> Option<HostPath> {
    state(host, folder, "lock")
}

fn state(host: &dyn HostInfo, folder: &HostPath, kind: &str) -> Option<HostPath> {
    let name = &store::sha256(folder.key().as_bytes())[..16];
    Some(gpubuild_host::folders::cache_folder(host)?.join("environments").join(&format!("{name}.{kind}")))
}

/// Removes what a kill has left of an environment that was being made. The lock has to be held.
pub fn clear_half_made(host: &dyn WriteFiles, folder: &HostPath) {
    let Some(mark) = mark(host, folder).filter(|mark| host.is_file(mark)) else { return };
    if host.remove(folder).is_ok() {
        let _ = host.remove(&mark);
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
    fn environments_are_adopted_by_their_configuration() {
        let host = machine(Os::Linux)
            .file("/v/pyvenv.cfg", CONFIG)
            .link("/v/bin/python", "/usr/bin/python3.11")
            .executable("/usr/bin/python3.11")
            .directory("/v/lib/python3.11/site-packages")
            .build();
        let found = adopt(&host, &host.path("/v"), &oldest()).unwrap().unwrap();
        assert_eq!(found.version.as_str(), "3.11.2");
        assert_eq!(found.site.as_str(), "/v/lib/python3.11/site-packages");
        // As uv writes it, on Windows.
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
    fn what_cannot_be_used_is_told_and_left_alone() {
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
        for (folder, id, said) in [
            ("/plain", "venv.not-an-environment", "pyvenv.cfg"),
            ("/conda", "venv.not-an-environment", "conda"),
            ("/file", "venv.not-an-environment", "can't be listed"),
            ("/windows", "venv.other-platform", "another system"),
            ("/gone", "venv.broken", "/opt/python3.9/bin/python3.9"),
            ("/old", "venv.python-too-old", "3.6.8"),
            ("/foreign", "venv.other-platform", "aarch64"),
        ] {
            let (found, values) = refusal(&host, folder);
            assert_eq!(found, id, "{folder}: {values}");
            assert!(values.contains(said), "{folder}: {values}");
        }
    }

    /// The smallest program: a header with one segment that holds it all.
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
    fn a_python_without_ensurepip_is_told_with_the_package_of_this_distribution() {
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
        let maker =
            VenvCreator { host: &host, tools: &tools, python: None, network: Network::Allowed, install };
        let problem = maker.make(&host.path("/v"), &oldest()).unwrap_err();
        assert_eq!(problem.draft.id, "venv.ensurepip-missing");
        assert_eq!(problem.draft.steps["install_environment"], ["sudo apt install python3-venv"]);
        assert!(problem.draft.evidence[0].value.contains("No module named 'ensurepip'"));
        let maker = VenvCreator { tools: &InstalledTools::default(), ..maker };
        assert_eq!(maker.make(&host.path("/v"), &oldest()).unwrap_err().draft.id, "venv.python-missing");
        let maker = VenvCreator { python: Some("3.99"), ..maker };
        let problem = maker.make(&host.path("/v"), &oldest()).unwrap_err();
        assert_eq!(problem.draft.values["python"], "python3.99");
    }
}
