//! Shared libraries of a program: beside it, or in an environment from `gpubuild venv`.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{self, Variables};
use crate::find::is_below;
use crate::manifest::{Cargo, strings};

/// The environment that `gpubuild venv` made for a project.
#[derive(Default)]
pub(crate) struct CargoEnvironment {
    /// The path of its record, if the file exists.
    pub(crate) record: Option<PathBuf>,
    /// Folders with libraries, for the program's run-time search path.
    pub(crate) folders: Vec<String>,
    /// Why the folders cannot be used.
    pub(crate) warning: Option<String>,
}

/// The environment of the project with this manifest; empty if the record is missing.
pub(crate) fn environment(manifest: &Path) -> CargoEnvironment {
    let path = manifest.with_file_name("venv.json");
    // Cargo treats a missing file as changed on every run. `gpubuild venv` also rewrites the manifest, which is watched.
    if !cfg!(target_os = "linux") || !files::is_file(&path) {
        return CargoEnvironment::default();
    }
    let record = files::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let record = record.filter(|record| record["schema"] == 1);
    let mut folders = record.and_then(|record| strings(&record["folders"])).unwrap_or_default();
    let gone = folders.iter().find(|folder| !files::is_folder(Path::new(folder)));
    let unfit = folders.iter().find(|folder| folder.contains([':', ';', '$', '\n', '\0']));
    let warning = match (gone, unfit) {
        (Some(folder), _) => Some(format!("`{folder}` does not exist: run `gpubuild venv` again")),
        (None, Some(folder)) => Some(format!(
            "`{folder}` cannot be in a library search path: loaders split it at `:` and replace `$`"
        )),
        (None, None) => None,
    };
    if warning.is_some() {
        folders.clear();
    } else if !folders.is_empty() {
        // Libraries beside the program come first, so that a packed program needs no environment.
        folders.insert(0, "$ORIGIN".to_owned());
    }
    CargoEnvironment { record: Some(path), folders, warning }
}

/// Copies shared libraries and modules to the folders of this package's programs and tests. `false` if those are unknown.
pub(crate) fn beside_program(project: &str, cargo: &Cargo, variables: &Variables) -> io::Result<bool> {
    let folders = variables.get("OUT_DIR").map(|out| cargo_folders(Path::new(out))).unwrap_or_default();
    for folder in &folders {
        fill(folder, project, &cargo.beside)?;
    }
    Ok(!folders.is_empty())
}

/// Adds files to a folder and removes files that an earlier run added and that are no longer needed: the program would open a
/// leftover module.
fn fill(folder: &Path, project: &str, beside: &[(PathBuf, String)]) -> io::Result<()> {
    let record = folder.join(format!(".gpubuild-{project}.json"));
    let read = files::read(&record).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let before = read.and_then(|value| strings(&value["names"])).unwrap_or_default();
    if beside.is_empty() && before.is_empty() {
        return Ok(());
    }
    if let Some((_, name)) = beside.iter().find(|(_, name)| !is_below(name)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{name}` is not a name of a file")));
    }
    let mut names: Vec<&str> = beside.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    for name in before.iter().filter(|name| is_below(name) && !names.contains(&name.as_str())) {
        files::remove(&folder.join(name))?;
    }
    for (from, name) in beside {
        let to = folder.join(name);
        if !files::is_same(from, &to) {
            files::remove(&to)?;
            files::link(from, &to)?;
        }
    }
    files::write(&record, json!({ "names": names }).to_string().as_bytes())
}

/// The folders of the package's programs and tests, derived from the `OUT_DIR` of its build script.
fn cargo_folders(out: &Path) -> Vec<PathBuf> {
    // <target>/<profile>/build/<package>-<hash>/out
    let Some(build) = out.ancestors().nth(2).filter(|folder| folder.ends_with("build")) else {
        return Vec::new();
    };
    build
        .parent()
        .map(|profile| vec![profile.join("deps"), profile.join("examples"), profile.into()])
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_programs_are_in_three_folders() {
        let folders = cargo_folders(Path::new("/p/target/debug/build/x-0123/out"));
        let expected =
            ["/p/target/debug/deps", "/p/target/debug/examples", "/p/target/debug"].map(PathBuf::from);
        assert_eq!(folders, expected);
        assert!(cargo_folders(Path::new("/elsewhere")).is_empty());
    }

    #[test]
    fn obsolete_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built.so");
        files::write(&built, b"1").unwrap();
        let program = folder.path().join("deps");
        let beside = [(built.clone(), "a/one.so".to_owned()), (built, "two.so".to_owned())];
        fill(&program, "x", &beside).unwrap();
        assert!(files::is_file(&program.join("a/one.so")) && files::is_file(&program.join("two.so")));
        fill(&program, "x", &beside[1..]).unwrap();
        assert!(!files::is_file(&program.join("a/one.so")) && files::is_file(&program.join("two.so")));
        let outside = [(beside[1].0.clone(), "../outside.so".to_owned())];
        assert!(fill(&program, "x", &outside).is_err());
    }
}
