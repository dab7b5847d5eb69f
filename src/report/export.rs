//! The document of `gpubuild export`, and its text.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::export::{Export, ExportedFile};
use gpubuild_host::HostPath;
use serde::Serialize;

use super::Schema;

/// The document of `export --json`. The keys of what was not requested are left out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportReport<'a> {
    schema: Schema,
    /// The folder with the libraries.
    #[serde(flatten)]
    folder: Option<ExportedFolder<'a>>,
    /// The compile commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_commands: Option<ExportedCommands>,
    /// The presets for CMake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presets: Option<ExportedPresets>,
}

/// A folder with libraries. Paths are relative to `prefix`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExportedFolder<'a> {
    /// The folder.
    prefix: String,
    /// The libraries, and links to them for the linker.
    libraries: Vec<&'a str>,
    /// The headers.
    headers: Vec<&'a str>,
    /// The licence files of the project and of its sources.
    licences: Vec<&'a str>,
    /// Include folders outside of the project that programs need as well.
    external_includes: &'a [String],
    /// The file for pkg-config.
    pkg_config: &'a str,
    /// The CMake package.
    cmake: &'a str,
}

/// A written `compile_commands.json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportedCommands {
    /// Its path.
    pub file: String,
    /// Number of sources in it.
    pub sources: usize,
}

/// A written file with presets for CMake.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportedPresets {
    /// Its path.
    pub file: String,
    /// Names of the presets.
    pub names: Vec<String>,
}

impl Default for ExportReport<'_> {
    fn default() -> Self {
        let schema = Schema { name: "export", version: 1 };
        Self { schema, folder: None, compile_commands: None, presets: None }
    }
}

impl<'a> ExportReport<'a> {
    /// Adds a folder with libraries.
    pub fn add_folder(&mut self, export: &'a Export, to: &HostPath) {
        let path = |file: &'a ExportedFile| file.to.as_str();
        let mut libraries: Vec<&str> = export.libraries.iter().map(path).collect();
        libraries.extend(export.links.keys().map(String::as_str));
        libraries.sort_indirect();
        self.folder = Some(ExportedFolder {
            prefix: to.to_string(),
            libraries,
            headers: export.headers.iter().map(path).collect(),
            licences: export.licences.iter().map(path).collect(),
            external_includes: &export.external,
            pkg_config: &export.pkg_config.0,
            cmake: &export.cmake.0,
        });
    }

    /// The folder, then each library, the number of headers, and the two files for build systems; then the other files.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = self.folder.as_ref().map(ExportedFolder::lines).unwrap_or_default();
        if let Some(ExportedCommands { file, sources }) = &self.compile_commands {
            let plural = if *sources == 1 { "" } else { "s" };
            lines.push(format!("{file} ({sources} source{plural})"));
        }
        if let Some(ExportedPresets { file, names }) = &self.presets {
            lines.push(file.clone());
            lines.extend(names.iter().map(|name| format!("  {name}")));
        }
        lines.join("\n")
    }
}

impl ExportedFolder<'_> {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.prefix.clone()];
        lines.extend(self.libraries.iter().map(|library| format!("  {library}")));
        match self.headers.as_slice() {
            [] => {}
            [one] => lines.push(format!("  {one}")),
            more => lines.push(format!("  include ({} headers)", more.len())),
        }
        lines.extend(self.licences.iter().map(|licence| format!("  {licence}")));
        lines.push(format!("  {}", self.pkg_config));
        lines.push(format!("  {}", self.cmake));
        lines
    }
}
