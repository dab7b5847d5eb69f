//! The Rust program: cargo builds it against the manifest, unless nothing that went into it changed.

use std::time::Duration;

use gpubuild_host::{Command, HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::{Artifact, Manifest};
use gpubuild_plan::plan::PlannedBinary;
use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::log::BuildLog;
use super::modules::Reachable;
use super::{BuildJob, changed};
use crate::diagnose::first_error;
use crate::event::FirstError;
use crate::event::{BuildEvent, TreeState};
use crate::python::Network;
use crate::store::files::{self, FileSnapshot};
use crate::store::{self, sha256};

/// Release builds with link-time optimisation of large programs take long.
const DEADLINE: Duration = Duration::from_secs(6 * 60 * 60);

/// Names the manifest to the build scripts of the project's own package: what they would build is built.
pub const BUILT: &str = "GPUBUILD_BUILT";

/// Kept apart from the manifest: the program's build script watches that one.
const STAMP: &str = "binary.json";

#[derive(Debug, Serialize, Deserialize)]
struct BinaryStamp {
    key: String,
    /// `None`: not everything that went in is known, so cargo is asked each time.
    inputs: Option<FileSnapshot>,
    artifact: Artifact,
    output: FileSnapshot,
}

/// The program that was built last in a build root.
#[must_use]
pub fn last_built(host: &dyn ReadFiles, root: &HostPath) -> Option<Artifact> {
    store::read_json::<BinaryStamp>(host, &root.join(STAMP)).map(|stamp| stamp.artifact)
}

/// Builds the program and tells where it is.
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
    let bytes = host.read(&path).map_err(|error| BuildError::io("read", &path, &error))?;
    let artifact = Artifact {
        target: path.file_name().unwrap_or_default().trim_end_matches(".exe").to_owned(),
        kind: "executable".to_owned(),
        path: executable.clone(),
        bytes: bytes.len() as u64,
        sha256: sha256(&bytes),
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

/// Removes a program that is not what cargo made. Cargo looks at neither size nor content of what it made before: it links
/// the program again only where the file in `deps`, of which this one is a hard link, is gone too.
fn remove_program(host: &dyn WriteFiles, program: &HostPath) -> Result<(), BuildError> {
    let deps = program.parent().map(|folder| folder.join("deps"));
    let inner = deps.iter().flat_map(|deps| {
        let names = host.list(deps).unwrap_or_default();
        names.into_iter().map(|name| deps.join(&name)).collect::<Vec<_>>()
    });
    let mut doomed: Vec<HostPath> = inner.filter(|path| host.is_same_file(path, program)).collect();
    doomed.push(program.clone());
    for path in &doomed {
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
    let cargo = job.host.env().get("CARGO").unwrap_or("cargo");
    let mut command = Command::new(cargo, DEADLINE)
        .arg("build")
        .args(["--profile", binary.profile.as_str()])
        .args(["--manifest-path", binary.package.join("Cargo.toml").as_str()])
        .args(&binary.features)
        .args(["--message-format", "json-render-diagnostics"])
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    if job.network == Network::Offline {
        command = command.arg("--offline");
    }
    // `gpubuild_link::link()` finds the manifest of its own project; only elsewhere it has to be told. Saying it always would make
    // cargo build again whenever it is called by hand, without the variable. `Build` has to be told that it need not build.
    let variable = if is_of_project(&binary.package, &job.root) { BUILT } else { "GPUBUILD_MANIFEST" };
    command = command.env(variable, manifest_path.as_str());
    let mut log = BuildLog::new(job, "cargo", job.root.join("cargo.log"));
    let output = log.run_with(&command, &mut |line| !line.starts_with('{'))?;
    let executable = log.last().iter().rev().find_map(|line| executable(line));
    if let Some(executable) = executable.filter(|_| output.success()) {
        return Ok(executable);
    }
    let talk: Vec<&String> = log.last().iter().filter(|line| !line.starts_with('{')).collect();
    let missing = || FirstError { message: "the package has no program".to_owned(), ..FirstError::default() };
    let plain: Vec<&str> = talk.iter().map(|line| line.as_str()).collect();
    let undefined = super::modules::undefined(&plain);
    if !undefined.is_empty()
        && let Some((symbol, module, more)) =
            Reachable::of(job.host, manifest)?.out_of_reach(undefined.iter().map(String::as_str))
    {
        return Err(BuildError::ModuleCalled { symbol, module, caller: binary.package.to_string(), more });
    }
    let error = if output.success() { missing() } else { first_error(&talk).unwrap_or_else(missing) };
    let causes = job.causes(&log);
    let log = log.path().to_string();
    Err(BuildError::Binary { package: binary.package.to_string(), error: Box::new(error), causes, log })
}

/// Whether a package is inside the project of a build root. `package = "../program"` is not, although its joined path starts
/// with the project's folder.
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

/// The path in cargo's message about a program that it built.
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
    let env = host.env().iter().filter(|(name, _)| matters(name)).collect::<Vec<_>>();
    let trees: Vec<_> = manifest.trees.iter().map(|tree| (&tree.key, &tree.files, &tree.link)).collect();
    // Folders of an environment stand in the program.
    let (folders, _) = crate::environment::search_path(host, root);
    let parts = (binary, env, &manifest.backends, trees, folders, env!("CARGO_PKG_VERSION"));
    sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
}

/// Variables that change what cargo builds, without those that cargo itself sets for the programs that it starts.
fn matters(name: &str) -> bool {
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

/// Everything that went into the program: what cargo lists beside it, every file of the package, and the files that steer
/// cargo. `None` if there is no such list, or a whole folder stands in it.
fn inputs(
    host: &dyn ReadFiles,
    binary: &PlannedBinary,
    executable: &HostPath,
    manifest: &Manifest,
) -> Option<FileSnapshot> {
    const STEERING: [&str; 6] = [
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
    // What is below the package is looked at in any case; of a whole folder elsewhere nothing is known.
    let elsewhere = |path: &String| !host.path(path).is_inside(&binary.package);
    if paths.iter().any(|path| elsewhere(path) && host.is_dir(&host.path(path))) {
        return None;
    }
    let mut folder = Some(binary.package.clone());
    while let Some(here) = folder {
        paths.extend(STEERING.iter().map(|name| here.join(name).to_string()));
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

/// Whether nothing that went in changed, and no file came to the package.
fn is_current(host: &dyn ReadFiles, binary: &PlannedBinary, inputs: &FileSnapshot) -> bool {
    files::unchanged(host, inputs)
        && package_files(host, binary).is_some_and(|now| now.keys().all(|path| inputs.contains_key(path)))
}

/// The prerequisites of the one rule in a depfile; blanks in names are escaped.
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
    fn depfiles_of_cargo_are_read() {
        let text = "/t/release/infer: /p/src/main.rs /p/a\\ b.rs C:\\x\\y.rs\n\n/p/src/main.rs:\n";
        assert_eq!(parse_depfile(text).unwrap(), ["/p/src/main.rs", "/p/a b.rs", "C:\\x\\y.rs"]);
        assert_eq!(parse_depfile(""), None);
    }

    #[test]
    fn a_package_beside_the_project_has_to_be_told_the_manifest() {
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
    fn only_programs_count() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/infer","fresh":false}"#;
        assert_eq!(executable(line).as_deref(), Some("/t/infer"));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable("Compiling"), None);
    }
}
