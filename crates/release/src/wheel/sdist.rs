//! The source distribution of a project (PEP 625): a compressed archive of its sources and `PKG-INFO`.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use gpubuild_exec::store::sha256;
use gpubuild_host::{HostPath, InspectHost, LIBRARY_LIMIT, ReadFiles};
use gpubuild_plan::project::RuntimeWheels;
use tar::{Builder, EntryType, Header};

use super::info::{EXTRA, own_licences, readme};
use super::project::{AddedMetadata, PythonProject};
use super::walk::FolderWalk;
use super::{WheelError, WrittenSdist};
use crate::pack::{PackError, check_link};
use crate::unpack::names::Names;

/// The time limit for `git ls-files`.
const DEADLINE: Duration = Duration::from_secs(60);
/// Folders that contain no sources.
const GENERATED: [&str; 5] = ["__pycache__", "build", "dist", "node_modules", "target"];

/// Packs the sources in a folder. `out` is the folder of the archive, which is not part of it.
///
/// # Errors
/// A file cannot be read, or its path is not valid on every platform.
pub fn pack(
    host: &dyn InspectHost,
    root: &HostPath,
    (project, runtime): (&PythonProject, RuntimeWheels),
    out: &HostPath,
) -> Result<(WrittenSdist, Vec<u8>), WheelError> {
    let stem = project.file_stem(None);
    let sources = sources(host, root, out)?;
    let added = AddedMetadata {
        licences: own_licences(host, root, project)?.into_keys().collect(),
        readme: readme(host, root, project)?,
        extra: (runtime == RuntimeWheels::Extra).then(|| (EXTRA, Vec::new())),
        // The libraries that a build links are not known yet.
        dynamic: &["Requires-Dist"],
        ..AddedMetadata::default()
    };
    let mut names = Names::default();
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let failed = |error: io::Error| WheelError::from(PackError::Other(error.to_string()));
    append(&mut archive, &format!("{stem}/PKG-INFO"), project.metadata(&added).as_bytes(), false)
        .map_err(failed)?;
    for (path, from) in &sources {
        let name = format!("{stem}/{path}");
        names.add(&name).map_err(|unfit| PackError::Name {
            path: name.clone(),
            from: from.to_string(),
            unfit,
        })?;
        let io = |error: io::Error| PackError::io("read", from, &error);
        let data = host.read_up_to(from, LIBRARY_LIMIT).map_err(io)?;
        let executable = host.stat(from).map_err(io)?.executable;
        append(&mut archive, &name, &data, executable).map_err(failed)?;
    }
    let bytes = archive.into_inner().and_then(finish).map_err(failed)?;
    let written = WrittenSdist {
        file: format!("{stem}.tar.gz"),
        files: sources.len(),
        bytes: bytes.len() as u64,
        sha256: sha256(&bytes),
    };
    Ok((written, bytes))
}

fn finish(mut encoder: GzEncoder<Vec<u8>>) -> io::Result<Vec<u8>> {
    encoder.flush()?;
    encoder.finish()
}

fn append<W: io::Write>(
    archive: &mut Builder<W>,
    path: &str,
    data: &[u8],
    executable: bool,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(data.len() as u64);
    archive.append_data(&mut header, path, data)
}

/// The sources by path in the project: what git tracks or does not ignore, else all files that are neither hidden nor generated.
fn sources(
    host: &dyn InspectHost,
    root: &HostPath,
    out: &HostPath,
) -> Result<BTreeMap<String, HostPath>, WheelError> {
    let skips = |folder: &HostPath, name: &str| is_left_out(host, folder, name);
    let mut walk = FolderWalk::new(host, &skips);
    match of_git(host, root) {
        None => walk.add(root, "")?,
        Some(paths) => {
            for path in paths {
                let from = root.join(&path);
                if host.is_file(&from) {
                    walk.files.insert(path, from);
                } else if host.is_dir(&from) {
                    // A submodule.
                    walk.add(&from, &path)?;
                }
            }
        }
    }
    let mut files = walk.files;
    files.retain(|path, from| {
        !path.starts_with(".gpubuild/")
            && path != "PKG-INFO"
            && (out.key() == root.key() || !from.is_inside(out))
    });
    for from in files.values() {
        check_link(host, root, from)?;
    }
    Ok(files)
}

/// The files that git tracks, and new ones that it does not ignore; `None` without git, or outside of a repository.
fn of_git(host: &dyn InspectHost, root: &HostPath) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let command = crate::git::command(root, DEADLINE, &arguments);
    let output = host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
    let paths: Vec<String> = output
        .stdout
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect();
    (!paths.is_empty()).then_some(paths)
}

/// Whether a file is hidden or generated.
fn is_left_out(host: &dyn ReadFiles, folder: &HostPath, name: &str) -> bool {
    name.starts_with('.')
        || GENERATED.contains(&name)
        || name.ends_with(".egg-info")
        || host.is_file(&folder.join(name).join("pyvenv.cfg"))
}
