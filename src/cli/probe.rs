//! `gpubuild __probe ID`: the child that asks a vendor's library. Not for people.

use gpubuild_host::ask;

use super::{CommandContext, Exit, Failure};

/// Arguments of `__probe`.
#[derive(Debug, clap::Args)]
pub struct ProbeArguments {
    /// Probe id
    id: String,
    /// Paths of libraries, for probes that take some
    arguments: Vec<String>,
}

/// Runs the probe and prints the reply on a separate line: the library may have written to standard output before.
pub fn run(arguments: &ProbeArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let reply = ask::ask(&arguments.id, &arguments.arguments);
    context.printer.answer("\n")?;
    context.printer.json_line(&reply)?;
    Ok(Exit::Done)
}
