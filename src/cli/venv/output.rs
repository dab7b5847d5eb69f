//! The output of `gpubuild venv`: findings on stderr, and text or a JSON document on stdout.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::Finding;
use gpubuild_host::HostPath;
use gpubuild_toolchain::venv::choose::VenvChoice;
use gpubuild_toolchain::venv::copy::CopiedLibrary;
use gpubuild_toolchain::venv::provide::{Provided, WheelOutcome};

use super::super::{CommandContext, Failure};
use super::work::VenvRequirements;
use crate::report::Schema;
use crate::report::venv::{EnvironmentPart, NeededLibrary, VenvDocument, WheelPart};

/// The result of a request.
pub(super) struct VenvResult<'a> {
    pub(super) requirements: VenvRequirements,
    pub(super) choice: Option<VenvChoice<'a>>,
    pub(super) provided: Option<Provided<'a>>,
    /// The reason per backend why it needs no wheel.
    pub(super) none: BTreeMap<Backend, String>,
    pub(super) findings: Vec<Finding>,
    pub(super) copied: Vec<CopiedLibrary>,
    /// The lock file that was written.
    pub(super) lock: Option<HostPath>,
}

impl VenvResult<'_> {
    /// Prints the findings and the result.
    pub(super) fn print(self, context: &CommandContext<'_>, json: bool) -> Result<(), Failure> {
        self.print_findings(context);
        if json {
            context.printer.json(&self.document(context))?;
            return Ok(());
        }
        context.printer.print(&self.text())?;
        Ok(())
    }

    /// Prints the findings as warnings.
    pub(super) fn print_findings(&self, context: &CommandContext<'_>) {
        for finding in &self.findings {
            context.printer.warning(&format!("{} [{}]", finding.summary, finding.id));
            context.printer.hint(&finding.remedy.text);
        }
    }

    fn text(&self) -> String {
        let mut lines: Vec<String> =
            self.none.iter().map(|(backend, why)| format!("{backend} needs no wheel: {why}")).collect();
        if let Some((lock, choice)) = self.lock.as_ref().zip(self.choice.as_ref()) {
            lines.push(format!("{lock}:"));
            lines.extend(choice.wheels.iter().map(|wheel| format!("  {} {}", wheel.package, wheel.version)));
        }
        let Some(provided) = &self.provided else { return lines.join("\n") };
        let environment = &provided.environment;
        let origin = if provided.made { "created" } else { "existing" };
        lines.push(format!("{} (Python {}, {origin})", environment.folder, environment.version));
        for (wheel, outcome) in &provided.wheels {
            lines.push(format!("  {} {} {}", wheel.package, wheel.version, outcome_name(*outcome)));
        }
        let answers: Vec<String> = provided
            .answers
            .versions()
            .into_iter()
            .map(|(library, version)| format!("{library} reports {version}"))
            .collect();
        if !answers.is_empty() {
            let state = if provided.loaded { "loaded" } else { "unchanged since last loaded" };
            lines.push(format!("  {state}: {}", answers.join(", ")));
        }
        if let Some(first) = self.copied.first() {
            let bytes: u64 = self.copied.iter().map(|copied| copied.bytes).sum();
            let folder = first.to.parent().map(|folder| folder.to_string()).unwrap_or_default();
            lines.push(format!("  {} libraries, {} MB, in {folder}", self.copied.len(), bytes / 1_000_000));
        }
        lines.join("\n")
    }

    fn document(&self, context: &CommandContext<'_>) -> VenvDocument {
        let os = context.host.platform().os;
        let package = |library: &str| {
            let wheel = self.choice.as_ref().and_then(|choice| choice.release.wheel_of(os, library));
            wheel.map(|wheel| wheel.package.clone())
        };
        let needed = self.requirements.needs.libraries.iter().map(|(library, needed)| NeededLibrary {
            library: library.clone(),
            by: needed.by.clone(),
            package: package(library),
        });
        VenvDocument {
            schema: Schema { name: "venv", version: 1 },
            needed: needed.collect(),
            none: self.none.clone(),
            environment: self.provided.as_ref().map(|provided| self.environment(provided)),
            lock: self.lock.as_ref().map(ToString::to_string),
            findings: self.findings.clone(),
        }
    }

    fn environment(&self, provided: &Provided<'_>) -> EnvironmentPart {
        let environment = &provided.environment;
        let mut folders: Vec<String> =
            provided.libraries.iter().filter_map(|path| Some(path.parent()?.to_string())).collect();
        folders.dedup();
        let wheel =
            |(wheel, outcome): &(&gpubuild_toolchain::venv::table::WheelRow, WheelOutcome)| WheelPart {
                package: wheel.package.clone(),
                version: wheel.version.clone(),
                state: outcome_name(*outcome),
                sha256: wheel.files().iter().map(|file| file.sha256.clone()).collect(),
            };
        EnvironmentPart {
            path: environment.folder.to_string(),
            python: environment.python.to_string(),
            python_version: environment.version.as_str().to_owned(),
            origin: if provided.made { "made" } else { "adopted" },
            cuda: self.choice.as_ref().map(|choice| choice.release.cuda.as_str().to_owned()),
            wheels: provided.wheels.iter().map(wheel).collect(),
            folders,
            answers: provided.answers.versions(),
            loaded_now: provided.loaded,
            copied: self.copied.iter().map(|copied| copied.to.to_string()).collect(),
        }
    }
}

fn outcome_name(outcome: WheelOutcome) -> &'static str {
    match outcome {
        WheelOutcome::Present => "present",
        WheelOutcome::Installed => "installed",
        WheelOutcome::Replaced => "replaced",
    }
}
