//! Converts the arguments of a call into the command line of its tool.

use clap::{Arg, ArgAction, CommandFactory as _};
use gpubuild_core::clean;
use gpubuild_detect::id;
use gpubuild_host::ProgramAccess;
use serde_json::{Map, Value};

use super::tools::{McpTool, ToolProperty};
use crate::cli::{Arguments, Failure};

/// The longest name of an argument in a message, in characters.
const LONGEST_NAME: usize = 100;

/// The command of a tool, as the command line defines it.
pub(super) fn command(tool: &McpTool) -> clap::Command {
    let mut all = Arguments::command();
    // Global options and the headings of the help do not matter here, so the command is not built.
    let name = tool.command[0];
    all.find_subcommand_mut(name).map_or_else(|| unreachable!("no command `{name}`"), std::mem::take)
}

/// The command line of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CallLine {
    /// The program, the command and its arguments.
    pub(super) argv: Vec<String>,
    /// Standard input of the command.
    pub(super) input: String,
}

impl CallLine {
    /// Converts the arguments of a call. A value cannot become another option: options are written as `--name=value`, and positional
    /// arguments follow `--`.
    pub(super) fn new(
        tool: &McpTool,
        arguments: Map<String, Value>,
        programs: ProgramAccess,
    ) -> Result<Self, Failure> {
        check_choice(tool, &arguments)?;
        // A recording answers from its own content.
        let is_restricted = programs == ProgramAccess::Refuse && !arguments.contains_key("host");
        let command = command(tool);
        let mut call = Self::default();
        call.argv.push("gpubuild".to_owned());
        call.argv.extend(tool.command.iter().map(ToString::to_string));
        let mut positional = None;
        for (name, value) in arguments {
            let property = property(tool, &name)?;
            let Some(argument) = property.argument(&command) else { continue };
            if argument.is_positional() {
                positional = Some(text(&name, value)?);
            } else if property.target.is_input() {
                call.input = text(&name, value)?;
                call.add(argument, "-");
            } else {
                call.set(argument, &name, value)?;
            }
        }
        if let Some(option) =
            tool.files_only.filter(|option| is_restricted && !call.argv.iter().any(|one| one == option))
        {
            call.argv.push(option.to_owned());
        }
        call.argv.extend(positional.map(|value| ["--".to_owned(), value]).into_iter().flatten());
        Ok(call)
    }

    fn set(&mut self, argument: &Arg, name: &str, value: Value) -> Result<(), Failure> {
        match argument.get_action() {
            ArgAction::SetTrue => {
                if value.as_bool().ok_or_else(|| mistyped(name, "true or false"))? {
                    self.argv.push(format!("--{}", argument.get_long().unwrap_or(name)));
                }
            }
            ArgAction::Append => {
                let Value::Array(values) = value else { return Err(mistyped(name, "an array of strings")) };
                for value in values {
                    self.add(argument, &text(name, value)?);
                }
            }
            _ => self.add(argument, &text(name, value)?),
        }
        Ok(())
    }

    fn add(&mut self, argument: &Arg, value: &str) {
        let name = argument.get_long().unwrap_or_default();
        self.argv.push(format!("--{name}={value}"));
    }
}

/// Checks that exactly one of `tool.one_of` is there, if it names any.
fn check_choice(tool: &McpTool, arguments: &Map<String, Value>) -> Result<(), Failure> {
    let count = tool.one_of.iter().filter(|name| arguments.contains_key(**name)).count();
    if tool.one_of.is_empty() || count == 1 {
        return Ok(());
    }
    let message = format!("`{}` needs exactly one of the arguments {}", tool.name, tool.one_of.join(", "));
    Err(Failure::usage(id!("mcp.arguments-invalid"), message))
}

fn property<'a>(tool: &'a McpTool, name: &str) -> Result<&'a ToolProperty, Failure> {
    let found = tool.properties.iter().find(|property| property.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = tool.properties.iter().map(|property| property.name).collect();
        let name = clean::short(name, LONGEST_NAME);
        let message = format!("`{}` has no argument `{name}`", tool.name);
        Failure::usage(id!("mcp.arguments-invalid"), message).hint_of_known(&name, "its arguments", &known)
    })
}

