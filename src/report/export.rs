//! The document of `gpubuild export`, and its text.

use gpubuild_exec::export::{Export, ExportedFile};
use gpubuild_host::HostPath;
use serde::Serialize;

use super::Schema;

/// The document of `export --json`. Paths are relative to `prefix`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportReport<'a> {
    schema: Schema,
    /// The folder.
    prefix: String,
    /// The libraries, and links to them for the linker.
    libraries: Vec<&'a str>,
    /// The headers.
    headers: Vec<&'a str>,
    /// Include folders outside of the project that programs need as well.
    external_includes: &'a [String],
    /// The file for pkg-config.
    pkg_config: &'a str,
    /// The CMake package.
    cmake: &'a str,
}

impl<'a> ExportReport<'a> {
    /// The document of an export.
    #[must_use]
    pub fn new(export: &'a Export, to: &HostPath) -> Self {
        let path = |file: &'a ExportedFile| file.to.as_str();
        let mut libraries: Vec<&str> = export.libraries.iter().map(path).collect();
        libraries.extend(export.links.keys().map(String::as_str));
        libraries.sort_unstable();
        Self {
            schema: Schema { name: "export", version: 1 },
            prefix: to.to_string(),
            libraries,
            headers: export.headers.iter().map(path).collect(),
            external_includes: &export.external,
            pkg_config: &export.pkg_config.0,
            cmake: &export.cmake.0,
        }
    }

    /// The folder, then each library, the number of headers, and the two files for build systems.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![self.prefix.clone()];
        lines.extend(self.libraries.iter().map(|library| format!("  {library}")));
        match self.headers.as_slice() {
            [] => {}
            [one] => lines.push(format!("  {one}")),
            more => lines.push(format!("  include ({} headers)", more.len())),
        }
        lines.push(format!("  {}", self.pkg_config));
        lines.push(format!("  {}", self.cmake));
        lines.join("\n")
    }
}
