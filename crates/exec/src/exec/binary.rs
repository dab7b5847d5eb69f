//! Builds the Rust program with cargo, using the manifest. Only cargo knows all inputs of a program, so it runs every time.

use std::time::Duration;

use gpubuild_host::{Command, HostPath, ReadFiles, RunError, WriteFiles, find_program};
use gpubuild_plan::artifacts::{Artifact, Manifest};
use gpubuild_plan::plan::PlannedBinary;
use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::log::BuildLog;
use super::modules::ModuleSymbols;
use super::{BuildJob, changed};
use crate::diagnose::first_error;
use crate::event::FirstError;
use crate::event::{BuildEvent, TreeState};
use crate::python::Network;
use crate::store::files::{self, FileSnapshot};
use crate::store::{self, hash_file};

/// Time limit for cargo. Release builds of large programs with link-time optimisation take hours.
const DEADLINE: Duration = Duration::from_secs(6 * 60 * 60);

/// Variable that passes the manifest's path to build scripts of the project's package, which then build nothing themselves.
pub const BUILT: &str = "GPUBUILD_BUILT";

/// The stamp is not part of the manifest because the program's build script watches the manifest.
const STAMP: &str = "binary.json";

/// The last program that was built.
#[derive(Debug, Serialize, Deserialize)]
struct BinaryStamp {
    artifact: Artifact,
    output: FileSnapshot,
}

/// The last program that was built in a build root.
#[must_use]
pub fn last_built(host: &dyn ReadFiles, root: &HostPath) -> Option<Artifact> {
    store::read_json::<BinaryStamp>(host, &root.join(STAMP)).map(|stamp| stamp.artifact)
}

/// Checks that cargo is installed, so that a build does not fail after it has compiled everything else.
///
/// # Errors
/// [`BuildError::Run`] if it is not found.
pub fn check_cargo(host: &dyn ReadFiles) -> Result<(), BuildError> {
    let cargo = cargo(host);
    if !find_program(host, cargo).is_empty() {
        return Ok(());
    }
    Err(BuildError::Run(RunError::NotFound { program: cargo.to_owned() }))
}

/// The name or path of cargo, which cargo passes to the programs that it starts.
fn cargo(host: &dyn ReadFiles) -> &str {
    host.env().get("CARGO").unwrap_or("cargo")
}

/// Builds the program and returns its artifact.
pub(super) fn build(
    job: &BuildJob<'_>,
    binary: &PlannedBinary,
    manifest_path: &HostPath,
    manifest: &Manifest,
) -> Result<(Artifact, TreeState), BuildError> {
    let host = job.host;
    let stamp_path = job.root.join(STAMP);
    let stamp: Option<BinaryStamp> = store::read_json(host, &stamp_path);
    let intact = stamp.filter(|stamp| changed::is_intact(host, &stamp.artifact, Some(&stamp.output)));
    if let (None, Some(last)) = (&intact, last_built(host, &job.root)) {
        remove_program(host, &host.path(&last.path))?;
    }
    host.remove(&stamp_path).map_err(|error| BuildError::io("remove", &stamp_path, &error))?;
    let CargoProgram { executable, fresh } = run_cargo(job, binary, manifest_path, manifest)?;
    let unchanged = intact
        .filter(|last| fresh && last.artifact.path == executable && files::unchanged(host, &last.output));
    if let Some(stamp) = unchanged {
        write_stamp(host, &stamp_path, &stamp)?;
        return Ok((stamp.artifact, TreeState::Unchanged));
    }
    let path = host.path(&executable);
    let (sha256, bytes) = hash_file(host, &path).map_err(|error| BuildError::io("read", &path, &error))?;
    let artifact = Artifact {
        target: path.file_name().unwrap_or_default().trim_end_matches(".exe").to_owned(),
        kind: "executable".to_owned(),
        path: executable.clone(),
        bytes,
        sha256,
        symbols: None,
        device_code: Vec::new(),
    };
    let output = files::snapshot(host, [executable.as_str()]);
    let stamp = BinaryStamp { artifact, output };
    write_stamp(host, &stamp_path, &stamp)?;
    Ok((stamp.artifact, TreeState::Built))
}

fn write_stamp(host: &dyn WriteFiles, path: &HostPath, stamp: &BinaryStamp) -> Result<(), BuildError> {
    store::write_json(host, path, stamp).map_err(|error| BuildError::io("write", path, &error))
}

/// Removes a program that changed since cargo built it. Cargo checks neither size nor content of its outputs: it links the
/// program again only if the hard link to it in `deps` is also missing.
fn remove_program(host: &dyn WriteFiles, program: &HostPath) -> Result<(), BuildError> {
    let deps = program.parent().map(|folder| folder.join("deps"));
    let inner = deps.iter().flat_map(|deps| {
        let names = host.list(deps).unwrap_or_default();
        names.into_iter().map(|name| deps.join(&name)).collect::<Vec<_>>()
    });
    let mut obsolete: Vec<HostPath> = inner.filter(|path| host.is_same_file(path, program)).collect();
    obsolete.push(program.clone());
    for path in &obsolete {
        host.remove(path).map_err(|error| BuildError::io("remove", path, &error))?;
    }
    Ok(())
}

