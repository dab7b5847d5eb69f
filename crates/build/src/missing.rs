//! What is missing on a machine is told when a program is linked, not before: `cargo check`, editors and docs.rs need no
//! toolkit.
//!
//! The crate gets a static library of two objects that both define one symbol, and the name of that symbol is the help. Linkers
//! refuse the second definition before they look at anything else and print the name, so the text comes first, however many
//! functions are undefined (lld stops after twenty). Nothing is asked of the crate.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::finding::{Affects, Draft, Finding, Findings, Severity};
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::tell::Teller;
use gpubuild_exec::python::FetchError;
use gpubuild_host::Host;
use gpubuild_linker::message;
use gpubuild_plan::look::Sight;

use super::cargo::Crate;
use super::script::Script;

/// Characters of a sentence that are told.
const SENTENCE: usize = 400;

/// Something that a program needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// One line: what cannot be built, and who asked for it.
    pub what: String,
    /// The causes, the root cause first, each with its fix.
    pub causes: Vec<Cause>,
}

/// A cause with its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Stable id.
    pub id: String,
    /// One line.
    pub text: String,
    /// What to do.
    pub fix: Option<String>,
    /// Commands for this machine.
    pub commands: Vec<String>,
}

impl Cause {
    /// A tool that could not be fetched.
    pub(super) fn of_fetch(error: &FetchError) -> Self {
        Self {
            id: error.id().to_owned(),
            text: clean::short(&error.to_string(), SENTENCE).into_owned(),
            fix: None,
            commands: Vec::new(),
        }
    }

    /// A reason with the words that its finding has for this machine.
    fn told(teller: &Teller<'_>, backend: Backend, reason: &Reason) -> Self {
        let mut draft = Draft::new(&reason.id).summary(&reason.text).affects(Affects::Build).backend(backend);
        draft.values.clone_from(&reason.values);
        draft.fix.clone_from(&reason.hint);
        draft.about.clone_from(&reason.about);
        Self::of_finding(&teller.tell(&draft, Severity::Error))
    }

    pub(super) fn of_finding(finding: &Finding) -> Self {
        let commands = finding.remedy.commands.iter().filter_map(|command| clean::command(command));
        Self {
            id: finding.id.clone(),
            text: clean::short(&finding.summary, SENTENCE).into_owned(),
            fix: Some(clean::short(&finding.remedy.text, SENTENCE).into_owned())
                .filter(|fix| !fix.is_empty()),
            commands: commands.map(str::to_owned).collect(),
        }
    }
}

impl Missing {
    /// What blocks backends that somebody named, with the remedies for this machine.
    #[must_use]
    pub(crate) fn backends(
        host: &dyn Host,
        sight: &Sight,
        origin: &str,
        blocked: &[(Backend, Vec<Reason>)],
    ) -> Self {
        let names: Vec<&str> = blocked.iter().map(|(backend, _)| backend.id()).collect();
        let findings = Findings::embedded();
        let is_root = host.identity().uid == Some(0);
        let teller = Teller::new(&sight.facts, &sight.catalogue, &findings, is_root);
        let mut causes: Vec<Cause> = Vec::new();
        for (backend, reasons) in blocked {
            for cause in reasons.iter().map(|reason| Cause::told(&teller, *backend, reason)) {
                if !causes.contains(&cause) {
                    causes.push(cause);
                }
            }
        }
        Self { what: format!("cannot build {}, which {origin} asks for", names.join(", ")), causes }
    }

    /// Something else that is missing.
    #[must_use]
    pub(crate) fn one(
        what: impl Into<String>,
        id: &str,
        text: impl Into<String>,
        fix: Option<String>,
    ) -> Self {
        let cause = Cause { id: id.to_owned(), text: text.into(), fix, commands: Vec::new() };
        Self { what: what.into(), causes: vec![cause] }
    }

    /// One line for cargo's warning.
    #[must_use]
    pub fn line(&self) -> String {
        let cause =
            self.causes.first().map(|cause| format!(": {} [{}]", cause.text, cause.id)).unwrap_or_default();
        format!("{}{cause}; linking a program will fail and say what to do", self.what)
    }

    /// The help as the linker prints it.
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
            "  `gpubuild doctor` says more; the functions that are undefined below follow from this\n\n",
        );
        // A symbol ends at the first zero byte.
        text.replace('\0', "")
    }

    /// Puts the help into a library in the crate's own folder, and has the crate bring it along. The script runs again each
    /// time, since what is missing may be installed anywhere.
    ///
    /// # Errors
    /// The library cannot be written.
    pub(crate) fn defer(&self, host: &dyn Host, krate: &Crate, script: &mut Script) -> std::io::Result<()> {
        self.tell(host, krate, script)?;
        // A file that never exists has cargo run the script each time, until then.
        script.watch(krate.out.join("gpubuild-until-it-is-there").as_str());
        Ok(())
    }

    /// The same where the script watches already what would make a difference.
    ///
    /// # Errors
    /// The library cannot be written.
    pub(super) fn tell(&self, host: &dyn Host, krate: &Crate, script: &mut Script) -> std::io::Result<()> {
        let bytes = message::library(&self.help(&krate.name), 2, &krate.os, &krate.arch);
        bring(host, krate, &format!("gpubuild_missing_{}", krate.name), &bytes, script)?;
        script.warning(&self.line());
        Ok(())
    }
}

/// Puts a static library into a crate's own folder, and has the crate bring all of it along.
///
/// # Errors
/// The library cannot be written.
pub(super) fn bring(
    host: &dyn Host,
    krate: &Crate,
    name: &str,
    bytes: &[u8],
    script: &mut Script,
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

    fn missing() -> Missing {
        let mut missing =
            Missing::one("cannot build cuda", "cuda.toolkit.missing", "no nvcc", Some("install it".into()));
        missing.causes[0].commands.push("gpubuild toolkit install cuda".to_owned());
        missing
    }

    #[test]
    fn the_help_says_what_why_and_what_to_do() {
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
