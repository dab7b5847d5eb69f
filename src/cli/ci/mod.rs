//! `gpubuild ci`: the jobs of a project for a service, written, checked and run here.

mod matrix;
mod run;
mod workflow;

use gpubuild_detect::toolkit::Catalogue;
use gpubuild_plan::project::Project;
use gpubuild_release::ci::{Images, Rows, Scene, rows};

use super::look;
use super::{Context, Exit, Failure};
use crate::report;

/// Arguments of `ci`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the jobs that follow from the variants of gpubuild.toml
    Matrix(matrix::Arguments),
    /// Write the file that makes GitHub or GitLab run them
    Init(workflow::InitArguments),
    /// Fail if that file is not what `init` would write
    Verify(workflow::VerifyArguments),
    /// Do one of the jobs here, with the same commands
    Run(run::RunArguments),
    /// Say whether a build would come to its end, before it is started
    Preflight(run::PreflightArguments),
    /// Print what jobs can run on
    Images,
}

impl Arguments {
    /// Whether the answer is a document.
    pub(super) fn is_json(&self) -> bool {
        match &self.command {
            Command::Matrix(arguments) => arguments.is_json(),
            Command::Preflight(arguments) => arguments.json,
            _ => false,
        }
    }

    /// Whether nothing is started and nothing written.
    pub(super) fn only_looks(&self) -> bool {
        !matches!(self.command, Command::Run(_) | Command::Init(_))
    }
}

/// Does what was asked for.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Matrix(arguments) => matrix::run(arguments, context),
        Command::Init(arguments) => workflow::init(arguments, context),
        Command::Verify(arguments) => workflow::verify(arguments, context),
        Command::Run(arguments) => run::run(arguments, context),
        Command::Preflight(arguments) => run::preflight(arguments, context),
        Command::Images => {
            context.printer.answer(&report::ci::images(Images::embedded()))?;
            Ok(Exit::Done)
        }
    }
}

/// The rows of the project here.
fn made(context: &Context<'_>, folder: Option<&str>) -> Result<(Project, Rows), Failure> {
    let project = look::project(context, folder)?;
    let locks = super::plan::locks(context, Some(&project))?;
    let catalogue = Catalogue::embedded();
    let rows =
        rows(&Scene { project: &project, catalogue: &catalogue, locks: &locks, images: Images::embedded() });
    Ok((project, rows))
}

/// Refuses rows that gpubuild.toml names and that there can't be; the others are told.
fn refuse_impossible(context: &Context<'_>, rows: &Rows, allow: bool) -> Result<(), Failure> {
    let named: Vec<_> = rows.dropped.iter().filter(|one| one.named).collect();
    if allow || named.is_empty() {
        for one in &rows.dropped {
            context.printer.detail(&format!("left out {}: {}", one.name, one.reasons.join("; ")));
        }
        for one in named {
            context.printer.warning(&format!("left out {}: {}", one.name, one.reasons.join("; ")));
        }
        return Ok(());
    }
    let lines: Vec<String> =
        named.iter().map(|one| format!("  {}: {}", one.name, one.reasons.join("; "))).collect();
    Err(Failure::usage("ci.impossible", format!("these jobs can't succeed:\n{}", lines.join("\n")))
        .hint("correct `[[variants]]` in gpubuild.toml, or leave them out with `--allow-missing`"))
}
