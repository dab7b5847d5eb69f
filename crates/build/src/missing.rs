//! Missing toolkits are reported when a program is linked, not earlier, so that `cargo check`, editors and docs.rs need no
//! toolkit.
//!
//! The crate gets a static library of two objects that define the same symbol, whose name is the message. Linkers reject the
//! second definition first and print the name, so the message comes first, however many functions are undefined (lld stops after
//! twenty errors). The crate needs no code for this.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::{Affects, Finding, FindingDraft, Findings, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::matrix::Reason;
use gpubuild_exec::python::WheelFetchError;
use gpubuild_host::{HostInfo, WriteFiles};
use gpubuild_linker::message;
use gpubuild_plan::machine::MachineState;

use super::cargo::BuildingCrate;
use super::script::ScriptEnvironment;

/// The maximum length of a message text, in characters.
const MAX_TEXT: usize = 400;

/// A toolkit, tool or file that the build needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRequirement {
    /// One line: what cannot be built, and what requested it.
    pub what: String,
    /// The causes, the root cause first, each with its fix.
    pub causes: Vec<MissingCause>,
}

/// A cause with its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCause {
    /// The finding's stable id.
    pub id: &'static str,
    /// The cause in one line.
    pub text: String,
    /// How to fix it.
    pub fix: Option<String>,
    /// Commands for this machine.
    pub commands: Vec<String>,
}

impl MissingCause {
    /// A cause for a tool that could not be fetched.
    pub(super) fn of_fetch(error: &WheelFetchError) -> Self {
        Self {
            id: error.id().as_str(),
            text: clean::short(&error.to_string(), MAX_TEXT).into_owned(),
            fix: None,
            commands: Vec::new(),
        }
    }

    /// A cause with the text that the reason's finding has on this machine.
    fn of_reason(renderer: &FindingRenderer<'_>, backend: Backend, reason: &Reason) -> Self {
        let mut draft =
            FindingDraft::new(reason.id).summary(&reason.text).affects(Affects::Build).backend(backend);
        draft.values.clone_from(&reason.values);
        draft.fix.clone_from(&reason.hint);
        draft.about.clone_from(&reason.about);
        Self::of_finding(&renderer.render(&draft, Severity::Error))
    }

    pub(super) fn of_finding(finding: &Finding) -> Self {
        let commands = finding.remedy.commands.iter().filter_map(|command| clean::command(command));
        Self {
            id: finding.id.as_str(),
            text: clean::short(&finding.summary, MAX_TEXT).into_owned(),
            fix: Some(clean::short(&finding.remedy.text, MAX_TEXT).into_owned())
                .filter(|fix| !fix.is_empty()),
            commands: commands.map(str::to_owned).collect(),
        }
    }
}

impl MissingRequirement {
    /// The causes that block requested backends, with the remedies for this machine.
    #[must_use]
    pub(crate) fn backends(
        host: &dyn HostInfo,
        machine: &MachineState,
        origin: &str,
        blocked: &[(Backend, Vec<Reason>)],
    ) -> Self {
        let names: Vec<&str> = blocked.iter().map(|(backend, _)| backend.id()).collect();
        let findings = Findings::embedded();
        let is_root = host.identity().uid == Some(0);
        let renderer = FindingRenderer::new(&machine.facts, &machine.catalogue, &findings, is_root);
        let mut causes: Vec<MissingCause> = Vec::new();
        for (backend, reasons) in blocked {
            for cause in reasons.iter().map(|reason| MissingCause::of_reason(&renderer, *backend, reason)) {
                if !causes.contains(&cause) {
                    causes.push(cause);
                }
            }
        }
        Self { what: format!("cannot build {}, which {origin} requests", names.join(", ")), causes }
    }

    /// A message with a single cause.
    #[must_use]
    pub(crate) fn one(
        what: impl Into<String>,
        id: DiagnosticId,
        text: impl Into<String>,
        fix: Option<String>,
    ) -> Self {
        let cause = MissingCause { id: id.as_str(), text: text.into(), fix, commands: Vec::new() };
        Self { what: what.into(), causes: vec![cause] }
    }

