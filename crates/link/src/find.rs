//! Finds the manifest.

use std::path::{Component, Path, PathBuf};

use crate::files::{self, Variables};

/// The environment variable with the path of a manifest.
pub(crate) const VARIABLE: &str = "GPUBUILD_MANIFEST";

/// The variable with folders whose projects are used, whatever their owner.
const SAFE_FOLDERS: &str = "GPUBUILD_SAFE_DIRECTORY";

/// A project's configuration file.
const PROJECT: &str = "gpubuild.toml";

/// The result of the search for the manifest.
pub(crate) enum FoundManifest {
    /// The expected path, whether or not the file exists.
    At(PathBuf),
    /// Neither the variable nor a project file exists.
    NoProject,
    /// The project file cannot be read or has no name.
    Unreadable { path: PathBuf, message: String },
}

pub(crate) fn manifest(variables: &Variables) -> FoundManifest {
    if let Some(path) = variables.get(VARIABLE) {
        return FoundManifest::At(path.into());
    }
    let start = variables.get("CARGO_MANIFEST_DIR").map(PathBuf::from).or_else(files::current_folder);
    let folders = start.as_deref().into_iter().flat_map(Path::ancestors);
    let Some(root) = folders.into_iter().find(|folder| files::is_file(&folder.join(PROJECT))) else {
        return FoundManifest::NoProject;
    };
    let path = root.join(PROJECT);
    if let Some(message) = start.as_deref().and_then(|start| foreign(variables, start, root)) {
        return FoundManifest::Unreadable { path, message };
    }
    let text = files::read_text(&path).map_err(|error| error.to_string());
    match text.and_then(|text| name(&text)) {
        Ok(name) => {
            let builds =
                if files::is_file(&root.join("Cargo.toml")) { "target/gpubuild" } else { ".gpubuild" };
            FoundManifest::At(root.join(builds).join(name).join("manifest.json"))
        }
        Err(message) => FoundManifest::Unreadable { path, message },
    }
}

/// Why the project in a folder above the package is not used: another user of the machine may have left it there. The command has the
/// same rule.
fn foreign(variables: &Variables, package: &Path, root: &Path) -> Option<String> {
    let own = files::owner(package)?;
    let others = [root.to_owned(), root.join(PROJECT)];
    let owner =
        others.iter().filter_map(|path| files::owner(path)).find(|owner| *owner != own && *owner != 0)?;
    let allowed = variables.get(SAFE_FOLDERS).unwrap_or_default();
    let is_allowed = |folder: PathBuf| folder == *root || folder == *"*";
    (root != package && !std::env::split_paths(allowed).any(is_allowed)).then(|| {
        format!(
            "it belongs to another user ({owner}) than this package ({own}): to use it, set {SAFE_FOLDERS} to `{}`",
            root.display()
        )
    })
}

/// The project's name in the text of its file.
fn name(text: &str) -> Result<String, String> {
    let file = toml_span::parse(text).map_err(|error| error.to_string())?;
    let name = file.pointer("/project/name").and_then(|name| name.as_str());
    let name = name.ok_or_else(|| "`project.name` is missing".to_owned())?;
    if is_below(name) { Ok(name.to_owned()) } else { Err(format!("`{name}` is not a valid `project.name`")) }
}

/// Whether a name from a file is a path that does not leave the folder to which it is joined.
pub(crate) fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn projects_of_other_users_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("package");
        files::write(&package.join("build.rs"), b"").unwrap();
        files::write(&folder.path().join(PROJECT), b"project.name = 'x'").unwrap();
        let variables = |safe: &str| {
            let values = [("CARGO_MANIFEST_DIR", package.to_str().unwrap()), (SAFE_FOLDERS, safe)];
            Variables::new(values.map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        assert!(matches!(manifest(&variables("")), FoundManifest::At(_)));
        // Only root can give files away.
        if std::os::unix::fs::chown(folder.path().join(PROJECT), Some(12345), None).is_err() {
            return;
        }
        let FoundManifest::Unreadable { message, .. } = manifest(&variables("")) else {
            panic!("it is used")
        };
        assert!(message.contains("another user (12345)") && message.contains(SAFE_FOLDERS), "{message}");
        assert!(matches!(manifest(&variables(folder.path().to_str().unwrap())), FoundManifest::At(_)));
    }

    #[test]
    fn the_name_is_read_in_all_toml_spellings() {
        for text in
            ["[project]\nname = \"x\"", "project.name = 'x'", "schema = 1\nproject = { name = \"x\" } # y"]
        {
            assert_eq!(name(text).as_deref(), Ok("x"), "{text}");
        }
        assert_eq!(name("[project]").unwrap_err(), "`project.name` is missing");
        assert!(name("[project").is_err());
        for unsafe_name in ["", "../x", "/x", "a/../../b"] {
            assert!(name(&format!("project.name = '{unsafe_name}'")).is_err(), "{unsafe_name}");
        }
    }
}
