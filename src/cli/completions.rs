//! `gpubuild completions SHELL`.

use clap_complete::Shell;
use clap_complete::env::Shells;

use super::{CommandContext, Exit, Failure};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArguments {
    /// Shell that will run the script
    #[arg(value_enum)]
    shell: Shell,
}

/// The variable with which the script requests candidates from the program; `clap_complete` reads it.
const VARIABLE: &str = "COMPLETE";

/// The script for bash. The one of `clap_complete` does not complete `--backends=…` and `cuda@…`, where bash splits words.
const BASH: &str = include_str!("completions.bash");

/// Prints the completion script. It calls `gpubuild` for candidates, so that ids and templates are those of that version.
pub fn run(arguments: &CompletionsArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.shell == Shell::Bash {
        context.printer.print_input(BASH)?;
        return Ok(Exit::Done);
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&arguments.shell.to_string());
    if let Some(completer) = completer {
        completer.write_registration(VARIABLE, "gpubuild", "gpubuild", "gpubuild", &mut script)?;
    }
    context.printer.print_input(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
