//! Verifies an installation: the hash of every file, the links, and that the compiler runs.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_exec::store;
use gpubuild_host::{HostPath, InspectHost, ReadFiles};
use gpubuild_plan::packages;
use gpubuild_plan::wheels::PinnedWheel;
use serde::Serialize;

use super::files;
use super::install::runs;
use super::kit;
use super::prefix;
use super::record;
use super::state::Prefix;

/// A problem of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrefixProblem {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// Affected file.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of files whose hashes were compared.
    pub files: u64,
    /// Problems, in the order of the wheels.
    pub problems: Vec<PrefixProblem>,
}

/// Verifies an installation. Reads every file.
#[must_use]
pub fn verify(host: &dyn InspectHost, installation: &Prefix) -> Verification {
    if !installation.record.packages.is_empty() {
        return of_packages(host, installation);
    }
    let mut result = Verification::default();
    let Some(kit) = kit::embedded().kits.get(&installation.record.toolkit) else { return result };
    if !kit.inner.is_empty() || installation.record.wheels.iter().any(PinnedWheel::is_archive) {
        hashed_files(host, installation, &mut result);
        compiler(host, installation, &kit.verify, &mut result);
        return result;
    }
    for wheel in &installation.record.wheels {
        wheel_files(host, installation, wheel, &kit.trees, &mut result);
    }
    for (name, to) in prefix::links(host, kit, &installation.root) {
        let path = installation.root.join(&name);
        if host.read_link(&path).ok().as_deref() != Some(to.as_str()) {
            result.problem(id!("toolkit.link-wrong"), &path, &format!("is not a link to `{to}`"));
        }
    }
    let stub = kit.stub.as_ref().filter(|_| installation.record.stub);
    if let Some(stub) = stub
        && !host.is_file(&installation.root.join(&stub.library))
    {
        result.problem(id!("toolkit.file-missing"), &installation.root.join(&stub.library), "is missing");
    }
    if let Some(file) = &kit.version_file
        && !host.is_file(&installation.root.join(&file.path))
    {
        result.problem(id!("toolkit.file-missing"), &installation.root.join(&file.path), "is missing");
    }
    compiler(host, installation, &kit.verify, &mut result);
    result
}

/// Runs the compiler.
fn compiler(host: &dyn InspectHost, installation: &Prefix, verify: &[String], result: &mut Verification) {
    if let Err(message) = runs(host, verify, &installation.root) {
        let program = verify.first().map_or("", String::as_str);
        let path = installation.root.join(&kit::on(program, host.platform().os));
        result.problem(id!("toolkit.does-not-run"), &path, &message);
    }
}

impl Verification {
    fn problem(&mut self, id: DiagnosticId, path: &HostPath, message: &str) {
        self.problems.push(PrefixProblem { id, path: path.to_string(), message: message.to_owned() });
    }
}

/// Verifies an installation from packages.
fn of_packages(host: &dyn InspectHost, installation: &Prefix) -> Verification {
    let mut result = Verification::default();
    hashed_files(host, installation, &mut result);
    let command = packages::set_of(&installation.record.toolkit).map(|set| set.verify.as_slice());
    compiler(host, installation, command.unwrap_or_default(), &mut result);
    result
}

/// Compares the files of an installation with the hashes in its folder.
fn hashed_files(host: &dyn InspectHost, installation: &Prefix, result: &mut Verification) {
    let list = installation.folder.join(files::FILES);
    let Some(recorded) = store::read_json::<files::PrefixFiles>(host, &list) else {
        result.problem(id!("toolkit.file-missing"), &list, "is missing or damaged");
        return;
    };
    for (path, expected) in &recorded.files {
        result.files += 1;
        let full = installation.root.join(path);
        match store::hash_file(host, &full) {
            Ok((found, _)) if found == *expected => {}
            Ok(_) => result.problem(id!("toolkit.file-changed"), &full, "was changed after the installation"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                result.problem(id!("toolkit.file-missing"), &full, "is missing");
            }
            Err(error) => result.problem(id!("toolkit.file-unreadable"), &full, &error.to_string()),
        }
    }
    for (path, target) in &recorded.links {
        let full = installation.root.join(path);
        if host.read_link(&full).ok().as_deref() != Some(target.as_str()) {
            result.problem(id!("toolkit.link-wrong"), &full, &format!("is not a link to `{target}`"));
        }
    }
}

fn wheel_files(
    host: &dyn ReadFiles,
    installation: &Prefix,
    wheel: &PinnedWheel,
    trees: &[String],
    result: &mut Verification,
) {
    let folder = installation.wheel(wheel);
    let Some(list) = record::path(host, &folder) else {
        result.problem(id!("toolkit.file-missing"), &folder, "does not contain a wheel");
        return;
    };
    let Ok(text) = host.read_text(&list) else {
        result.problem(id!("toolkit.file-missing"), &list, "is missing");
        return;
    };
    for (path, hash) in record::files(&text) {
        result.files += 1;
        let original = folder.join(path);
        compare(host, &original, hash, result);
        let inside = record::in_toolkit(trees, path).filter(|inside| !inside.starts_with('.'));
        let used = inside.map(|inside| installation.root.join(inside));
        if let Some(used) = used.filter(|used| !host.is_same_file(&original, used)) {
            compare(host, &used, hash, result);
        }
    }
}

fn compare(host: &dyn ReadFiles, path: &HostPath, expected: &str, result: &mut Verification) {
    match record::hash(host, path) {
        Ok(found) if found == expected => {}
        Ok(_) => result.problem(id!("toolkit.file-changed"), path, "was changed after the installation"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            result.problem(id!("toolkit.file-missing"), path, "is missing");
        }
        Err(error) => result.problem(id!("toolkit.file-unreadable"), path, &error.to_string()),
    }
}
