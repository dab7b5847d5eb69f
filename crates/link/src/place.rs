//! Shared libraries of a program: beside it, and in an environment that `gpubuild venv` made.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{self, Variables};
use crate::manifest::{Cargo, strings};

/// What `gpubuild venv` made for a project.
#[derive(Default)]
pub(crate) struct Environment {
    /// Its record, if it exists.
    pub(crate) record: Option<PathBuf>,
    /// Folders with libraries, for the search path of the program.
    pub(crate) folders: Vec<String>,
    /// Why the folders cannot be used.
    pub(crate) warning: Option<String>,
}

/// The environment of the project with this manifest.
pub(crate) fn environment(manifest: &Path) -> Environment {
    let path = manifest.with_file_name("venv.json");
    // Cargo takes a file that is absent for changed, each time. Who makes this one writes the manifest again.
    if !cfg!(target_os = "linux") || !files::is_file(&path) {
        return Environment::default();
    }
    let record = files::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let record = record.filter(|record| record["schema"] == 1);
    let mut folders = record.and_then(|record| strings(&record["folders"])).unwrap_or_default();
    let gone = folders.iter().find(|folder| !files::is_folder(Path::new(folder)));
    let unfit = folders.iter().find(|folder| folder.contains([':', ';', '$', '\n', '\0']));
    let warning = match (gone, unfit) {
        (Some(folder), _) => Some(format!("`{folder}` is gone: run `gpubuild venv` again")),
        (None, Some(folder)) => {
            Some(format!("`{folder}` can't stand in a program: loaders split it at `:` and replace `$`"))
        }
        (None, None) => None,
    };
    if warning.is_some() {
        folders.clear();
    } else if !folders.is_empty() {
        // Libraries beside the program win, so that a packed one needs no environment.
        folders.insert(0, "$ORIGIN".to_owned());
    }
    Environment { record: Some(path), folders, warning }
}

/// Puts shared libraries and modules where cargo puts the programs and tests of this package. Whether it is known where.
pub(crate) fn beside_program(project: &str, cargo: &Cargo, variables: &Variables) -> io::Result<bool> {
    let folders = variables.get("OUT_DIR").map(|out| cargo_folders(Path::new(out))).unwrap_or_default();
    for folder in &folders {
        fill(folder, project, &cargo.beside)?;
    }
    Ok(!folders.is_empty())
}

/// Puts files into a folder, and removes what an earlier run put there and is not needed any more: a module that lies about
/// would be opened.
fn fill(folder: &Path, project: &str, beside: &[(PathBuf, String)]) -> io::Result<()> {
    let record = folder.join(format!(".gpubuild-{project}.json"));
    let read = files::read(&record).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let before = read.and_then(|value| strings(&value["names"])).unwrap_or_default();
    if beside.is_empty() && before.is_empty() {
        return Ok(());
    }
    let mut names: Vec<&str> = beside.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    for name in before.iter().filter(|name| !names.contains(&name.as_str())) {
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

/// The folders in which cargo puts programs and tests of the package whose build script runs: those above `OUT_DIR`.
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
    fn programs_of_cargo_lie_in_three_folders() {
        let folders = cargo_folders(Path::new("/p/target/debug/build/x-0123/out"));
        let expected =
            ["/p/target/debug/deps", "/p/target/debug/examples", "/p/target/debug"].map(PathBuf::from);
        assert_eq!(folders, expected);
        assert!(cargo_folders(Path::new("/elsewhere")).is_empty());
    }

    #[test]
    fn what_is_not_needed_any_more_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built.so");
        files::write(&built, b"1").unwrap();
        let program = folder.path().join("deps");
        let beside = [(built.clone(), "a/one.so".to_owned()), (built, "two.so".to_owned())];
        fill(&program, "x", &beside).unwrap();
        assert!(files::is_file(&program.join("a/one.so")) && files::is_file(&program.join("two.so")));
        fill(&program, "x", &beside[1..]).unwrap();
        assert!(!files::is_file(&program.join("a/one.so")) && files::is_file(&program.join("two.so")));
    }
}
