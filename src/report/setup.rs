//! The lines of `gpubuild setup --json`, and the text of a step.

use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::Severity;
use gpubuild_doctor::setup::{CommandKind, SetupStep, StepMode, StepOutcome, StepResult};
use serde::Serialize;

use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;

/// A line of `setup --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum SetupLine<'a> {
    /// A step that the doctor recommends.
    Step {
        /// Its number, from 1.
        number: usize,
        /// The step.
        #[serde(flatten)]
        step: &'a SetupStep,
    },
    /// A command is started.
    Run {
        /// The command.
        command: &'a str,
    },
    /// A step is over.
    StepDone {
        /// Its number.
        number: usize,
        /// Its result.
        #[serde(flatten)]
        result: &'a StepResult,
    },
    /// The last line.
    Done {
        /// Errors that the doctor reports now.
        errors: usize,
        /// Warnings that the doctor reports now.
        warnings: usize,
        /// Ids of these errors and warnings.
        remaining: Vec<DiagnosticId>,
        /// Commands that changed variables; repeat them in your shell or its profile.
        shell: &'a [String],
    },
}

/// A step as text: the problem, why it matters, the fix and its commands.
#[must_use]
pub fn step(number: usize, step: &SetupStep) -> String {
    let severity = if step.severity == Severity::Error { "error" } else { "warning" };
    let mut out = String::new();
    block(&mut out, &format!("{number}. {severity}: "), "   ", &format!("{} [{}]", step.summary, step.id));
    if !step.why.is_empty() {
        block(&mut out, "   why: ", "        ", &step.why);
    }
    block(&mut out, "   fix: ", "        ", &step.fix);
    for command in &step.commands {
        let remark = match command.kind {
            CommandKind::Shell => "   (changes a variable of your shell)",
            CommandKind::Root => "   (asks for root)",
            _ => "",
        };
        let _ = writeln!(out, "     $ {}{remark}", command.command);
    }
    if let StepMode::Manual(reason) = step.mode {
        let _ = writeln!(out, "   to do by hand: {}", reason.text());
    }
    if let Some(event) = step.waits_for() {
        let what = if event == "reboot" { "a restart" } else { "logging in again" };
        let _ = writeln!(out, "   takes effect after {what}");
    }
    out
}

/// Wraps a paragraph behind a label.
fn block(out: &mut String, label: &str, indent: &str, text: &str) {
    let mut start = label;
    for line in wrap(&clean::line(text), WIDTH - indent.len().max(label.len())) {
        let _ = writeln!(out, "{start}{line}");
        start = indent;
    }
}

/// The result of a step in one line.
#[must_use]
pub fn result(result: &StepResult) -> String {
    let why = result.message.as_deref().map(clean::line).unwrap_or_default();
    match result.outcome {
        StepOutcome::Fixed => format!("fixed: the doctor no longer reports {}", result.id),
        StepOutcome::Remains => format!("not fixed: the doctor still reports {}", result.id),
        StepOutcome::Waiting if why == "reboot" => {
            "done: restart, then run `gpubuild setup` again".to_owned()
        }
        StepOutcome::Waiting => "done: log in again, then run `gpubuild setup` again".to_owned(),
        StepOutcome::Failed => format!("failed: the command {why}"),
        StepOutcome::Skipped => "skipped".to_owned(),
        StepOutcome::Manual => "left to you".to_owned(),
        StepOutcome::NeedsRoot => "not run: it asks for root (`--sudo` allows it)".to_owned(),
    }
}
