//! The document of `gpubuild pack --format wheel` and `--format sdist`, and its text.

use std::fmt::Write as _;

use gpubuild_plan::plan::bytes;
use gpubuild_release::wheel::{WrittenSdist, WrittenWheel};
use serde::Serialize;

use super::Schema;

/// The document of `pack --format wheel --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WheelsReport<'a> {
    schema: Schema,
    /// Folder of the files.
    folder: &'a str,
    /// Name of the project in gpubuild.toml.
    project: &'a str,
    /// The wheels that were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wheels: Vec<WrittenWheel>,
    /// The list of all variant wheels of the version, for the package index.
    #[serde(skip_serializing_if = "Option::is_none")]
    variants: Option<String>,
    /// The source distribution that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    sdist: Option<WrittenSdist>,
}

impl<'a> WheelsReport<'a> {
    /// The document of wheels in a folder.
    #[must_use]
    pub fn new(
        folder: &'a str,
        project: &'a str,
        wheels: Vec<WrittenWheel>,
        variants: Option<String>,
    ) -> Self {
        Self { schema: Schema { name: "wheels", version: 1 }, folder, project, wheels, variants, sdist: None }
    }

    /// The wheels that were written.
    #[must_use]
    pub fn wheels(&self) -> &[WrittenWheel] {
        &self.wheels
    }

    /// The document of a source distribution.
    #[must_use]
    pub fn of_sdist(folder: &'a str, project: &'a str, sdist: WrittenSdist) -> Self {
        Self { sdist: Some(sdist), ..Self::new(folder, project, Vec::new(), None) }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(sdist) = &self.sdist {
            let size = bytes::show(sdist.bytes);
            let _ = writeln!(text, "{}/{}: {} files, {size}", self.folder, sdist.file, sdist.files);
        }
        for wheel in &self.wheels {
            let _ = writeln!(text, "{}/{}: {}", self.folder, wheel.file, bytes::show(wheel.bytes));
            let extra = wheel.extra.as_ref().filter(|_| !wheel.requires.is_empty());
            let requires =
                extra.map_or_else(|| "requires".to_owned(), |extra| format!("requires with [{extra}]"));
            for (what, list) in [
                ("built", &wheel.libraries),
                ("copied", &wheel.copied),
                (requires.as_str(), &wheel.requires),
                ("properties", &wheel.variant_properties),
                ("not packed, the machine provides them", &wheel.left),
            ] {
                if !list.is_empty() {
                    let _ = writeln!(text, "  {what}: {}", list.join(", "));
                }
            }
        }
        if let Some(variants) = &self.variants {
            let _ = writeln!(text, "{}/{variants}: the variants, for the package index", self.folder);
        }
        text
    }
}
