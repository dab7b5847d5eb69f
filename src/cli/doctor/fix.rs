//! `doctor --fix`: runs the remedies that stay inside the user's own folders, after showing them. Nothing with `sudo`, and
//! no shell profile is ever touched; those are shown as what is left to do.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::id;
use gpubuild_host::{Command, Os};

use crate::cli::{CommandContext, Exit, Failure};

/// How long one command may take: a download is among them.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Whether the user confirmed in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// `--yes`.
    Given,
    /// To be asked for.
    Ask,
}

/// Runs what is safe among the remedies of errors and warnings.
pub(super) fn run(
    context: &CommandContext<'_>,
    findings: &[Finding],
    consent: Consent,
) -> Result<Exit, Failure> {
    let serious = || findings.iter().filter(|finding| finding.severity < Severity::Info);
    let safe: Vec<&Finding> = serious().filter(|finding| is_safe(finding)).collect();
    let left = serious().count() - safe.len();
    if safe.is_empty() {
        context.printer.say(&match left {
            0 => "nothing to fix".to_owned(),
            left => format!("{left} of the fixes above need you: none of them stays inside your own folders"),
        });
        return Ok(if left == 0 { Exit::Done } else { Exit::Negative });
    }
    context.printer.say("to be run, in this order:");
    for command in safe.iter().flat_map(|finding| &finding.remedy.commands) {
        context.printer.say(&format!("  {command}"));
    }
    if consent == Consent::Ask && !agreed(context)? {
        context.printer.say("nothing was run");
        return Ok(Exit::Negative);
    }
    for finding in &safe {
        for command in &finding.remedy.commands {
            execute(context, finding, command)?;
        }
    }
    context.printer.say("done; run `gpubuild doctor` again to see what is left");
    Ok(if left == 0 { Exit::Done } else { Exit::Negative })
}

fn is_safe(finding: &Finding) -> bool {
    let remedy = &finding.remedy;
    let words = |command: &String| {
        command.split_whitespace().any(|word| matches!(word, "sudo" | "su" | "doas" | "pkexec"))
    };
    remedy.safe && remedy.needs.is_empty() && !remedy.commands.iter().any(words)
}

fn agreed(context: &CommandContext<'_>) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(
            id!("doctor.fix-unattended"),
            "these commands need confirmation, and standard input is not a terminal",
        )
        .hint("`--yes` runs them without asking"));
    }
    context.printer.say("run them? [y/N]");
    let mut line = String::new();
    input.lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn execute(context: &CommandContext<'_>, finding: &Finding, command: &str) -> Result<(), Failure> {
    context.printer.say(&format!("$ {command}"));
    let child = match context.host.platform().os {
        Os::Windows => Command::new("powershell", DEADLINE).args(["-NoProfile", "-Command", command]),
        Os::Linux | Os::Macos => Command::new("/bin/sh", DEADLINE).args(["-e", "-c", command]),
    };
    let failed = |why: String| {
        Failure::negative(id!("doctor.fix-failed"), format!("`{command}` failed: {why}"))
            .hint(format!("it belongs to {}: `gpubuild explain {}`", finding.id, finding.id))
    };
    let output = context.host.run(&child).map_err(|error| failed(error.to_string()))?;
    if output.exit == Some(0) {
        return Ok(());
    }
    let last = output.stderr.lines().chain(output.stdout.lines()).rfind(|line| !line.trim().is_empty());
    Err(failed(last.unwrap_or("it failed without output").to_owned()))
}
