//! `gpubuild completions SHELL`.

use clap_complete::Shell;

use super::{CommandContext, Exit, Failure};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArguments {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script.
pub fn run(arguments: &CompletionsArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command_line(), "gpubuild", &mut script);
    context.printer.answer(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
