//! Licence files of a project and its sources.

use gpubuild_host::{HostPath, ReadFiles};

use super::ExportedFile;

/// The first letters of licence file names, in lower case.
const PREFIXES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Whether a file has the name of a licence.
#[must_use]
pub fn is_licence(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_source = name.rsplit('.').next() == Some("rs");
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !is_source
}

/// The licence files in these folders, each of which has a name in the export.
pub(super) fn of(host: &dyn ReadFiles, folders: &[(&str, &HostPath)]) -> Vec<ExportedFile> {
    let mut found: Vec<ExportedFile> = Vec::new();
    for (name, folder) in folders {
        let mut files = host.list(folder).unwrap_or_default();
        files.retain(|file| is_licence(file) && host.is_file(&folder.join(file)));
        for file in files {
            let to = format!("share/licences/{name}/{file}");
            if !found.iter().any(|one| one.to.eq_ignore_ascii_case(&to)) {
                found.push(ExportedFile { from: folder.join(&file), to });
            }
        }
    }
    found
}
