//! `gpubuild __probe ID`: the child that asks a vendor's library. Not for people.

use gpubuild_host::ask;

use super::{Context, Exit, Failure};

/// Arguments of `__probe`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Probe id
    id: String,
    /// Paths of libraries, for probes that take some
    arguments: Vec<String>,
}

/// Asks, and prints the reply on a line of its own: the library may have written to standard output before.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let reply = ask::ask(&arguments.id, &arguments.arguments);
    context.printer.answer("\n")?;
    context.printer.json_line(&reply)?;
    Ok(Exit::Done)
}
