//! Builds the Rust program with cargo, using the manifest, unless all of its inputs are unchanged.

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
use crate::store::{self, hash_file, sha256};

/// Time limit for cargo. Release builds of large programs with link-time optimisation take hours.
const DEADLINE: Duration = Duration::from_secs(6 * 60 * 60);

/// Variable that passes the manifest's path to build scripts of the project's package, which then build nothing themselves.
pub const BUILT: &str = "GPUBUILD_BUILT";

/// The stamp is not part of the manifest because the program's build script watches the manifest.
const STAMP: &str = "binary.json";

#[derive(Debug, Serialize, Deserialize)]
struct BinaryStamp {
    key: String,
    /// `None` if not all inputs are known; cargo then runs every time.
    inputs: Option<FileSnapshot>,
    artifact: Artifact,
    output: FileSnapshot,
}

/// The last program that was built in a build root.
#[must_use]
pub fn last_built(host: &dyn ReadFiles, root: &HostPath) -> Option<Artifact> {
    store::read_json::<BinaryStamp>(host, &root.join(STAMP)).map(|stamp| stamp.artifact)
}

/// Checks that cargo is installed, so that a build does not fail after it has compiled everything else. A program that was built
/// before may need no cargo.
///
/// # Errors
/// [`BuildError::Run`] if it is not found.
pub fn check_cargo(host: &dyn ReadFiles, root: &HostPath) -> Result<(), BuildError> {
    let cargo = cargo(host);
    if last_built(host, root).is_some() || !find_program(host, cargo).is_empty() {
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
    let key = key(host, binary, manifest, &job.root);
    let stamp: Option<BinaryStamp> = store::read_json(host, &stamp_path);
    if let Some(stamp) = &stamp
        && stamp.key == key
        && stamp.inputs.as_ref().is_some_and(|inputs| is_current(host, binary, inputs))
        && files::unchanged(host, &stamp.output)
    {
        return Ok((stamp.artifact.clone(), TreeState::Unchanged));
    }
    if let Some(stamp) = stamp.filter(|stamp| !changed::is_intact(host, &stamp.artifact, Some(&stamp.output)))
    {
        remove_program(host, &host.path(&stamp.artifact.path))?;
    }
    host.remove(&stamp_path).map_err(|error| BuildError::io("remove", &stamp_path, &error))?;
    (job.sink)(&BuildEvent::Linking { package: binary.package.to_string() });
    let executable = run_cargo(job, binary, manifest_path, manifest)?;
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
    let inputs = inputs(host, binary, &path, manifest);
    let output = files::snapshot(host, [executable.as_str()]);
    let stamp = BinaryStamp { key, inputs, artifact: artifact.clone(), output };
    store::write_json(host, &stamp_path, &stamp)
        .map_err(|error| BuildError::io("write", &stamp_path, &error))?;
    Ok((artifact, TreeState::Built))
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
) -> Result<String, BuildError> {
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
    let output = log.run_with(&command, &mut |line| !line.starts_with('{'))?;
    let executable = log.last().iter().rev().find_map(|line| executable(line));
    if let Some(executable) = executable.filter(|_| output.success()) {
        return Ok(executable);
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

/// The path of the program in a JSON message of cargo; `None` for other lines.
fn executable(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct CargoMessage {
        reason: String,
        executable: Option<String>,
    }
    let message: CargoMessage = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    message.executable.filter(|_| message.reason == "compiler-artifact")
}

fn key(host: &dyn ReadFiles, binary: &PlannedBinary, manifest: &Manifest, root: &HostPath) -> String {
    let env = host.env().iter().filter(|(name, _)| affects_cargo(name)).collect::<Vec<_>>();
    let trees: Vec<_> = manifest.trees.iter().map(|tree| (&tree.key, &tree.files, &tree.link)).collect();
    // The folders of an environment become part of the program's run-time search path.
    let (folders, _) = crate::environment::search_path(host, root);
    let parts =
        (binary, env, &manifest.backends, trees, folders, &manifest.target, env!("CARGO_PKG_VERSION"));
    sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
}

/// Whether a variable changes what cargo builds. Variables that cargo sets for its child processes are not included.
fn affects_cargo(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "RUSTFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTUP_TOOLCHAIN",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "GPUBUILD_MANIFEST",
        "CC",
        "CFLAGS",
        "LDFLAGS",
        "LIBRARY_PATH",
        "SDKROOT",
    ];
    const STARTS: [&str; 3] = ["CARGO_BUILD_", "CARGO_TARGET_", "CARGO_PROFILE_"];
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

/// All inputs of the program: the files in cargo's depfile, every file of the package, and cargo's configuration files.
/// `None` if there is no depfile, or if it lists a folder outside the package.
fn inputs(
    host: &dyn ReadFiles,
    binary: &PlannedBinary,
    executable: &HostPath,
    manifest: &Manifest,
) -> Option<FileSnapshot> {
    const CONFIG_FILES: [&str; 6] = [
        "Cargo.toml",
        "Cargo.lock",
        ".cargo/config.toml",
        ".cargo/config",
        "rust-toolchain.toml",
        "rust-toolchain",
    ];
    let stem = executable.file_name()?.trim_end_matches(".exe");
    let listed = host.read_text(&executable.parent()?.join(&format!("{stem}.d"))).ok()?;
    let mut paths = parse_depfile(&listed)?;
    // Files of the package are always included. The content of other folders is unknown.
    let is_external = |path: &String| !host.path(path).is_inside(&binary.package);
    if paths.iter().any(|path| is_external(path) && host.is_dir(&host.path(path))) {
        return None;
    }
    let mut folder = Some(binary.package.clone());
    while let Some(here) = folder {
        paths.extend(CONFIG_FILES.iter().map(|name| here.join(name).to_string()));
        folder = here.parent();
    }
    paths.extend(manifest.trees.iter().flat_map(|tree| &tree.files).map(|file| file.path.clone()));
    let mut inputs = files::snapshot(host, paths.iter().map(String::as_str));
    inputs.extend(package_files(host, binary)?);
    Some(inputs)
}

fn package_files(host: &dyn ReadFiles, binary: &PlannedBinary) -> Option<FileSnapshot> {
    files::walk(host, &binary.package, &binary.package.join("target")).ok()
}

/// Whether all inputs are unchanged and the package has no new files.
fn is_current(host: &dyn ReadFiles, binary: &PlannedBinary, inputs: &FileSnapshot) -> bool {
    files::unchanged(host, inputs)
        && package_files(host, binary).is_some_and(|now| now.keys().all(|path| inputs.contains_key(path)))
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
        assert_eq!(executable(line).as_deref(), Some("/t/infer"));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable("Compiling"), None);
    }
}