fn run_cargo(
    job: &BuildJob<'_>,
    binary: &PlannedBinary,
    manifest_path: &HostPath,
    manifest: &Manifest,
) -> Result<CargoProgram, BuildError> {
    let mut command = Command::new(cargo(job.host), DEADLINE)
        .arg("build")
        .args(["--profile", binary.profile.as_str()])
        .args(["--manifest-path", binary.package.join("Cargo.toml").as_str()])
        .args(&binary.features)
        .args(["--message-format", "json-render-diagnostics"])
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    if let Some(target) = &manifest.target {
        command = super::cross::with_target(job.host, command, target);
    }
    if job.network == Network::Offline {
        command = command.arg("--offline");
    }
    // `gpubuild_link::link()` finds its project's manifest, so `GPUBUILD_MANIFEST` is set only for packages outside
    // the project. If it were always set, cargo would rebuild whenever the user runs it without the variable. `BUILT` makes
    // `Build` skip building.
    // A build for another platform has its own manifest, which is not the one that `gpubuild_link::link()` finds.
    let is_found = manifest.target.is_none() && is_of_project(&binary.package, &job.root);
    let variable = if is_found { BUILT } else { "GPUBUILD_MANIFEST" };
    command = command.env(variable, manifest_path.as_str());
    let mut log = BuildLog::new(job, "cargo", job.root.join("cargo.log"));
    let mut is_announced = false;
    let output = log.run_with(&command, &mut |line| {
        if !is_announced && line.trim_start().starts_with("Compiling ") {
            is_announced = true;
            (job.sink)(&BuildEvent::Linking { package: binary.package.to_string() });
        }
        let is_result = line.trim_start().starts_with("Finished ");
        !line.starts_with('{') && (is_announced || !is_result)
    })?;
    let program = log.last().iter().rev().find_map(|line| CargoProgram::parse(line));
    if let Some(program) = program.filter(|_| output.success()) {
        return Ok(program);
    }
    let output_lines: Vec<&String> = log.last().iter().filter(|line| !line.starts_with('{')).collect();
    let missing = || {
        let message = if output.success() {
            "the package has no binary target".to_owned()
        } else {
            format!("cargo {} and printed no error", output.ending())
        };
        FirstError { message, ..FirstError::default() }
    };
    let plain: Vec<&str> = output_lines.iter().map(|line| line.as_str()).collect();
    let undefined = super::modules::undefined(&plain);
    if !undefined.is_empty()
        && let Some((symbol, module, more)) =
            ModuleSymbols::of(job.host, manifest)?.first_only_in_modules(undefined.iter().map(String::as_str))
    {
        return Err(BuildError::ModuleCalled { symbol, module, caller: binary.package.to_string(), more });
    }
    let error = if output.success() { missing() } else { first_error(&output_lines).unwrap_or_else(missing) };
    let causes = job.causes(&log);
    let log = log.path().to_string();
    Err(BuildError::Binary { package: binary.package.to_string(), error: Box::new(error), causes, log })
}

/// Whether a package is inside the project of a build root. Paths are normalized first: `package = "../program"` is outside,
/// although its joined path starts with the project's folder.
fn is_of_project(package: &HostPath, root: &HostPath) -> bool {
    project_root(root).is_some_and(|project| package.normalized().is_inside(&project.normalized()))
}

/// The folder of the project whose build root is `<project>/target/gpubuild/<name>` or `<project>/.gpubuild/<name>`.
fn project_root(root: &HostPath) -> Option<HostPath> {
    let above = root.parent()?;
    match above.file_name()? {
        ".gpubuild" => above.parent(),
        _ => above.parent()?.parent(),
    }
}

/// A program that cargo reports.
#[derive(Debug, PartialEq, Eq)]
struct CargoProgram {
    executable: String,
    /// Whether nothing was to be done.
    fresh: bool,
}

impl CargoProgram {
    /// The program in a JSON message of cargo; `None` for other lines.
    fn parse(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct CargoMessage {
            reason: String,
            executable: Option<String>,
            #[serde(default)]
            fresh: bool,
        }
        let message: CargoMessage = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
        let executable = message.executable.filter(|_| message.reason == "compiler-artifact")?;
        Some(Self { executable, fresh: message.fresh })
    }
}

/// Parses the prerequisites of the first rule in a depfile. Spaces in names are escaped with a backslash.
#[must_use]
pub fn parse_depfile(text: &str) -> Option<Vec<String>> {
    let (_, list) = text.lines().next()?.split_once(": ")?;
    let mut paths = vec![String::new()];
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&' ') => {
                characters.next();
                paths.last_mut()?.push(' ');
            }
            ' ' => paths.push(String::new()),
            _ => paths.last_mut()?.push(character),
        }
    }
    paths.retain(|path| !path.is_empty());
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::PathRules;

    #[test]
    fn cargo_depfiles_are_parsed() {
        let text = "/t/release/infer: /p/src/main.rs /p/a\\ b.rs C:\\x\\y.rs\n\n/p/src/main.rs:\n";
        assert_eq!(parse_depfile(text).unwrap(), ["/p/src/main.rs", "/p/a b.rs", "C:\\x\\y.rs"]);
        assert_eq!(parse_depfile(""), None);
    }

    #[test]
    fn only_packages_inside_the_project_find_the_manifest() {
        let path = |text| HostPath::new(PathRules::Unix, text);
        let root = path("/p/deep/.gpubuild/demo");
        for (package, expected) in
            [("/p/deep", true), ("/p/deep/program", true), ("/p/deep/../program", false)]
        {
            assert_eq!(is_of_project(&path(package), &root), expected, "{package}");
        }
        assert!(is_of_project(&path("/p/program"), &path("/p/target/gpubuild/demo")));
    }

    #[test]
    fn only_messages_about_programs_have_an_executable() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/infer","fresh":false}"#;
        let program = CargoProgram { executable: "/t/infer".to_owned(), fresh: false };
        assert_eq!(CargoProgram::parse(line), Some(program));
        assert_eq!(CargoProgram::parse(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(CargoProgram::parse(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(CargoProgram::parse("Compiling"), None);
    }
}
