//! Verifies an installation: the hash of every file, the links, and that the compiler runs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_exec::store;
use gpubuild_host::{HostPath, InspectHost, ReadFiles};
use gpubuild_plan::packages;
use gpubuild_plan::wheels::PinnedWheel;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::files;
use super::install::runs;
use super::kit;
use super::prefix;
use super::state::Prefix;

/// Bytes per read.
const CHUNK_SIZE: usize = 4 << 20;

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
    let infos = host.list_matching(&folder, "*.dist-info").unwrap_or_default();
    let Some(record) = infos.first().map(|info| folder.join(info).join("RECORD")) else {
        result.problem(id!("toolkit.file-missing"), &folder, "does not contain a wheel");
        return;
    };
    let Ok(text) = host.read_text(&record) else {
        result.problem(id!("toolkit.file-missing"), &record, "is missing");
        return;
    };
    // Installers put console scripts outside the wheel.
    for (path, hash) in recorded(&text).filter(|(path, _)| !path.split('/').any(|part| part == "..")) {
        result.files += 1;
        let original = folder.join(path);
        compare(host, &original, hash, result);
        let inside = trees.iter().find_map(|tree| path.strip_prefix(tree.as_str())?.strip_prefix('/'));
        let used =
            inside.filter(|inside| !inside.starts_with('.')).map(|inside| installation.root.join(inside));
        // The first of several wheels with the same file counts.
        let is_of_wheel = |used: &HostPath| {
            let mut wheels = installation.record.wheels.iter();
            wheels.any(|one| host.is_same_file(&installation.wheel(one).join(path), used))
        };
        if let Some(used) = used.filter(|used| !host.is_same_file(&original, used) && !is_of_wheel(used)) {
            compare(host, &used, hash, result);
        }
    }
}

/// The files in a wheel's RECORD with their hashes: `path,sha256=HASH,SIZE` (PEP 376, 427).
fn recorded(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (rest, _size) = line.rsplit_once(',')?;
        let (path, hash) = rest.rsplit_once(',')?;
        Some((path.trim_matches('"'), hash.strip_prefix("sha256=")?))
    })
}

fn compare(host: &dyn ReadFiles, path: &HostPath, expected: &str, result: &mut Verification) {
    match hash(host, path) {
        Ok(found) if found == expected => {}
        Ok(_) => result.problem(id!("toolkit.file-changed"), path, "was changed after the installation"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            result.problem(id!("toolkit.file-missing"), path, "is missing");
        }
        Err(error) => result.problem(id!("toolkit.file-unreadable"), path, &error.to_string()),
    }
}

/// The sha256 of a file in the encoding of RECORD.
fn hash(host: &dyn ReadFiles, path: &HostPath) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut start = 0_u64;
    loop {
        let chunk = host.read_part(path, start, CHUNK_SIZE)?;
        hasher.update(&chunk);
        start += chunk.len() as u64;
        if chunk.len() < CHUNK_SIZE {
            return Ok(URL_SAFE_NO_PAD.encode(hasher.finalize()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_records_are_parsed() {
        let text = "nvidia/cu13/bin/nvcc,sha256=AbC_-9,12\n\"a,b\",sha256=X,1\nx.dist-info/RECORD,,\n";
        let files: Vec<_> = recorded(text).collect();
        assert_eq!(files, [("nvidia/cu13/bin/nvcc", "AbC_-9"), ("a,b", "X")]);
    }
}
