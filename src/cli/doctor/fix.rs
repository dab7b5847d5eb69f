//! `doctor --fix`: shows and runs the remedies that change only gpubuild's cache, and shows those that change variables of the
//! user's shell. It never runs `sudo` and never edits a shell profile.

use gpubuild_detect::finding::{Finding, Findings, Severity};
use gpubuild_detect::id;
use gpubuild_doctor::setup::{CommandKind, CommandOutputMode, SetupError, SetupShell, SetupStep};

use crate::cli::prompt::{self, Terminal};
use crate::cli::{CommandContext, Exit, Failure, TextRole};

/// Whether the user confirmed in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// `--yes`.
    Given,
    /// Ask on the terminal.
    Ask,
}

/// Runs the safe remedies of errors and warnings.
pub(super) fn run(
    context: &CommandContext<'_>,
    findings: &[Finding],
    consent: Consent,
) -> Result<Exit, Failure> {
    let printer = context.printer;
    let catalogue = Findings::embedded();
    let os = context.host.platform().os;
    let serious: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity < Severity::Info).collect();
    let safe = serious.iter().filter(|finding| finding.remedy.safe);
    let steps: Vec<SetupStep> = safe.map(|finding| SetupStep::of(finding, &catalogue, os)).collect();
    let (variables, runnable): (Vec<&SetupStep>, Vec<&SetupStep>) =
        steps.iter().partition(|step| step.commands.iter().all(|command| command.kind == CommandKind::Shell));
    let mut for_shell: Vec<String> =
        variables.iter().flat_map(|step| &step.commands).map(|command| command.command.clone()).collect();
    if !runnable.is_empty() {
        printer.status("these commands will be run in this order:");
        for command in runnable.iter().flat_map(|step| &step.commands) {
            printer.status(&format!("  {}", command.command));
        }
        if consent == Consent::Ask && !is_confirmed(context)? {
            printer.status("nothing was run");
            return Ok(Exit::Negative);
        }
        let mut shell = SetupShell::new(context.host.env());
        let output =
            if consent == Consent::Ask { CommandOutputMode::Terminal } else { CommandOutputMode::Capture };
        for step in &runnable {
            execute(context, &mut shell, step, output)?;
        }
        for_shell.extend_from_slice(shell.commands());
    }
    if !for_shell.is_empty() {
        printer.status("a program cannot change the variables of your shell; run there:");
        for command in &for_shell {
            printer.status(&format!("  {}", printer.paint(TextRole::Strong, command)));
        }
    }
    let manual = serious.len() - steps.len();
    if manual > 0 {
        printer.status(&format!(
            "{manual} of the fixes above must be applied manually: they change more than gpubuild's cache"
        ));
    }
    printer.status(if serious.is_empty() {
        "nothing to fix"
    } else if runnable.is_empty() {
        "nothing was run"
    } else {
        "done; run `gpubuild doctor` again to check for remaining problems"
    });
    Ok(if runnable.len() == serious.len() { Exit::Done } else { Exit::Negative })
}

/// An empty line and the end of the input are a no.
fn is_confirmed(context: &CommandContext<'_>) -> Result<bool, Failure> {
    let Some(terminal) = Terminal::of(context) else {
        return Err(Failure::usage(
            id!("doctor.fix-unattended"),
            "these commands need confirmation, which is impossible without a terminal and with `--quiet`",
        )
        .hint("run them without confirmation with `--yes`"));
    };
    let answer = terminal.ask("run them? [y/N]", |line| match line {
        "" => Some(false),
        _ => prompt::yes_or_no(line),
    })?;
    Ok(answer.unwrap_or(false))
}

fn execute(
    context: &CommandContext<'_>,
    shell: &mut SetupShell,
    step: &SetupStep,
    output: CommandOutputMode,
) -> Result<(), Failure> {
    for command in &step.commands {
        let text = &command.command;
        context.printer.status(&format!("$ {text}"));
        shell.run(context.host, command, output).map_err(|error| {
            let (why, exit) = match error {
                SetupError::Failed(why) => (format!("failed: {why}"), Exit::Negative),
                SetupError::Interrupted => ("was interrupted".to_owned(), Exit::Interrupted),
            };
            Failure { exit, ..Failure::negative(id!("doctor.fix-failed"), format!("`{text}` {why}")) }
                .hint(format!("`gpubuild explain {}` explains the problem that it fixes", step.id))
        })?;
    }
    Ok(())
}
