//! Creates a lock from a manifest of archives, as NVIDIA publishes it for every release: `redistrib_12.9.1.json`.

use std::collections::BTreeMap;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_plan::wheels::lock::{Component, PinnedFile, PinnedWheel, SCHEMA, WheelLock};
use serde::Deserialize;

use super::kit::{LayoutPart, ToolkitLayout};
use super::pin::PinError;

/// The folders of platforms that locks support, and their names in locks. `linux-sbsa` is for ARM servers; `linux-aarch64` is
/// for Jetson modules and not used.
const PLATFORMS: [(&str, &str); 3] =
    [("linux-sbsa", "linux-aarch64"), ("linux-x86_64", "linux-x86_64"), ("windows-x86_64", "windows-x86_64")];

/// The parts of a manifest that a lock needs.
#[derive(Deserialize)]
struct Manifest {
    release_label: Version,
    #[serde(flatten)]
    packages: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct ManifestPackage {
    version: String,
    #[serde(flatten)]
    platforms: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct ManifestFile {
    relative_path: String,
    sha256: String,
    size: String,
}

/// Creates a lock from the text of a manifest. `place` is its path or URL for messages.
///
/// # Errors
/// The manifest is invalid, belongs to another release, or lacks an archive.
pub fn lock(
    kit: &ToolkitLayout,
    toolkit: &str,
    release: &Version,
    text: &str,
    place: &str,
) -> Result<WheelLock, PinError> {
    let invalid = |message: String| PinError::Manifest {
        manifest: place.to_owned(),
        release: release.to_string(),
        message,
    };
    let no_toolkit = |why: String| PinError::NoToolkit {
        toolkit: toolkit.to_owned(),
        release: release.to_string(),
        why,
        has_manifest: false,
    };
    let layout =
        kit.archives.as_ref().ok_or_else(|| no_toolkit("its vendor publishes no archives".to_owned()))?;
    if *release >= layout.before {
        return Err(no_toolkit(format!(
            "releases from {} are locked from wheels; omit `--manifest`",
            layout.before
        )));
    }
    let manifest: Manifest = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let version = manifest.release_label;
    let line: Version =
        version.release().parse().map_err(|_| invalid("its version is invalid".to_owned()))?;
    if *release != line && *release != version {
        return Err(invalid(format!("it belongs to {version}")));
    }
    let packages = |part: &LayoutPart| -> Result<Vec<PinnedWheel>, PinError> {
        let names = part.archives.iter();
        names.map(|name| package(name, manifest.packages.get(name)).map_err(invalid)).collect()
    };
    let components = kit.components.iter().map(|part| {
        Ok(Component {
            id: part.id.clone(),
            optional: part.optional,
            needs: part.needs.clone(),
            wheels: Vec::new(),
            archives: packages(part)?,
        })
    });
    let components = components.collect::<Result<Vec<_>, PinError>>()?;
    let has_all = |folder: &str| {
        let mut all = components.iter().flat_map(|component| &component.archives);
        all.all(|package| package.files.iter().any(|file| file.platform_folder() == Some(folder)))
    };
    let platforms = PLATFORMS.iter().filter(|(folder, _)| has_all(folder));
    let platforms: Vec<String> = platforms.map(|(_, name)| (*name).to_owned()).collect();
    if platforms.is_empty() {
        return Err(invalid("no platform has all archives".to_owned()));
    }
    let toolkit = toolkit.to_owned();
    let lock = WheelLock {
        schema: SCHEMA.to_owned(),
        toolkit,
        release: line,
        version,
        index: None,
        platforms,
        components,
    };
    lock.check().map_err(invalid)?;
    Ok(lock)
}

/// One version of a package with its files for the supported platforms, sorted by path.
fn package(name: &str, value: Option<&serde_json::Value>) -> Result<PinnedWheel, String> {
    let value = value.ok_or_else(|| format!("it has no `{name}`"))?;
    let found = ManifestPackage::deserialize(value).map_err(|error| format!("`{name}`: {error}"))?;
    let mut files = Vec::new();
    for (folder, _) in PLATFORMS {
        let Some(value) = found.platforms.get(folder) else { continue };
        let at = |error: String| format!("`{name}` for {folder}: {error}");
        let file = ManifestFile::deserialize(value).map_err(|error| at(error.to_string()))?;
        let size = file.size.parse().map_err(|_| at(format!("`{}` is not a size", file.size)))?;
        let pinned = PinnedFile { name: file.relative_path, sha256: file.sha256, size };
        if pinned.platform_folder() != Some(folder) {
            return Err(at(format!("`{}` is not in its folder", pinned.name)));
        }
        files.push(pinned);
    }
    files.sort_indirect_by(|left, right| left.name.cmp(&right.name));
    Ok(PinnedWheel { package: name.to_owned(), version: found.version, files })
}

#[cfg(test)]
#[path = "redist_tests.rs"]
mod tests;
