//! `gpubuild completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Context, Exit, Failure};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "gpubuild", &mut script);
    context.printer.answer(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
