//! `gpubuild setup`: does what the doctor recommends, step by step. Each step is shown, confirmed, run, and verified by the doctor.

use gpubuild_detect::finding::{Finding, Findings, Severity};
use gpubuild_detect::id;
use gpubuild_doctor::Filter;
use gpubuild_doctor::setup::{
    Attempt, CommandOutputMode, SetupError, SetupGuide, SetupShell, SetupStep, StepMode, StepOutcome,
};
use gpubuild_host::overlay::Overlay;
use gpubuild_host::{Host, InspectHost, Os};

use super::doctor::diagnose::{self, Depth, DoctorRequest};
use super::machine::HostArguments;
use super::prompt::{self, Terminal};
use super::{CommandContext, Exit, Failure, TextRole};
use crate::report::setup::{self as report, SetupLine};

/// Arguments of `setup`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct SetupArguments {
    #[command(flatten)]
    host: HostArguments,
    /// Backends to set up [default: those whose hardware is present]
    #[arg(long, value_name = "LIST")]
    backends: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print the steps without running them
    #[arg(long)]
    dry_run: bool,
    /// Run every step without asking, except steps that need root
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// With `--yes`: also run steps that need root
    #[arg(long, requires = "yes")]
    sudo: bool,
    /// Print a JSON document per event, one per line
    #[arg(long)]
    pub json: bool,
}

/// Shows the steps, or runs them.
pub fn run(arguments: &SetupArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    if recorded.is_some() && !arguments.dry_run {
        return Err(Failure::usage(id!("setup.recorded"), "a recorded machine cannot be set up")
            .hint("print its steps with `--dry-run`"));
    }
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let request = DoctorRequest::new(
        (arguments.backends.as_deref(), arguments.project.as_deref(), recorded.is_some()),
        context,
        host,
    )?;
    let os = host.platform().os;
    let work = SetupWork { arguments, context, request: &request, findings: Findings::embedded(), os };
    let terminal = Terminal::of(context);
    if arguments.dry_run {
        let found = work.examine(host)?;
        work.show_plan(&found)?;
        return Ok(Exit::Done);
    }
    if !arguments.yes && terminal.is_none() {
        let found = work.examine(host)?;
        work.show_plan(&found)?;
        if is_healthy(&found) {
            return Ok(Exit::Done);
        }
        return Err(Failure::usage(
            id!("setup.unattended"),
            "these steps need confirmation, which is impossible without a terminal and with `--quiet`",
        )
        .hint("run them without confirmation with `--yes`, or only print them with `--dry-run`"));
    }
    work.guide(terminal.as_ref())
}

/// The answer to the prompt of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Run it, or check whether the user did it.
    Yes,
    /// Continue with the next step.
    Skip,
    /// End the guide.
    Quit,
}

/// The end of the input is [`Answer::Quit`]. An empty line is no answer: it runs nothing.
fn ask(terminal: &Terminal, is_manual: bool) -> Result<Answer, Failure> {
    let question = if is_manual { "check again after you did it?" } else { "run these commands?" };
    let answer = terminal.ask(&format!("   {question} [y]es, [s]kip, [q]uit"), |line| match line {
        "s" | "skip" => Some(Answer::Skip),
        "q" | "quit" => Some(Answer::Quit),
        _ => prompt::yes_or_no(line).map(|yes| if yes { Answer::Yes } else { Answer::Skip }),
    })?;
    Ok(answer.unwrap_or(Answer::Quit))
}

/// Whether no step is left.
fn is_healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity == Severity::Info)
}

struct SetupWork<'a> {
    arguments: &'a SetupArguments,
    context: &'a CommandContext<'a>,
    request: &'a DoctorRequest,
    findings: Findings,
    /// The system of the examined machine.
    os: Os,
}

