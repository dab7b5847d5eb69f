//! Runs a tool in this process.

use clap::{CommandFactory as _, FromArgMatches as _};
use gpubuild_core::clean;
use gpubuild_detect::id;
use gpubuild_host::{ProgramAccess, ReadOnlyHost, RealHost};
use serde_json::{Map, Value};

use super::arguments::CallLine;
use super::tools::McpTool;
use crate::cli::{self, Arguments, CommandContext, CommandMemory, Failure, Printer, StandardInput};

/// What all calls use.
pub(super) struct ToolEnvironment {
    pub(super) host: RealHost,
    /// Whether a command may start programs and probe drivers.
    pub(super) programs: ProgramAccess,
    pub(super) printer: Printer,
}

/// The result of a call: the document that the command prints with `--json`, also if it fails.
pub(super) struct ToolOutcome {
    /// The document in the order of the command, without white space. Hidden characters are escaped.
    pub(super) text: String,
    pub(super) document: Value,
    /// Whether it is the document of an error.
    pub(super) is_error: bool,
}

impl ToolEnvironment {
    /// Runs a tool.
    ///
    /// # Errors
    /// The command has not printed one document.
    pub(super) fn call(
        &self,
        tool: &McpTool,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutcome, serde_json::Error> {
        let (text, is_error) = match self.run(tool, arguments) {
            Ok(text) => (compact(&text), false),
            Err(failure) => {
                let text = serde_json::to_string(&failure.document())?;
                (clean::json(&text).into_owned(), true)
            }
        };
        Ok(ToolOutcome { document: serde_json::from_str(&text)?, text, is_error })
    }

    /// Runs the command of a tool. Returns what it prints.
    fn run(&self, tool: &McpTool, arguments: Map<String, Value>) -> Result<String, Failure> {
        let CallLine { argv, input } = CallLine::new(tool, arguments, self.programs)?;
        let arguments = Arguments::command()
            .try_get_matches_from(argv)
            .and_then(|matches| Arguments::from_arg_matches(&matches))
            .map_err(|error| invalid(&error))?;
        let printer = self.printer.buffered();
        let host = ReadOnlyHost::new(&self.host, self.programs);
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

/// The JSON text without white space between its tokens.
fn compact(json: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |character: &char| {
        if !is_string {
            is_string = *character == '"';
            return !character.is_ascii_whitespace();
        }
        is_string = is_escaped || *character != '"';
        is_escaped = !is_escaped && *character == '\\';
        true
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_in_strings_is_kept() {
        let text = "{\n  \"a \\\" b\": [ 1, \"\\\\\" ],\n  \"c\": \" \" }\n";
        assert_eq!(compact(text), r#"{"a \" b":[1,"\\"],"c":" "}"#);
    }
}
