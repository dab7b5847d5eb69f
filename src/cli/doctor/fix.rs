//! `doctor --fix`: shows and runs the remedies that change only the user's own folders. It never runs `sudo` and never edits a shell
//! profile; such remedies are left to the user.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::id;
use gpubuild_host::{Command, Os};

use crate::cli::{CommandContext, Exit, Failure};

/// Time limit for one command, which may be a download.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

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
    let serious = || findings.iter().filter(|finding| finding.severity < Severity::Info);
    let safe: Vec<&Finding> = serious().filter(|finding| is_safe(finding)).collect();
    let remaining = serious().count() - safe.len();
    if safe.is_empty() {
        context.printer.status(&match remaining {
            0 => "nothing to fix".to_owned(),
            remaining => format!("{remaining} of the fixes above must be applied manually: they change more than your own folders"),
        });
        return Ok(if remaining == 0 { Exit::Done } else { Exit::Negative });
    }
    context.printer.status("these commands will be run in this order:");
    for command in safe.iter().flat_map(|finding| &finding.remedy.commands) {
        context.printer.status(&format!("  {command}"));
    }
    if consent == Consent::Ask && !confirmed(context)? {
        context.printer.status("nothing was run");
        return Ok(Exit::Negative);
    }
    for finding in &safe {
        for command in &finding.remedy.commands {
            execute(context, finding, command)?;
        }
    }
    context.printer.status("done; run `gpubuild doctor` again to check for remaining problems");
    Ok(if remaining == 0 { Exit::Done } else { Exit::Negative })
}

fn is_safe(finding: &Finding) -> bool {
    let remedy = &finding.remedy;
    let needs_root = |command: &String| {
        command.split_whitespace().any(|word| matches!(word, "sudo" | "su" | "doas" | "pkexec"))
    };
    remedy.safe && remedy.needs.is_empty() && !remedy.commands.iter().any(needs_root)
}

fn confirmed(context: &CommandContext<'_>) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(
            id!("doctor.fix-unattended"),
            "these commands need confirmation, and standard input is not a terminal",
        )
        .hint("run them without confirmation with `--yes`"));
    }
    context.printer.status("run them? [y/N]");
    let mut line = String::new();
    input.lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn execute(context: &CommandContext<'_>, finding: &Finding, command: &str) -> Result<(), Failure> {
    context.printer.status(&format!("$ {command}"));
    let child = match context.host.platform().os {
        Os::Windows => Command::new("powershell", DEADLINE).args(["-NoProfile", "-Command", command]),
        Os::Linux | Os::Macos => Command::new("/bin/sh", DEADLINE).args(["-e", "-c", command]),
    };
    let failed = |why: String| {
        Failure::negative(id!("doctor.fix-failed"), format!("`{command}` failed: {why}"))
            .hint(format!("`gpubuild explain {}` explains the problem that it fixes", finding.id))
    };
    let output = context.host.run(&child).map_err(|error| failed(error.to_string()))?;
    if output.exit == Some(0) {
        return Ok(());
    }
    let last = output.stderr.lines().chain(output.stdout.lines()).rfind(|line| !line.trim().is_empty());
    Err(failed(last.unwrap_or("no output").to_owned()))
}
