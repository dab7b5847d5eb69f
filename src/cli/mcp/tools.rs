//! The tools: commands that only examine, and the options that a client may set. An option that is not listed is not offered, so that a
//! new option of a command is no new ability of the client.

use serde_json::{Map, Value, json};

use super::arguments;

/// A tool.
#[derive(Debug)]
pub(super) struct McpTool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// The command, with the options that every call has.
    pub(super) command: &'static [&'static str],
    /// The option without which the command starts programs of this machine.
    pub(super) files_only: Option<&'static str>,
    /// What a client may set.
    pub(super) properties: &'static [ToolProperty],
    /// Properties of which a call has to set exactly one.
    pub(super) one_of: &'static [&'static str],
}

/// An argument of a tool.
#[derive(Debug)]
pub(super) struct ToolProperty {
    pub(super) name: &'static str,
    /// What it sets.
    pub(super) target: ToolTarget,
    /// The description; `None` for that of the option.
    pub(super) description: Option<&'static str>,
}

/// What an argument of a tool sets. The text is the id of an option or positional argument of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolTarget {
    /// The argument.
    Argument(&'static str),
    /// Standard input, which the argument reads as the file `-`.
    Input(&'static str),
}

impl ToolTarget {
    pub(super) fn is_input(self) -> bool {
        matches!(self, Self::Input(_))
    }
}

/// An option with the name and the description that it has on the command line.
const fn option(name: &'static str) -> ToolProperty {
    ToolProperty { name, target: ToolTarget::Argument(name), description: None }
}

const fn described(name: &'static str, description: &'static str) -> ToolProperty {
    ToolProperty { name, target: ToolTarget::Argument(name), description: Some(description) }
}

const HOST: ToolProperty =
    described("host", "Path of a recording of another machine, to examine instead of this one");
const TOOLKITS: ToolProperty = option("toolkits");
const PROJECT: ToolProperty = described(
    "project",
    "Folder of the project [default: the nearest folder with gpubuild.toml, from the server's working directory upwards]",
);

pub(super) const TOOLS: [McpTool; 6] = [
    McpTool {
        name: "detect",
        title: "Detect GPUs, toolkits and drivers",
        description: "Show for each backend (cpu, cuda, rocm, metal, vulkan, sycl, opencl) whether its hardware is present, \
                      whether it can be built for and whether it can run, with reasons. Reads files only.",
        command: &["detect", "--json"],
        files_only: None,
        properties: &[option("backends"), HOST, TOOLKITS],
        one_of: &[],
    },
    McpTool {
        name: "doctor",
        title: "Diagnose toolkits and drivers",
        description: "Find problems with GPU toolkits and drivers on this machine, or in files such as Dockerfiles, workflows and \
                      programs, with their causes and the commands that fix them. Runs none of the fixes. Drivers are queried only if the \
                      server was started with `--drivers`.",
        command: &["doctor", "--json"],
        files_only: Some("--offline"),
        properties: &[
            option("backends"),
            PROJECT,
            HOST,
            TOOLKITS,
            option("only"),
            option("skip"),
            option("offline"),
            described(
                "file",
                "Check these files instead of the machine: Dockerfiles, compose files, workflows, Kubernetes manifests, \
                 devcontainer.json, scripts or CMake files",
            ),
            described(
                "binary",
                "Predict instead what the loader does with this executable or library, without starting it",
            ),
            option("resolvers"),
            option("packages"),
            option("list_checks"),
        ],
        one_of: &[],
    },
    McpTool {
        name: "diagnose_log",
        title: "Diagnose a build log",
        description: "Find known failures in the output of a build or of a program that uses a GPU, and the commands that fix them. \
                      Specify `text` or `path`.",
        command: &["doctor", "--json"],
        files_only: None,
        properties: &[
            ToolProperty {
                name: "text",
                target: ToolTarget::Input("log"),
                description: Some("The log; at most 16 MiB with the rest of the message"),
            },
            ToolProperty {
                name: "path",
                target: ToolTarget::Argument("log"),
                description: Some("Path of a file with the log, of any size"),
            },
            described("host", "Path of a recording of the machine on which the log was written"),
            TOOLKITS,
        ],
        one_of: &["text", "path"],
    },
    McpTool {
        name: "plan",
        title: "Plan a build",
        description: "Show what `gpubuild build` would build and how, without building: backends, CMake options, compilers, \
                      architectures, and why backends are left out.",
        command: &["plan", "--json"],
        files_only: None,
        properties: &[
            option("backends"),
            PROJECT,
            HOST,
            TOOLKITS,
            option("allow_missing"),
            option("provision"),
            option("variant"),
            option("toolkit"),
            option("target"),
            option("cuda_archs"),
            option("linkage"),
            option("launcher"),
            option("native"),
        ],
        one_of: &[],
    },
    McpTool {
        name: "explain",
        title: "Explain a backend, finding or error",
        description: "Explain what a backend needs and what of it is installed, or what the id of a finding or an error means and how \
                      to fix it.",
        command: &["explain", "--json"],
        files_only: None,
        properties: &[option("what"), HOST, TOOLKITS],
        one_of: &[],
    },
    McpTool {
        name: "resolve",
        title: "Select a variant of a release",
        description: "Select the variant of a local release that fits this machine, and explain why the others do not; or with \
                      `python`, the builds of PyTorch, CuPy and ONNX Runtime. Opens no connection.",
        command: &["resolve", "--json", "--offline"],
        files_only: None,
        properties: &[
            described("manifest", "Folder of a release, or its manifest.json"),
            option("python"),
            option("properties"),
            option("variant"),
            option("backend"),
            option("devices"),
            option("key"),
            option("name"),
            option("allow_older"),
            HOST,
            TOOLKITS,
        ],
        one_of: &[],
    },
];

/// The tool with a name.
pub(super) fn find(name: &str) -> Option<&'static McpTool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl McpTool {
    /// The JSON schema of the arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let command = arguments::command(self);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for property in self.properties {
            let argument = property.argument(&command);
            properties.insert(property.name.to_owned(), property.schema(argument));
            if argument.is_some_and(clap::Arg::is_required_set) {
                required.push(property.name);
            }
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }
}

