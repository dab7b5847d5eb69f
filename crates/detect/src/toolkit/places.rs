//! Helpers for finding programs and files on a host.

use std::io;

use gpubuild_host::search::find_program_in;
pub use gpubuild_host::search::glob as expand;
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles};

/// The absolute folders on PATH, in order, without duplicates.
pub fn path_folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    host.search_folders(host.env().get("PATH").unwrap_or_default()).to_vec()
}

/// Finds all programs with a name in these folders, in order.
pub fn programs(host: &dyn ReadFiles, folders: &[HostPath], name: &str) -> Vec<HostPath> {
    if host.platform().os == Os::Windows {
        let list = folders.iter().map(HostPath::as_str).collect::<Vec<_>>().join(";");
        return find_program_in(host, name, &list);
    }
    // On other systems, a program has the same file name in every folder. Every run searches about forty programs.
    let program =
        |path: &HostPath| host.stat(path).is_ok_and(|stat| stat.kind == FileKind::File && stat.executable);
    folders.iter().map(|folder| folder.join(name)).filter(program).collect()
}

/// The ancestor `folders` levels above a path, or the root if there are fewer levels.
#[must_use]
pub fn go_up(path: &HostPath, folders: usize) -> HostPath {
    (0..folders).fold(path.clone(), |path, _| path.parent().unwrap_or(path))
}

/// Reads the first 64 KiB of a text file. Toolkit files contain their version near the start.
pub fn read_head(host: &dyn ReadFiles, path: &HostPath) -> io::Result<String> {
    const LIMIT: usize = 64 * 1024;
    Ok(text(host.read_start(path, LIMIT)?))
}

/// Converts bytes to text. Invalid UTF-8 is replaced.
fn text(bytes: Vec<u8>) -> String {
    // Avoids a copy for valid UTF-8, the usual case.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
