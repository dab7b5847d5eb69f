//! `gpubuild __probe ID`: the child process that queries a driver library. Hidden from the help.

use gpubuild_host::driver_probe;

use super::{CommandContext, Exit, Failure};

/// Arguments of `__probe`.
#[derive(Debug, clap::Args)]
pub struct ProbeArguments {
    /// Probe id
    id: String,
    /// Paths of libraries, for probes that accept them
    arguments: Vec<String>,
}

/// Runs the probe and prints the reply on a separate line, since the library may have written to standard output.
pub fn run(arguments: &ProbeArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let reply = driver_probe::query(&arguments.id, &arguments.arguments);
    context.printer.print("\n")?;
    context.printer.json_line(&reply)?;
    Ok(Exit::Done)
}
