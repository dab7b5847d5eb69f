//! Runs a tool in this process.

use clap::{CommandFactory as _, FromArgMatches as _};
use gpubuild_detect::id;
use gpubuild_host::{ReadOnlyHost, RealHost};
use serde_json::{Map, Value};

use super::arguments::CallLine;
use super::tools::McpTool;
use crate::cli::{self, Arguments, CommandContext, CommandMemory, Failure, Printer, StandardInput};

/// What all calls use.
pub(super) struct ToolEnvironment {
    pub(super) host: RealHost,
    pub(super) printer: Printer,
}

/// The result of a call.
pub(super) enum ToolOutcome {
    /// The document that the command prints with `--json`.
    Answer(Value),
    /// The document of the error with which the command ends.
    Failure(Value),
}

impl ToolEnvironment {
    /// Runs a tool.
    pub(super) fn call(&self, tool: &McpTool, arguments: Map<String, Value>) -> ToolOutcome {
        let document = self.run(tool, arguments).and_then(|text| {
            serde_json::from_str(&text).map_err(|error| std::io::Error::other(error.to_string()).into())
        });
        document.map_or_else(|failure| ToolOutcome::Failure(error_document(&failure)), ToolOutcome::Answer)
    }

    /// Runs the command of a tool. Returns what it prints.
    fn run(&self, tool: &McpTool, arguments: Map<String, Value>) -> Result<String, Failure> {
        let CallLine { argv, input } = CallLine::new(tool, arguments)?;
        let arguments = Arguments::command()
            .try_get_matches_from(argv)
            .and_then(|matches| Arguments::from_arg_matches(&matches))
            .map_err(|error| invalid(&error))?;
        let printer = self.printer.buffered();
        let host = ReadOnlyHost::new(&self.host);
        let context = CommandContext {
            host: &host,
            printer: &printer,
            interrupt: self.host.interrupt(),
            input: StandardInput::Text(&input),
            memory: CommandMemory::Discard,
        };
        // A negative result, such as a problem that the doctor found, has a document too.
        let (outcome, _) = cli::dispatch(arguments.command, &context);
        outcome.map(|_| printer.take_results())
    }
}

/// An error of the command line: what is wrong, without the usage, which is about the command.
fn invalid(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    Failure::usage(id!("mcp.arguments-invalid"), message)
}

fn error_document(failure: &Failure) -> Value {
    serde_json::to_value(failure.document()).unwrap_or_default()
}
