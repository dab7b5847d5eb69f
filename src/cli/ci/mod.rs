//! `gpubuild ci`: generates and verifies CI workflows, and runs their jobs locally.

mod changes;
mod cluster;
mod matrix;
mod run;
mod workflow;

use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_plan::project::Project;
use gpubuild_release::ci::{DroppedRow, Images, RowContext, Rows, rows};

use super::project::{load_project, open_project};
use super::{CommandContext, Exit, Failure};
use crate::report::ci;
use crate::report::ci_images::CiImagesReport;

/// Arguments of `ci`.
#[derive(Debug, clap::Args)]
pub struct CiArguments {
    #[command(subcommand)]
    command: CiCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CiCommand {
    /// Print the jobs for the variants in gpubuild.toml
    Matrix(matrix::CiMatrixArguments),
    /// Write the workflow file for GitHub or GitLab
    Init(workflow::InitArguments),
    /// Check that the workflow file is what `init` would write
    Verify(workflow::VerifyArguments),
    /// Run a job on this machine
    Run(run::CiRunArguments),
    /// Check whether a build would succeed, before starting it
    Preflight(run::PreflightArguments),
    /// List the images that jobs can run on
    Images(ImagesArguments),
}

/// Arguments of `ci images`.
#[derive(Debug, clap::Args)]
struct ImagesArguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl CiArguments {
    /// Whether standard output is one JSON document.
    pub(super) fn is_json(&self) -> bool {
        match &self.command {
            CiCommand::Matrix(arguments) => arguments.is_json(),
            CiCommand::Init(arguments) => arguments.json,
            CiCommand::Verify(arguments) => arguments.json,
            CiCommand::Run(arguments) => arguments.json,
            CiCommand::Preflight(arguments) => arguments.json,
            CiCommand::Images(arguments) => arguments.json,
        }
    }

    /// Whether the subcommand starts no process and writes no file.
    pub(super) fn is_read_only(&self) -> bool {
        match &self.command {
            CiCommand::Matrix(arguments) => !arguments.starts_git(),
            CiCommand::Run(_) | CiCommand::Init(_) => false,
            _ => true,
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &CiArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        CiCommand::Matrix(arguments) => matrix::run(arguments, context),
        CiCommand::Init(arguments) => workflow::init(arguments, context),
        CiCommand::Verify(arguments) => workflow::verify(arguments, context),
        CiCommand::Run(arguments) => run::run(arguments, context),
        CiCommand::Preflight(arguments) => run::preflight(arguments, context),
        CiCommand::Images(arguments) => {
            let images = match open_project(context, None) {
                Ok(project) => images(context, &project)?,
                Err(failure) if failure.id == "project.not-found" => Images::embedded().clone(),
                Err(failure) => return Err(failure),
            };
            let document = CiImagesReport::new(&images);
            if arguments.json {
                context.printer.json(&document)?;
            } else {
                context.printer.print(&document.text())?;
            }
            Ok(Exit::Done)
        }
    }
}

/// Loads the project and computes its CI jobs.
fn load_rows(context: &CommandContext<'_>, folder: Option<&str>) -> Result<(Project, Rows), Failure> {
    let project = load_project(context, folder)?;
    let rows = rows_of(context, &project)?;
    Ok((project, rows))
}

/// Computes the CI jobs of a project.
fn rows_of(context: &CommandContext<'_>, project: &Project) -> Result<Rows, Failure> {
    let mut locks = super::plan::locks(context, Some(project))?;
    // NVIDIA's containers have CUDA 12; its archives were not tried on the machines of CI services.
    locks.retain(|lock| !lock.has_archives());
    let catalogue = Catalogue::embedded();
    let images = images(context, project)?;
    Ok(rows(&RowContext { project, catalogue: &catalogue, locks: &locks, images: &images }))
}

/// The known images and those of the project.
fn images(context: &CommandContext<'_>, project: &Project) -> Result<Images, Failure> {
    let mut images = Images::embedded().clone();
    for (name, table) in &project.file.ci.images {
        if images.get(name).is_some() {
            let message = format!("`[ci.images.{name}]` has the name of a built-in image");
            return Err(Failure::usage(id!("ci.image-name"), message)
                .hint("choose another name; `gpubuild ci images` lists the built-in images"));
        }
        let path = project.root.join(&table.host);
        let failure = |problem: &dyn std::fmt::Display| {
            Failure::usage(id!("ci.image-host"), format!("`host` in `[ci.images.{name}]`: {problem}"))
                .hint("record it on that machine: `gpubuild host record FILE`")
        };
        let text = context
            .host
            .read_text(&path)
            .map_err(|error| failure(&format!("failed to read `{path}`: {error}")))?;
        images.add(name, table, &text).map_err(|error| failure(&error))?;
    }
    Ok(images)
}

/// Rejects impossible jobs that gpubuild.toml names, unless `allow` is set. Other impossible jobs are dropped.
fn check_dropped(context: &CommandContext<'_>, rows: &Rows, allow: bool) -> Result<(), Failure> {
    let line = |one: &&DroppedRow| format!("{}: {}", one.name, one.reasons.join("; "));
    let lines = |rows: &[&DroppedRow]| ci::first_rows(rows.iter().map(line).collect());
    let all: Vec<&DroppedRow> = rows.dropped.iter().collect();
    let named: Vec<&DroppedRow> = all.iter().copied().filter(|one| one.named).collect();
    if allow || named.is_empty() {
        for line in lines(&all) {
            context.printer.detail(&format!("omitted {line}"));
        }
        for line in lines(&named) {
            context.printer.warning(&format!("omitted {line}"));
        }
        return Ok(());
    }
    let lines: Vec<String> = lines(&named).iter().map(|line| format!("  {line}")).collect();
    Err(Failure::usage(id!("ci.impossible"), format!("these jobs cannot succeed:\n{}", lines.join("\n")))
        .hint(
            "fix `[[variants]]` in gpubuild.toml (`gpubuild ci images` lists the toolkits of all images), or skip the jobs with `--allow-missing`",
        ))
}
