//! `gpubuild run`: runs the built program with inherited streams and returns its exit code.

use std::time::Duration;

use gpubuild_detect::id;
use gpubuild_exec::environment::VenvRecord;
use gpubuild_exec::exec::binary;
use gpubuild_host::{Command, HostPath, Os, RunError};
use gpubuild_plan::project::Project;

use super::project::open_project;
use super::target::{SelectedTarget, TargetArgument};
use super::{CommandContext, Exit, Failure};

/// Ten years: the program has no time limit, but the host interface requires one.
const DEADLINE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The hint for a project that consists of libraries only.
pub(super) const NO_BINARY: &str = "set the package in gpubuild.toml: `[binary] package = \"…\"`";

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArguments {
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    #[command(flatten)]
    target: TargetArgument,
    /// Arguments for the program, after `--`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// Runs the program of the last build.
pub fn run(arguments: &RunArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut project = open_project(context, arguments.project.as_deref())?;
    let target = arguments.target.apply_to(&mut project)?;
    let built = binary::last_built(context.host, &project.build_root)
        .filter(|program| context.host.is_file(&context.host.path(&program.path)));
    let Some(program) = built else {
        if project.file.binary.is_none() {
            return Err(
                Failure::usage(id!("run.no-binary"), "this project has no program to run").hint(NO_BINARY)
            );
        }
        return Err(Failure::usage(id!("run.nothing-built"), "no program has been built yet")
            .hint("run `gpubuild build`"));
    };
    let folders = windows_folders(context, &project.build_root);
    let mut words = runner(context, &project, &target)?;
    words.push(program.path);
    words.extend_from_slice(&arguments.arguments);
    start(context, &words[0], &words[1..], &folders)
}

/// The command that starts the project's programs for a target.
pub(super) fn runner(
    context: &CommandContext<'_>,
    project: &Project,
    target: &SelectedTarget,
) -> Result<Vec<String>, Failure> {
    let package = project.file.binary.as_ref().map(|binary| project.root.join(&binary.package).normalized());
    target.runner(context.host, package.as_ref().unwrap_or(&project.root))
}

/// The library folders of the project's Python environment on Windows. They must be on PATH, since programs contain no search path there.
pub(super) fn windows_folders(context: &CommandContext<'_>, build_root: &HostPath) -> Vec<String> {
    if context.host.platform().os != Os::Windows {
        return Vec::new();
    }
    VenvRecord::read(context.host, build_root).map(|record| record.folders).unwrap_or_default()
}

/// Prepends the folders of [`windows_folders`] to the PATH of a program.
pub(super) fn with_folders(context: &CommandContext<'_>, command: Command, folders: &[String]) -> Command {
    if folders.is_empty() {
        return command;
    }
    let path = context.host.env().get("PATH").unwrap_or_default();
    command.env("PATH", format!("{};{path}", folders.join(";")))
}

/// Runs a program and returns its exit code.
pub(super) fn start(
    context: &CommandContext<'_>,
    program: &str,
    arguments: &[String],
    folders: &[String],
) -> Result<Exit, Failure> {
    let command = Command::new(program, DEADLINE).args(arguments.iter().map(String::as_str)).inherit();
    let command = with_folders(context, command, folders);
    let output = context.host.run(&command).map_err(|error| match error {
        RunError::Interrupted => {
            Failure { exit: Exit::Interrupted, ..Failure::negative(id!("run.interrupted"), "interrupted") }
        }
        other => Failure::negative(id!("run.failed"), other.to_string())
            .hint("run `gpubuild doctor --binary PROGRAM`, which says what the program needs to start"),
    })?;
    let code = match (output.exit, output.signal) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        // The convention of shells.
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        (None, None) => 1,
    };
    Ok(Exit::Child(code))
}
