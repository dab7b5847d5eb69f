//! Whether an installation is what was installed: every file by its sum, the links, and that the compiler runs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_host::{HostPath, InspectHost, ReadFiles};
use gpubuild_plan::wheels::PinnedWheel;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::install::runs;
use super::kit;
use super::prefix;
use super::state::Prefix;

/// Bytes that are read at once.
const PIECE: usize = 4 << 20;

/// What is wrong with a place of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefixProblem {
    /// Stable id.
    pub id: DiagnosticId,
    /// The file.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// What was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Files whose sums were compared.
    pub files: u64,
    /// What is wrong, in the order of the wheels.
    pub problems: Vec<PrefixProblem>,
}

/// Looks at every file.
#[must_use]
pub fn verify(host: &dyn InspectHost, installation: &Prefix) -> Verification {
    let mut seen = Verification::default();
    let Some(kit) = kit::embedded().kits.get(&installation.record.toolkit) else { return seen };
    for wheel in &installation.record.wheels {
        wheel_files(host, installation, wheel, &kit.tree, &mut seen);
    }
    for (name, to) in prefix::links(host, kit, &installation.root) {
        let path = installation.root.join(&name);
        if host.read_link(&path).ok().as_deref() != Some(to.as_str()) {
            seen.problem(id!("toolkit.link-wrong"), &path, &format!("is no link to `{to}`"));
        }
    }
    let stub = kit.stub.as_ref().filter(|_| installation.record.stub);
    if let Some(stub) = stub
        && !host.is_file(&installation.root.join(&stub.library))
    {
        seen.problem(id!("toolkit.file-missing"), &installation.root.join(&stub.library), "is missing");
    }
    if let Some(file) = &kit.version_file
        && !host.is_file(&installation.root.join(&file.path))
    {
        seen.problem(id!("toolkit.file-missing"), &installation.root.join(&file.path), "is missing");
    }
    if let Err(message) = runs(host, kit, &installation.root) {
        let program = kit.verify.first().map_or("", String::as_str);
        let path = installation.root.join(&kit::on(program, host.platform().os));
        seen.problem(id!("toolkit.does-not-run"), &path, &message);
    }
    seen
}

impl Verification {
    fn problem(&mut self, id: DiagnosticId, path: &HostPath, message: &str) {
        self.problems.push(PrefixProblem { id, path: path.to_string(), message: message.to_owned() });
    }
}

fn wheel_files(
    host: &dyn ReadFiles,
    installation: &Prefix,
    wheel: &PinnedWheel,
    tree: &str,
    seen: &mut Verification,
) {
    let folder = installation.wheel(wheel);
    let infos = host.list_matching(&folder, "*.dist-info").unwrap_or_default();
    let Some(record) = infos.first().map(|info| folder.join(info).join("RECORD")) else {
        seen.problem(id!("toolkit.file-missing"), &folder, "holds no wheel");
        return;
    };
    let Ok(text) = host.read_text(&record) else {
        seen.problem(id!("toolkit.file-missing"), &record, "is missing");
        return;
    };
    for (path, sum) in recorded(&text) {
        seen.files += 1;
        let taken = folder.join(path);
        compare(host, &taken, sum, seen);
        let inside = path.strip_prefix(tree).and_then(|rest| rest.strip_prefix('/'));
        let used =
            inside.filter(|inside| !inside.starts_with('.')).map(|inside| installation.root.join(inside));
        if let Some(used) = used.filter(|used| !host.is_same_file(&taken, used)) {
            compare(host, &used, sum, seen);
        }
    }
}

/// The files of a wheel with their sums: `path,sha256=SUM,SIZE` (PEP 376, 427).
fn recorded(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (rest, _size) = line.rsplit_once(',')?;
        let (path, sum) = rest.rsplit_once(',')?;
        Some((path.trim_matches('"'), sum.strip_prefix("sha256=")?))
    })
}

fn compare(host: &dyn ReadFiles, path: &HostPath, expected: &str, seen: &mut Verification) {
    match sum(host, path) {
        Ok(sum) if sum == expected => {}
        Ok(_) => seen.problem(id!("toolkit.file-changed"), path, "is not what was installed"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            seen.problem(id!("toolkit.file-missing"), path, "is missing");
        }
        Err(error) => seen.problem(id!("toolkit.file-unreadable"), path, &error.to_string()),
    }
}

/// The sum of a file as wheels write it.
fn sum(host: &dyn ReadFiles, path: &HostPath) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut start = 0_u64;
    loop {
        let piece = host.read_part(path, start, PIECE)?;
        hasher.update(&piece);
        start += piece.len() as u64;
        if piece.len() < PIECE {
            return Ok(URL_SAFE_NO_PAD.encode(hasher.finalize()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_wheels_are_read() {
        let text = "nvidia/cu13/bin/nvcc,sha256=AbC_-9,12\n\"a,b\",sha256=X,1\nx.dist-info/RECORD,,\n";
        let files: Vec<_> = recorded(text).collect();
        assert_eq!(files, [("nvidia/cu13/bin/nvcc", "AbC_-9"), ("a,b", "X")]);
    }
}
