//! `gpubuild doctor`: finds problems and prints their causes and fixes. `diagnose.rs` examines the machine; each other file implements an
//! option that examines something else or acts on the findings.

mod binary;
mod compare;
pub(super) mod diagnose;
mod file;
mod fix;
pub(crate) mod list;
mod log;
pub(super) mod output;
mod packages;
mod resolvers;
pub(crate) mod self_check;
mod validate;

pub(super) use diagnose::exit;

use super::machine::HostArguments;
use super::{CommandContext, Exit, Failure};

/// Find problems with toolkits and drivers, and print the fix
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct DoctorArguments {
    #[command(flatten)]
    host: HostArguments,
    /// Backends that must work: a problem that blocks one of them is an error [default: those whose hardware is present]
    #[arg(long, value_name = "LIST", visible_alias = "require")]
    backends: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Run only these checks: ids separated by commas, or groups such as `nv.*`
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Skip these checks
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    skip: Vec<String>,
    /// Do not query drivers or start programs
    #[arg(long)]
    offline: bool,
    /// After confirmation, run the fixes that change only gpubuild's cache; print those for your shell; never use
    /// `sudo`
    #[arg(long)]
    fix: bool,
    /// Confirm `--fix` in advance
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Compile, link and run a small program per backend with the selected toolchain
    #[arg(long, conflicts_with = "offline")]
    validate: bool,
    /// Check a Dockerfile, compose file, workflow, manifest, devcontainer.json, script or CMake file (`-`
    /// for standard input); may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "validate", "save", "diff", "backends", "binary", "log", "resolvers"])]
    file: Vec<String>,
    /// Save a snapshot of this machine for `--diff` [default: in the user's cache]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    save: Option<String>,
    /// Show what changed since a snapshot [default: the last one that `--save` wrote]
    #[arg(long, value_name = "SNAPSHOT", num_args = 0..=1, default_missing_value = "")]
    diff: Option<String>,
    /// Predict what the loader does with an executable or library, without starting it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "save", "diff"])]
    binary: Option<String>,
    /// Find known failures in a build log (`-` for standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "validate", "save", "diff", "binary"])]
    log: Option<String>,
    /// Compare gpubuild's tables with the installed toolkits; runs their compilers
    #[arg(long, conflicts_with_all = ["list_checks", "resolvers", "fix", "validate", "save", "diff", "only", "skip", "format", "output"])]
    self_check: bool,
    /// List all checks and exit
    #[arg(long)]
    list_checks: bool,
    /// Show which copy of a toolkit each build system selects, and how to make them agree
    #[arg(long, conflicts_with_all = ["list_checks", "fix", "validate", "save", "diff", "only", "skip", "format", "output"])]
    resolvers: bool,
    /// Show which PyTorch, CuPy and ONNX Runtime packages fit this machine's GPUs
    #[arg(long, conflicts_with_all = ["list_checks", "resolvers", "fix", "validate", "save", "diff", "binary", "log", "file", "only", "skip", "backends"])]
    packages: bool,
    /// Lowest severity that makes the exit status 1
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    #[command(flatten)]
    output: output::OutputArguments,
}

/// The lowest severity that makes the result negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// Errors only.
    #[default]
    Error,
    /// Errors and warnings.
    Warning,
    /// None: the exit status is 0 unless the command fails.
    Never,
}

impl DoctorArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.output.is_json()
    }
}

/// Runs the examination that the options select.
pub fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
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
    diagnose::run(arguments, context)
}