impl ToolProperty {
    /// The argument of the command that it sets.
    pub(super) fn argument<'a>(&self, command: &'a clap::Command) -> Option<&'a clap::Arg> {
        let (ToolTarget::Argument(id) | ToolTarget::Input(id)) = self.target;
        command.get_arguments().find(|argument| argument.get_id() == id)
    }

    fn schema(&self, argument: Option<&clap::Arg>) -> Value {
        let help = argument.and_then(clap::Arg::get_help).map(ToString::to_string);
        let description = self.description.map(str::to_owned).or(help).unwrap_or_default();
        let values: Vec<String> = argument
            .map(clap::Arg::get_possible_values)
            .unwrap_or_default()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        match argument.map_or(&clap::ArgAction::Set, clap::Arg::get_action) {
            clap::ArgAction::SetTrue => json!({ "type": "boolean", "description": description }),
            clap::ArgAction::Append => {
                json!({ "type": "array", "items": { "type": "string" }, "description": description })
            }
            _ if values.is_empty() => json!({ "type": "string", "description": description }),
            _ => json!({ "type": "string", "enum": values, "description": description }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_an_argument_of_its_command() {
        for tool in &TOOLS {
            let command = arguments::command(tool);
            for property in tool.properties {
                assert!(property.argument(&command).is_some(), "{}: {}", tool.name, property.name);
            }
        }
    }

    /// What changes the machine, starts programs of the project, or needs the network. The names are those of the options.
    #[test]
    fn no_tool_offers_an_option_that_changes_something() {
        const REFUSED: [&str; 12] = [
            "fix",
            "yes",
            "validate",
            "save",
            "diff",
            "output",
            "format",
            "self_check",
            "install",
            "venv",
            "insecure_http",
            "probe",
        ];
        for tool in &TOOLS {
            for property in tool.properties {
                assert!(!REFUSED.contains(&property.name), "{}: {}", tool.name, property.name);
            }
        }
    }
}
