//! Finds the manifest.

use std::path::{Path, PathBuf};

use crate::files::{self, Variables};

/// The environment variable with the path of a manifest.
pub(crate) const VARIABLE: &str = "GPUBUILD_MANIFEST";

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

/// The project's name in the text of its file.
fn name(text: &str) -> Result<String, String> {
    let file = toml_span::parse(text).map_err(|error| error.to_string())?;
    let name = file.pointer("/project/name").and_then(|name| name.as_str());
    name.map(str::to_owned).ok_or_else(|| "`project.name` is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn the_name_is_read_in_all_toml_spellings() {
        for text in
            ["[project]\nname = \"x\"", "project.name = 'x'", "schema = 1\nproject = { name = \"x\" } # y"]
        {
            assert_eq!(name(text).as_deref(), Ok("x"), "{text}");
        }
        assert_eq!(name("[project]").unwrap_err(), "`project.name` is missing");
        assert!(name("[project").is_err());
    }
}