impl SetupWork<'_> {
    /// The findings of the doctor.
    fn examine(&self, host: &dyn InspectHost) -> Result<Vec<Finding>, Failure> {
        let catalogue = self.arguments.host.catalogue(self.context)?;
        let diagnosis =
            diagnose::diagnose(host, catalogue, self.request, &Filter::default(), Depth::Drivers)?;
        self.context.check_interrupt()?;
        Ok(diagnosis.document.findings)
    }

    fn step(&self, finding: &Finding) -> SetupStep {
        SetupStep::of(finding, &self.findings, self.os)
    }

    /// Prints all steps that the doctor recommends now.
    fn show_plan(&self, found: &[Finding]) -> Result<(), Failure> {
        let serious = found.iter().filter(|finding| finding.severity < Severity::Info);
        let mut text = String::new();
        for (index, finding) in serious.enumerate() {
            let step = self.step(finding);
            if self.arguments.json {
                self.context.printer.json_line(&SetupLine::Step { number: index + 1, step: &step })?;
            }
            text += &report::step(index + 1, &step);
            text.push('\n');
        }
        if self.arguments.json {
            return self.done(found, &[]);
        }
        if text.is_empty() {
            self.context.printer.status("nothing to set up: the doctor reports no errors and no warnings");
        }
        self.context.printer.print(text.trim_end_matches('\n'))?;
        Ok(())
    }

    /// Shows, confirms, runs and verifies one step after the other.
    fn guide(&self, terminal: Option<&Terminal>) -> Result<Exit, Failure> {
        let host = self.context.host;
        let mut shell = SetupShell::new(host.env());
        let mut guide = SetupGuide::default();
        let mut found = self.examine(host)?;
        if is_healthy(&found) {
            self.context.printer.status("nothing to set up: the doctor reports no errors and no warnings");
        }
        while let Some(finding) = guide.next(&found) {
            let step = self.step(finding);
            let number = guide.results().len() + 1;
            self.show_step(number, &step)?;
            let Some(attempt) = self.attempt(&step, &mut shell, terminal)? else {
                break;
            };
            if matches!(attempt, Attempt::Done | Attempt::Failed(_)) {
                found = self.examine(&Overlay::new(host, shell.env().clone()))?;
            }
            let result = guide.settle(&step, attempt, &found);
            if self.arguments.json {
                self.context.printer.json_line(&SetupLine::StepDone { number, result })?;
            } else {
                self.context.printer.status(&format!("   {}\n", report::result(result)));
            }
        }
        if self.arguments.json {
            self.done(&found, shell.commands())?;
        } else {
            self.summary(&found, &shell);
        }
        let failed = guide.results().iter().any(|result| result.outcome == StepOutcome::Failed);
        let errors = found.iter().any(|finding| finding.severity == Severity::Error);
        Ok(if failed || errors { Exit::Negative } else { Exit::Done })
    }

    fn show_step(&self, number: usize, step: &SetupStep) -> Result<(), Failure> {
        if self.arguments.json {
            self.context.printer.json_line(&SetupLine::Step { number, step })?;
        } else {
            self.context.printer.status(report::step(number, step).trim_end_matches('\n'));
        }
        Ok(())
    }

    /// Runs a step if it is confirmed. `None` if the user quits.
    fn attempt(
        &self,
        step: &SetupStep,
        shell: &mut SetupShell,
        terminal: Option<&Terminal>,
    ) -> Result<Option<Attempt>, Failure> {
        let is_manual = matches!(step.mode, StepMode::Manual(_));
        let asks = terminal.filter(|_| !self.arguments.yes);
        let answer = match (asks, step.mode) {
            (Some(terminal), _) => ask(terminal, is_manual)?,
            (None, StepMode::Manual(_)) => return Ok(Some(Attempt::Manual)),
            (None, StepMode::Root) if !self.arguments.sudo => return Ok(Some(Attempt::NeedsRoot)),
            (None, _) => Answer::Yes,
        };
        match answer {
            Answer::Quit => Ok(None),
            Answer::Skip => Ok(Some(Attempt::Skipped)),
            // The user did it meanwhile.
            Answer::Yes if is_manual => Ok(Some(Attempt::Done)),
            Answer::Yes => self.run(step, shell, asks.is_some()).map(Some),
        }
    }

    /// Runs the commands of a step.
    fn run(&self, step: &SetupStep, shell: &mut SetupShell, on_terminal: bool) -> Result<Attempt, Failure> {
        let output = if on_terminal && !self.arguments.json {
            CommandOutputMode::Terminal
        } else {
            CommandOutputMode::Capture
        };
        for command in &step.commands {
            if self.arguments.json {
                self.context.printer.json_line(&SetupLine::Run { command: &command.command })?;
            } else {
                self.context.printer.status(&format!("   $ {}", command.command));
            }
            match shell.run(self.context.host, command, output) {
                Ok(()) => {}
                Err(SetupError::Failed(why)) => return Ok(Attempt::Failed(why)),
                Err(SetupError::Interrupted) => {
                    let message = format!("`{}` was interrupted", command.command);
                    return Err(Failure {
                        exit: Exit::Interrupted,
                        ..Failure::negative(id!("setup.interrupted"), message)
                    }
                    .hint("run `gpubuild setup` again: it starts with what the doctor finds then"));
                }
            }
        }
        Ok(Attempt::Done)
    }

    fn done(&self, found: &[Finding], shell: &[String]) -> Result<(), Failure> {
        let count = |severity| gpubuild_doctor::count(found, severity);
        let serious = found.iter().filter(|finding| finding.severity < Severity::Info);
        self.context.printer.json_line(&SetupLine::Done {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            remaining: serious.map(|finding| finding.id).collect(),
            shell,
        })?;
        Ok(())
    }

    fn summary(&self, found: &[Finding], shell: &SetupShell) {
        let printer = self.context.printer;
        if !shell.commands().is_empty() {
            printer.status("repeat these commands in your shell, or add them to its profile:");
            for command in shell.commands() {
                printer.status(&format!("  {}", printer.paint(TextRole::Strong, command)));
            }
        }
        let count = |severity| gpubuild_doctor::count(found, severity);
        printer.status(&format!(
            "the doctor now reports {} and {}",
            counted(count(Severity::Error), "error"),
            counted(count(Severity::Warning), "warning")
        ));
    }
}

/// `1 error`, `2 errors`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
