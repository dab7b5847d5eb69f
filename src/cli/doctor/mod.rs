//! `gpubuild doctor`: what is wrong, why, and the exact fix. Without a mode it looks at the machine; the modes, one file
//! each, look at something else or do something with the findings.

mod binary;
mod compare;
mod file;
mod fix;
mod list;
mod log;
pub(super) mod machine;
pub(super) mod output;
mod packages;
mod resolvers;
mod self_check;
mod validate;

pub(super) use machine::exit;

use super::look::HostArguments;
use super::{Context, Exit, Failure};

/// Say what is wrong, why, and how to fix it on this machine
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Backends that have to work: what blocks them is an error, whatever the hardware [default: all whose hardware is
    /// present]
    #[arg(long, value_name = "LIST", visible_alias = "require")]
    backends: Option<String>,
    /// Folder with gpubuild.toml, or the file itself
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    /// Run only these checks: ids separated by commas, or groups as `nv.*`
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave these checks out
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    skip: Vec<String>,
    /// End with status 1 from this severity on
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Ask no driver and start no program: files, registry and environment only
    #[arg(long)]
    offline: bool,
    /// Run the fixes that stay inside your own folders, after showing them; never `sudo`, never a shell profile
    #[arg(long)]
    fix: bool,
    /// Agree to `--fix` beforehand
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Compile, link and run a small program per backend with the chosen toolchain
    #[arg(long, conflicts_with = "offline")]
    validate: bool,
    /// Look at a Dockerfile, compose file, workflow, Kubernetes manifest or devcontainer.json instead (`-` reads standard
    /// input); may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "validate", "save", "diff", "backends", "binary", "log", "resolvers"])]
    file: Vec<String>,
    /// Keep a snapshot of this machine for `--diff` [default: in the user's cache]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    save: Option<String>,
    /// Show what changed since a snapshot [default: the last one that `--save` kept]
    #[arg(long, value_name = "SNAPSHOT", num_args = 0..=1, default_missing_value = "")]
    diff: Option<String>,
    /// Say what the loader will do with an executable or library on this machine, without starting it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "save", "diff"])]
    binary: Option<String>,
    /// Say which known failure the output of a build shows; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "validate", "save", "diff", "binary"])]
    log: Option<String>,
    /// Compare the tables in gpubuild with what the installed toolkits say of themselves; asks their compilers
    #[arg(long, conflicts_with_all = ["list_checks", "resolvers", "fix", "validate", "save", "diff", "only", "skip", "format", "output"])]
    self_check: bool,
    /// Show every check by name and end
    #[arg(long)]
    list_checks: bool,
    /// Show which copy of a toolkit each build system will take, and the lines that make them agree
    #[arg(long, conflicts_with_all = ["list_checks", "fix", "validate", "save", "diff", "only", "skip", "format", "output"])]
    resolvers: bool,
    /// Show which builds of PyTorch and CuPy fit the GPUs of this machine
    #[arg(long, conflicts_with_all = ["list_checks", "resolvers", "fix", "validate", "save", "diff", "binary", "log", "file", "only", "skip", "backends"])]
    packages: bool,
    #[command(flatten)]
    output: output::OutputArguments,
}

/// From which severity on the outcome is negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// Errors.
    #[default]
    Error,
    /// Warnings as well.
    Warning,
    /// Nothing: for reports.
    Never,
}

impl Arguments {
    /// Whether the answer is a document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.output.is_json()
    }
}

/// Looks and tells.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    arguments.output.check()?;
    if arguments.list_checks {
        return list::run(arguments, context);
    }
    if arguments.resolvers {
        return resolvers::run(arguments, context);
    }
    if arguments.packages {
        return packages::run(arguments, context);
    }
    if arguments.self_check {
        return self_check::run(arguments, context);
    }
    if let Some(file) = &arguments.binary {
        return binary::run(arguments, file, context);
    }
    if let Some(file) = &arguments.log {
        return log::run(arguments, file, context);
    }
    if !arguments.file.is_empty() {
        return file::run(arguments, context);
    }
    machine::run(arguments, context)
}
