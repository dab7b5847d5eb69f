//! `gpubuild install`: documents and text.

use gpubuild_host::HostPath;
use gpubuild_plan::plan::bytes;
use gpubuild_release::VariantChoice;
use gpubuild_release::install::{InstallResult, InstalledRelease, InstalledVersion, Proof};
use gpubuild_release::resolve::Rejected;
use serde::Serialize;

use super::Schema;

/// The document of `install --json`.
#[derive(Debug, Serialize)]
pub struct InstallReport<'a> {
    schema: Schema,
    name: &'a str,
    version: &'a str,
    serial: u64,
    #[serde(flatten)]
    choice: &'a VariantChoice,
    /// Whether it works: `checked`, `started`, `not-started`.
    proof: Proof,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tried: &'a [Rejected],
    folder: String,
    /// What to start.
    program: String,
    /// `installed`, or `unchanged` where it was there.
    outcome: &'static str,
    fetched_bytes: u64,
    reused_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<&'a InstalledVersion>,
}

impl<'a> InstallReport<'a> {
    /// The document of what was done.
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
        }
    }

    /// The answer for people and scripts: the path of the program, alone on its line.
    #[must_use]
    pub fn text(&self, explain: bool) -> String {
        let choice = if explain { super::resolve::text(self.choice, true) } else { String::new() };
        format!("{choice}{}\n", self.program)
    }

    /// What was done, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let (name, version, label, backend) =
            (self.name, self.version, &self.choice.label, self.choice.backend);
        let proof = match self.proof {
            Proof::Checked => format!("its check has used {backend}"),
            Proof::Started => format!("it starts; it has no check of {backend}"),
            Proof::NotStarted => "it was not started".to_owned(),
        };
        let had = if self.outcome == "unchanged" { "was there" } else { "is installed" };
        let fetched = match self.fetched_bytes {
            0 => String::new(),
            fetched => format!(", {} fetched", bytes::show(fetched)),
        };
        format!("{name} {version} `{label}` {had} for {backend}: {proof}{fetched}")
    }
}

/// The document of `install --list` and `install --rollback`.
#[derive(Debug, Serialize)]
pub struct InstalledListReport {
    schema: Schema,
    installed: Vec<InstalledRow>,
}

#[derive(Debug, Serialize)]
struct InstalledRow {
    name: String,
    folder: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<InstalledVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<InstalledVersion>,
}

impl InstalledListReport {
    /// What is in these folders.
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

    /// The same for people: one line each.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |row: &InstalledRow| {
            let version = row.current.as_ref().map_or_else(String::new, |version| {
                format!(" {} `{}` for {}", version.version, version.label, version.backend)
            });
            let previous = row.previous.as_ref().map_or_else(String::new, |version| {
                format!(", before it {} `{}`", version.version, version.label)
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
