//! The command line: one command = one file. The only user of clap, console and indicatif; [`printer`] is the only
//! writer of standard output and standard error.
//!
//! A command is a struct of arguments with a function `run(args, &Context) -> Result<Exit, Failure>`.

pub mod audit;
pub mod bench;
pub mod build;
pub mod cache;
pub mod ci;
pub mod clean;
pub mod completions;
pub mod detect;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod failure;
pub mod host;
pub mod install;
pub mod link;
mod logging;
pub mod look;
pub mod new;
pub mod pack;
pub mod plan;
pub mod printer;
pub mod probe;
mod provision;
pub mod release;
pub mod report;
pub mod resolve;
pub mod run;
pub mod test;
mod timings;
pub mod toolkit;
pub mod venv;
mod words;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use gpubuild_host::{Host, HostInfo, RealHost};

pub use failure::{Exit, Failure};
pub use printer::{ColorChoice, Printer, TextRole, Verbosity};

/// Build native GPU projects for every backend, and diagnose toolkits and drivers
#[derive(Debug, Parser)]
#[command(name = "gpubuild", version, propagate_version = true, max_term_width = 80)]
#[command(
    after_help = "Exit status: 0 success, 1 negative result, 2 usage, configuration or refused plan, 70 internal error, 130 interrupted."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: GpubuildCommand,
    /// When to use colour: `auto`, `always` or `never`
    #[arg(long, value_enum, global = true, default_value_t, value_name = "WHEN", help_heading = "Output")]
    #[arg(hide_possible_values = true)]
    color: ColorChoice,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Print the evidence too
    #[arg(short, long, global = true, help_heading = "Output")]
    verbose: bool,
}

/// The commands by task, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Look", &["detect", "doctor", "explain", "report", "host"]),
    ("Build", &["new", "plan", "build", "run", "test", "bench", "link", "audit", "clean"]),
    ("Ship", &["ci", "pack", "resolve", "install"]),
    ("Maintain", &["toolkit", "venv", "cache", "completions"]),
];

/// The command line as clap sees it, with the commands grouped in its help, which clap cannot do by itself.
#[must_use]
pub fn command_line() -> clap::Command {
    let command = Arguments::command();
    let (heading, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let _ = write!(groups, "\n\n{heading}{group}:{heading:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = write!(groups, "\n  {literal}{name:<13}{literal:#}{about}");
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}{groups}\n\n{{options}}{{after-help}}"
    ))
}

#[derive(Debug, Subcommand)]
enum GpubuildCommand {
    /// Show hardware, toolkits and drivers for every backend
    Detect(detect::DetectArguments),
    /// Find problems with toolkits and drivers, and print the fix
    Doctor(Box<doctor::DoctorArguments>),
    /// Explain what a backend needs, or what a finding means
    Explain(explain::ExplainArguments),
    /// Show what would be built and how, without building
    Plan(plan::PlanArguments),
    /// Build the backends and the program that links them
    Build(build::BuildArguments),
    /// Check build outputs against declared requirements
    Audit(audit::AuditArguments),
    /// Print the flags that link the built libraries
    Link(link::LinkArguments),
    /// Run the built program
    Run(run::RunArguments),
    /// Test the kernels of every backend against the reference
    Test(test::TestArguments),
    /// Benchmark the program on every built backend
    Bench(bench::BenchArguments),
    /// Install runtime libraries into a Python environment
    Venv(Box<venv::VenvArguments>),
    /// Manage the build store
    Cache(cache::CacheArguments),
    /// Generate CI jobs, or run them locally
    Ci(Box<ci::CiArguments>),
    /// Build variants and pack them into a release
    Pack(Box<pack::PackArguments>),
    /// Select the variant of a release for this machine
    Resolve(Box<resolve::ResolveArguments>),
    /// Install the matching variant of a release and smoke-test it
    Install(Box<install::InstallArguments>),
    /// Create a project from a template
    New(new::NewArguments),
    /// Remove the build folder
    Clean(clean::CleanArguments),
    /// Write a redacted report that replays as a recorded machine
    Report(report::ReportArguments),
    /// Install and manage toolkits without root
    Toolkit(toolkit::ToolkitArguments),
    /// Record machines for `--host`
    Host(host::HostCommandArguments),
    /// Print shell completions
    Completions(completions::CompletionsArguments),
    #[command(name = "__probe", hide = true)]
    Probe(probe::ProbeArguments),
}

impl GpubuildCommand {
    /// Whether the command starts no process and keeps nothing on disk: then Ctrl-C may end it as it ends any program.
    fn only_looks(&self) -> bool {
        matches!(self, Self::Detect(arguments) if !arguments.asks_drivers())
            || matches!(self, Self::Ci(arguments) if arguments.only_looks())
            || matches!(self, Self::New(arguments) if arguments.only_looks())
            || matches!(self, Self::Plan(_) | Self::Explain(_) | Self::Completions(_))
    }
}