    /// The line for cargo's warning.
    #[must_use]
    pub fn line(&self) -> String {
        let cause =
            self.causes.first().map(|cause| format!(": {} [{}]", cause.text, cause.id)).unwrap_or_default();
        format!("{}{cause}; linking a program will fail with instructions", self.what)
    }

    /// The message in the form in which the linker prints it.
    #[must_use]
    pub fn help(&self, krate: &str) -> String {
        let mut text = format!("\n\n  gpubuild: `{krate}` {}\n", self.what);
        for cause in &self.causes {
            writeln!(text, "    cause: {} [{}]", cause.text, cause.id).expect("writing to a string");
            if let Some(fix) = &cause.fix {
                writeln!(text, "    fix: {fix}").expect("writing to a string");
            }
            for command in &cause.commands {
                writeln!(text, "      {command}").expect("writing to a string");
            }
        }
        text.push_str(
            "  run `gpubuild doctor` for details; the undefined symbols below follow from this\n\n",
        );
        // A zero byte would end the symbol's name.
        text.replace('\0', "")
    }

    /// Writes the message as a library into the crate's `OUT_DIR` and makes the crate link it. The script is rerun on every
    /// build, because the missing part can be installed anywhere.
    ///
    /// # Errors
    /// The library cannot be written.
    pub(crate) fn defer(
        &self,
        host: &dyn WriteFiles,
        krate: &BuildingCrate,
        script: &mut ScriptEnvironment,
    ) -> std::io::Result<()> {
        self.report(host, krate, script)?;
        // The file never exists, so cargo reruns the script on every build until nothing is missing.
        script.watch(krate.out.join("gpubuild-until-it-is-there").as_str());
        Ok(())
    }

    /// The same, if the script already watches everything that could change the result.
    ///
    /// # Errors
    /// The library cannot be written.
    pub(super) fn report(
        &self,
        host: &dyn WriteFiles,
        krate: &BuildingCrate,
        script: &mut ScriptEnvironment,
    ) -> std::io::Result<()> {
        let bytes = message::library(&self.help(&krate.name), 2, &krate.os, &krate.arch);
        bring(host, krate, &format!("gpubuild_missing_{}", krate.name), &bytes, script)?;
        script.warning(&self.line());
        Ok(())
    }
}

/// Writes a static library into the crate's `OUT_DIR` and makes the crate link it completely.
///
/// # Errors
/// The library cannot be written.
pub(super) fn bring(
    host: &dyn WriteFiles,
    krate: &BuildingCrate,
    name: &str,
    bytes: &[u8],
    script: &mut ScriptEnvironment,
) -> std::io::Result<()> {
    let name = name.replace('-', "_");
    let file = if krate.env == "msvc" { format!("{name}.lib") } else { format!("lib{name}.a") };
    host.write(&krate.out.join(&file), bytes)?;
    script.say(&format!("rustc-link-search=native={}", krate.out));
    script.say(&format!("rustc-link-lib=static:+whole-archive={name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::id;

    fn missing() -> MissingRequirement {
        let mut missing = MissingRequirement::one(
            "cannot build cuda",
            id!("cuda.toolkit.missing"),
            "no nvcc",
            Some("install it".into()),
        );
        missing.causes[0].commands.push("gpubuild toolkit install cuda".to_owned());
        missing
    }

    #[test]
    fn the_message_has_the_cause_and_the_fix() {
        let help = missing().help("x-sys");
        for part in [
            "`x-sys` cannot build cuda\n",
            "cause: no nvcc [cuda.toolkit.missing]\n",
            "fix: install it\n",
            "      gpubuild toolkit install cuda\n",
        ] {
            assert!(help.contains(part), "{part} in {help}");
        }
        assert!(missing().line().starts_with("cannot build cuda: no nvcc [cuda.toolkit.missing]; "));
    }
}