fn text(name: &str, value: Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(mistyped(name, "a string")),
    }
}

fn mistyped(name: &str, expected: &str) -> Failure {
    Failure::usage(id!("mcp.arguments-invalid"), format!("the argument `{name}` must be {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tools;
    use super::*;

    fn line(tool: &str, arguments: Value) -> Result<CallLine, Failure> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        CallLine::new(tools::find(tool).unwrap(), arguments, ProgramAccess::Allow)
    }

    fn argv(tool: &str, arguments: Value) -> String {
        line(tool, arguments).unwrap().argv.join(" ")
    }

    #[test]
    fn arguments_become_options() {
        assert_eq!(argv("detect", json!({})), "gpubuild detect --json");
        assert_eq!(
            argv(
                "plan",
                json!({ "allow_missing": true, "native": false, "toolkit": ["cuda=13.0", "rocm=6"] })
            ),
            "gpubuild plan --json --allow-missing --toolkit=cuda=13.0 --toolkit=rocm=6"
        );
        assert_eq!(
            argv("explain", json!({ "what": "cuda", "host": "a b" })),
            "gpubuild explain --json --host=a b -- cuda"
        );
    }

    #[test]
    fn values_are_no_options() {
        assert_eq!(argv("explain", json!({ "what": "--help" })), "gpubuild explain --json -- --help");
        assert_eq!(
            argv("doctor", json!({ "backends": "--fix", "only": ["--yes"] })),
            "gpubuild doctor --json --backends=--fix --only=--yes"
        );
    }

    #[test]
    fn programs_of_this_machine_are_started_only_if_allowed() {
        let doctor = |arguments: Value, programs| {
            let Value::Object(arguments) = arguments else { panic!("{arguments}") };
            CallLine::new(tools::find("doctor").unwrap(), arguments, programs).unwrap().argv.join(" ")
        };
        let (json, offline) = ("gpubuild doctor --json", "gpubuild doctor --json --offline");
        assert_eq!(doctor(json!({}), ProgramAccess::Allow), json);
        assert_eq!(doctor(json!({}), ProgramAccess::Refuse), offline);
        assert_eq!(doctor(json!({ "offline": true }), ProgramAccess::Refuse), offline);
        assert_eq!(doctor(json!({ "offline": false }), ProgramAccess::Refuse), offline);
        assert_eq!(doctor(json!({ "host": "a" }), ProgramAccess::Refuse), format!("{json} --host=a"));
    }

    #[test]
    fn text_of_a_log_is_standard_input() {
        let call = line("diagnose_log", json!({ "text": "--fix\n" })).unwrap();
        assert_eq!(
            (call.argv.join(" ").as_str(), call.input.as_str()),
            ("gpubuild doctor --json --log=-", "--fix\n")
        );
        assert_eq!(argv("diagnose_log", json!({ "path": "a.log" })), "gpubuild doctor --json --log=a.log");
    }

    #[test]
    fn invalid_arguments_are_named() {
        let check = |tool: &str, arguments: Value, message: &str| {
            let failure = line(tool, arguments).unwrap_err();
            assert_eq!(
                (failure.id.to_string().as_str(), failure.message.as_str()),
                ("mcp.arguments-invalid", message)
            );
        };
        check("detect", json!({ "probe": true }), "`detect` has no argument `probe`");
        check("detect", json!({ "host": 1 }), "the argument `host` must be a string");
        check("doctor", json!({ "offline": "yes" }), "the argument `offline` must be true or false");
        check("doctor", json!({ "only": "nv.*" }), "the argument `only` must be an array of strings");
        for arguments in [json!({}), json!({ "text": "", "path": "" })] {
            check("diagnose_log", arguments, "`diagnose_log` needs exactly one of the arguments text, path");
        }
    }
}
