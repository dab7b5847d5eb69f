//! The documents of `gpubuild install`, and their text.

use gpubuild_host::HostPath;
use gpubuild_plan::plan::bytes;
use gpubuild_release::VariantChoice;
use gpubuild_release::install::{InstallResult, InstalledRelease, InstalledVersion, Proof};
use gpubuild_release::provenance::BuildOrigin;
use gpubuild_release::resolve::Rejected;
use serde::Serialize;

use super::Schema;

/// The document of `install --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstallReport<'a> {
    schema: Schema,
    /// Name of the release.
    name: &'a str,
    /// Its version.
    version: &'a str,
    /// Serial of its manifest.
    serial: u64,
    #[serde(flatten)]
    choice: &'a VariantChoice,
    /// Result of the smoke test.
    proof: Proof,
    /// Variants that failed their smoke test.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tried: &'a [Rejected],
    /// Folder of the installation.
    folder: String,
    /// Path of the program.
    program: String,
    /// `installed`, or `unchanged` if the version was already installed.
    outcome: &'static str,
    /// Bytes that were downloaded.
    fetched_bytes: u64,
    /// Bytes of layers that were already available.
    reused_bytes: u64,
    /// The version that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<&'a InstalledVersion>,
    /// How the variant was built; with `--require-provenance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<&'a BuildOrigin>,
}

impl<'a> InstallReport<'a> {
    /// The document of an installation.
    #[must_use]
    pub fn new(name: &'a str, to: &HostPath, program: &HostPath, done: &'a InstallResult) -> Self {
        Self {
            schema: Schema { name: "install", version: 1 },
            name,
            version: &done.version.version,
            serial: done.version.serial,
            choice: &done.choice,
            proof: done.version.proof,
            tried: &done.tried,
            folder: to.to_string(),
            program: program.to_string(),
            outcome: if done.was_there { "unchanged" } else { "installed" },
            fetched_bytes: done.fetched,
            reused_bytes: done.reused,
            previous: done.previous.as_ref(),
            provenance: done.origin.as_ref(),
        }
    }

    /// The output for users and scripts: the path of the program on its own line.
    #[must_use]
    pub fn text(&self, explain: bool) -> String {
        let choice = if explain { super::resolve::text(self.choice, true) } else { String::new() };
        format!("{choice}{}\n", self.program)
    }

    /// A summary in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let (name, version, label, backend) =
            (self.name, self.version, &self.choice.label, self.choice.backend);
        let proof = match self.proof {
            Proof::Checked => format!("its check of {backend} succeeded"),
            Proof::Started => format!("it starts, but has no check of {backend}"),
            Proof::NotStarted => "it was not started".to_owned(),
        };
        let had = if self.outcome == "unchanged" { "is already installed" } else { "is installed" };
        let fetched = self.fetched();
        format!("{name} {version} `{label}` {had} for {backend}: {proof}{fetched}")
    }

    /// A summary of an update in one line.
    #[must_use]
    pub fn update_summary(&self) -> String {
        let Self { name, version, .. } = self;
        if self.outcome == "unchanged" {
            return format!("{name} {version} is the newest release");
        }
        let before =
            self.previous.map_or_else(String::new, |previous| format!(", {} before", previous.version));
        format!("{name} {version} is installed{before}{}", self.fetched())
    }

    fn fetched(&self) -> String {
        match self.fetched_bytes {
            0 => String::new(),
            fetched => format!(", {} fetched", bytes::show(fetched)),
        }
    }
}

/// The document of `install --list` and `install --rollback`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstalledListReport {
    schema: Schema,
    /// The installations.
    installed: Vec<InstalledRow>,
}

/// An installation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InstalledRow {
    /// Name of the release.
    name: String,
    /// Folder of the installation.
    folder: String,
    /// Path of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    /// The version in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<InstalledVersion>,
    /// The version to which `--rollback` returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<InstalledVersion>,
}

impl InstalledListReport {
    /// The document of the installations in these folders.
    #[must_use]
    pub fn new(
        found: &[(HostPath, InstalledRelease)],
        program: &dyn Fn(&HostPath, &InstalledVersion) -> HostPath,
    ) -> Self {
        let row = |(folder, installed): &(HostPath, InstalledRelease)| InstalledRow {
            name: installed.name.clone(),
            folder: folder.to_string(),
            program: installed.pair.current.as_ref().map(|version| program(folder, version).to_string()),
            current: installed.pair.current.clone(),
            previous: installed.pair.previous.clone(),
        };
        Self { schema: Schema { name: "installed", version: 1 }, installed: found.iter().map(row).collect() }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |row: &InstalledRow| {
            let version = row.current.as_ref().map_or_else(String::new, |version| {
                format!(" {} `{}` for {}", version.version, version.label, version.backend)
            });
            let previous = row.previous.as_ref().map_or_else(String::new, |version| {
                format!(", previously {} `{}`", version.version, version.label)
            });
            let program = row.program.as_deref().unwrap_or(&row.folder);
            format!("{}{version}{previous}\n  {program}\n", row.name)
        };
        if self.installed.is_empty() {
            return "nothing is installed\n".to_owned();
        }
        self.installed.iter().map(line).collect()
    }
}