/// What every command gets: the machine that we run on, and the printer.
#[derive(Clone, Copy)]
pub struct CommandContext<'a> {
    /// The real host. A command that takes `--host` looks at the recording instead and still writes through this one.
    pub host: &'a dyn Host,
    /// The streams.
    pub printer: &'a Printer,
}

/// Runs the command line on the real host.
#[must_use]
pub fn main() -> ExitCode {
    let host = RealHost::new().with_own_probes();
    let arguments = Arguments::from_arg_matches(&command_line().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    let verbosity = match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let printer = Printer::new(verbosity, arguments.color, host.env());
    logging::start(&host);
    if !arguments.command.only_looks() {
        listen_for_interrupts(&host);
    }
    let context = CommandContext { host: &host, printer: &printer };
    let (outcome, answer) = dispatch(arguments.command, &context);
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            printer.failure(&failure);
            // The error is on stderr already; a closed stdout does not matter.
            let _ = match answer {
                CommandAnswer::Text => Ok(()),
                CommandAnswer::Document => printer.json(&failure.document()),
                CommandAnswer::Lines => printer.json_line(&failure.line()),
            };
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

/// What a command puts on stdout.
#[derive(Debug, Clone, Copy)]
enum CommandAnswer {
    /// Text for people or for a shell.
    Text,
    /// One JSON document.
    Document,
    /// One JSON document per line.
    Lines,
}

impl CommandAnswer {
    fn document_if(json: bool) -> Self {
        if json { Self::Document } else { Self::Text }
    }
}

/// Runs the command and says which form its answer has.
fn dispatch(
    command: GpubuildCommand,
    context: &CommandContext<'_>,
) -> (Result<Exit, Failure>, CommandAnswer) {
    match command {
        GpubuildCommand::Detect(arguments) => {
            (detect::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Doctor(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (doctor::run(&arguments, context), answer)
        }
        GpubuildCommand::Explain(arguments) => {
            (explain::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Plan(arguments) => {
            (plan::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Build(arguments) => {
            let lines = if arguments.is_json() { CommandAnswer::Lines } else { CommandAnswer::Text };
            (build::run(&arguments, context), lines)
        }
        GpubuildCommand::Audit(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (audit::run(&arguments, context), answer)
        }
        GpubuildCommand::Link(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (link::run(&arguments, context), answer)
        }
        GpubuildCommand::Run(arguments) => (run::run(&arguments, context), CommandAnswer::Text),
        GpubuildCommand::Test(arguments) => {
            (test::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Bench(arguments) => {
            (bench::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Toolkit(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (toolkit::run(&arguments, context), answer)
        }
        GpubuildCommand::Venv(arguments) => {
            (venv::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Cache(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (cache::run(&arguments, context), answer)
        }
        GpubuildCommand::Ci(arguments) => {
            let answer = CommandAnswer::document_if(arguments.is_json());
            (ci::run(&arguments, context), answer)
        }
        GpubuildCommand::Pack(arguments) => {
            (pack::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Resolve(arguments) => {
            (resolve::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Install(arguments) => {
            (install::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::New(arguments) => {
            (new::run(&arguments, context), CommandAnswer::document_if(arguments.json))
        }
        GpubuildCommand::Clean(arguments) => (clean::run(&arguments, context), CommandAnswer::Text),
        GpubuildCommand::Host(arguments) => (host::run(&arguments, context), CommandAnswer::Text),
        GpubuildCommand::Report(arguments) => (report::run(&arguments, context), CommandAnswer::Text),
        GpubuildCommand::Completions(arguments) => {
            (completions::run(&arguments, context), CommandAnswer::Text)
        }
        GpubuildCommand::Probe(arguments) => (probe::run(&arguments, context), CommandAnswer::Text),
    }
}

/// Ctrl-C and a request to end stop every child first; a second one ends us at once.
fn listen_for_interrupts(host: &RealHost) {
    let interrupt = host.interrupt_handle();
    let installed = ctrlc::set_handler(move || {
        let waiting = interrupt.trigger();
        if !waiting || interrupt.requests() > 1 {
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "nothing is running that could return"
            )]
            std::process::exit(Exit::Interrupted.code().into());
        }
    });
    if let Err(error) = installed {
        log::debug!("failed to install a handler for Ctrl-C: {error}");
    }
}

/// A path of the command line, from the current folder.
pub fn absolute(context: &CommandContext<'_>, text: &str) -> Result<gpubuild_host::HostPath, Failure> {
    let path = context.host.path(text);
    if path.is_absolute() { Ok(path) } else { Ok(context.host.current_dir()?.join(text).normalized()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once() {
        let command = command_line();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn no_help_is_wider_than_80_columns() {
        fn check(command: &mut clap::Command, path: &str) {
            let help = command.clone().term_width(80).render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            for one in command.get_subcommands_mut() {
                let path = format!("{path} {}", one.get_name());
                check(one, &path);
            }
        }
        let mut command = command_line();
        command.build();
        check(&mut command, "gpubuild");
    }
}
