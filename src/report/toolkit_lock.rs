//! The document of `gpubuild toolkit lock`, and its text.

use gpubuild_core::version::Version;
use gpubuild_plan::wheels::WheelLock;
use serde::Serialize;

use super::Schema;
use super::toolkit::WheelReport;

/// The document of `toolkit lock --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockReport {
    schema: Schema,
    /// Path of the lock file.
    file: String,
    /// Id of the toolkit: `cuda`.
    toolkit: String,
    /// Its release: `13.0`.
    release: Version,
    /// Its full version: `13.0.3`.
    version: Version,
    /// The supported platforms.
    platforms: Vec<String>,
    /// The components with their wheels or archives.
    components: Vec<LockedComponent>,
}

/// Wheels or archives that are installed together.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LockedComponent {
    /// Id of the component: `base`, `cublas`.
    id: String,
    /// Whether it is installed only on request (`--with`).
    optional: bool,
    /// Its wheels or archives, for all platforms. The size is zero if the index does not report it.
    wheels: Vec<WheelReport>,
}

impl LockReport {
    /// The document of a lock that was written to a file.
    #[must_use]
    pub fn new(lock: &WheelLock, file: String) -> Self {
        let components = lock.components.iter().map(|component| LockedComponent {
            id: component.id.clone(),
            optional: component.optional,
            wheels: component.packages().flat_map(WheelReport::of).collect(),
        });
        Self {
            schema: Schema { name: "toolkit-lock", version: 1 },
            file,
            toolkit: lock.toolkit.clone(),
            release: lock.release.clone(),
            version: lock.version.clone(),
            platforms: lock.platforms.clone(),
            components: components.collect(),
        }
    }

    /// One line.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { toolkit, version, file, .. } = self;
        format!("locked {toolkit} {version} for {}: {file}", self.platforms.join(", "))
    }
}
