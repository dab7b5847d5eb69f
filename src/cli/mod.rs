//! The command line, with one file per command. Only this module uses clap, console and indicatif, and only [`printer`] writes to
//! standard output and standard error.
//!
//! A command is a struct of arguments and a function `run(&arguments, &context) -> Result<Exit, Failure>`.

pub mod audit;
pub mod bench;
pub mod build;
pub mod cache;
pub mod ci;
pub mod clean;
pub mod completions;
mod crash;
pub mod detect;
pub mod doctor;
mod document;
pub mod estimate;
pub mod events;
pub mod explain;
pub mod export;
pub mod failure;
pub mod fetch;
mod help;
pub mod host;
mod input;
pub mod install;
pub mod link;
mod logging;
pub mod machine;
pub mod man;
pub mod mcp;
pub mod new;
pub mod pack;
pub mod plan;
pub mod printer;
pub mod probe;
pub mod project;
mod prompt;
mod provision;
pub mod reference;
pub mod release;
pub mod report;
pub mod resolve;
pub mod run;
pub mod self_update;
pub mod setup;
pub mod sources;
pub mod target;
pub mod test;
mod timings;
pub mod toolkit;
mod tools;
mod values;
mod variables;
pub mod venv;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;
use gpubuild_core::secret;
use gpubuild_detect::id;
use gpubuild_host::interrupt::Interrupt;
use gpubuild_host::{Host, HostInfo, RealHost, signals};

use failure::check_listable;
pub use failure::{Exit, Failure};
pub use help::command_line;
pub use input::StandardInput;
pub use printer::{ColorChoice, Printer, TextRole, Verbosity};

/// Build native GPU projects for every backend, and diagnose toolkits and drivers
#[derive(Debug, Parser)]
#[command(name = "gpubuild", version, propagate_version = true, max_term_width = 80)]
#[command(
    after_help = "Exit status: 0 success; 1 failure, or a negative result; 2 invalid usage or configuration, or a build that cannot be planned; 70 internal error; 128+N ended by signal N: 130 Ctrl-C, 143 SIGTERM."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: GpubuildCommand,
    #[command(flatten)]
    output: OutputArguments,
}

/// The options that all commands have.
#[derive(Debug, clap::Args)]
struct OutputArguments {
    /// When to use colour: `auto`, `always` or `never`
    #[arg(long, value_enum, global = true, default_value_t, value_name = "WHEN", help_heading = "Output")]
    #[arg(hide_possible_values = true)]
    color: ColorChoice,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Print details such as evidence
    #[arg(short, long, global = true, help_heading = "Output")]
    verbose: bool,
}

/// The command line of `gpubuild detect` alone. All arguments of all other commands take longer than this command may take.
#[derive(Debug, Parser)]
#[command(name = "gpubuild")]
struct DetectLine {
    #[command(subcommand)]
    command: DetectCommand,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Subcommand)]
enum DetectCommand {
    Detect(detect::DetectArguments),
}

#[derive(Debug, Subcommand)]
enum GpubuildCommand {
    /// Show hardware, toolkits and drivers for every backend
    Detect(detect::DetectArguments),
    /// Find problems with toolkits and drivers, and print the fix
    Doctor(Box<doctor::DoctorArguments>),
    /// Apply the doctor's fixes, step by step
    Setup(Box<setup::SetupArguments>),
    /// Explain what a backend needs, or what a finding means
    Explain(explain::ExplainArguments),
    /// Show what would be built and how, without building
    Plan(plan::PlanArguments),
    /// Download the sources that gpubuild.toml names, and missing tools
    Fetch(fetch::FetchArguments),
    /// Pin the newest sources that gpubuild.toml allows in gpubuild.lock
    Update(fetch::UpdateArguments),
    /// Build the backends and the program that links them
    Build(build::BuildArguments),
    /// Check build outputs against declared requirements
    Audit(audit::AuditArguments),
    /// Print the flags that link the built libraries
    Link(link::LinkArguments),
    /// Write the libraries, headers and a CMake package into a folder
    Export(export::ExportArguments),
    /// Run the built program
    Run(run::RunArguments),
    /// Test the kernels of every backend against the reference
    Test(test::TestArguments),
    /// Benchmark the program on every built backend
    Bench(bench::BenchArguments),
    /// Estimate which devices fit a language model, and its speed
    Estimate(Box<estimate::EstimateArguments>),
    /// Install run-time libraries into a Python environment
    Venv(Box<venv::VenvArguments>),
    /// Manage the build store and the shared store
    Cache(cache::CacheArguments),
    /// Generate CI jobs, or run them locally
    Ci(Box<ci::CiArguments>),
    /// Build variants and pack them into a release
    Pack(Box<pack::PackArguments>),
    /// Select the variant of a release for this machine
    Resolve(Box<resolve::ResolveArguments>),
    /// Install the matching variant of a release and smoke-test it
    Install(Box<install::InstallArguments>),
    /// Update gpubuild itself
    #[command(name = "self")]
    Own(self_update::SelfArguments),
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
    /// Print or write the manual pages
    Man(man::ManArguments),
    /// Serve read-only tools to editors and agents (MCP)
    Mcp(mcp::McpArguments),
    #[command(name = "__probe", hide = true)]
    Probe(probe::ProbeArguments),
}

impl GpubuildCommand {
    /// Whether the command starts no process and writes no file. Such a command needs no handler for Ctrl-C.
    fn is_read_only(&self) -> bool {
        matches!(self, Self::Detect(arguments) if !arguments.starts_processes())
            || matches!(self, Self::Ci(arguments) if arguments.is_read_only())
            || matches!(self, Self::New(arguments) if arguments.is_read_only())
            || matches!(self, Self::Plan(_) | Self::Explain(_) | Self::Completions(_))
            // It has its own handler.
            || matches!(self, Self::Mcp(_))
    }
}

/// The inputs that every command receives beside its arguments.
#[derive(Clone, Copy)]
pub struct CommandContext<'a> {
    /// The real host. With `--host`, a command examines the recording, but reads and writes its own files through this host.
    pub host: &'a dyn Host,
    /// Standard output and standard error.
    pub printer: &'a Printer,
    /// The requests to end the command.
    pub interrupt: &'a Interrupt,
    /// Standard input, or what replaces it.
    pub input: StandardInput<'a>,
    /// Whether the command may remember something in gpubuild's cache.
    pub memory: CommandMemory,
}

/// Whether a command that only examines something may remember it in gpubuild's cache, such as the serial of a verified release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandMemory {
    /// It remembers it.
    Keep,
    /// It changes nothing: a tool of `gpubuild mcp`.
    Discard,
}

impl CommandContext<'_> {
    /// Ends a command whose child processes were ended by a signal: what it knows about the machine is incomplete.
    ///
    /// # Errors
    /// A signal has arrived.
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        if !self.interrupt.requested() {
            return Ok(());
        }
        Err(Failure { exit: Exit::Interrupted, ..Failure::negative(id!("interrupted"), "interrupted") })
    }
}

/// Runs the command line on the real host.
#[must_use]
pub fn main() -> ExitCode {
    crash::report_panics();
    // Exits if a shell asks for completions.
    CompleteEnv::with_factory(command_line).complete();
    let host = RealHost::new().with_own_probes();
    let kept = signals::keep_write_errors();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return print_usage(&error, &host),
    };
    let verbosity = match (arguments.output.quiet, arguments.output.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let printer = Printer::new(verbosity, arguments.output.color, host.env());
    if !matches!(arguments.command, GpubuildCommand::Probe(_))
        && let Err(failure) = variables::check(&host)
    {
        return print_failure(&failure, &printer, requested_output());
    }
    logging::start(&host);
    if let Err(error) = kept {
        log::debug!("failed to install a handler for SIGXFSZ: {error}");
    }
    if let Err(error) = signals::keep_exit_statuses() {
        log::debug!("failed to stop ignoring SIGCHLD: {error}");
    }
    if !arguments.command.is_read_only()
        && let Err(error) = signals::listen(&host)
    {
        log::debug!("failed to install a handler for signals: {error}");
    }
    let is_detect = matches!(arguments.command, GpubuildCommand::Detect(_));
    if is_detect {
        host.examine_files_once();
    }
    let context = CommandContext {
        host: &host,
        printer: &printer,
        interrupt: host.interrupt(),
        input: StandardInput::Process,
        memory: CommandMemory::Keep,
    };
    let (outcome, output) = dispatch(arguments.command, &context);
    let exit = match outcome {
        Ok(exit @ Exit::Child(_)) => exit,
        // It may have continued without the child processes that the signal ended.
        Ok(exit) => host.interrupt().signal().map_or(exit, Exit::Signal),
        Err(mut failure) => {
            failure.exit = failure.exit.with_signal(host.interrupt().signal());
            printer.failure(&failure);
            print_document(&failure, &printer, output);
            failure.exit
        }
    };
    if is_detect {
        // The process ends now: to free all remembered paths first would only take time.
        std::mem::forget(host);
    }
    ExitCode::from(exit.code())
}

fn parse() -> Result<Arguments, clap::Error> {
    if std::env::args_os().nth(1).is_some_and(|name| name == "detect")
        && let Ok(DetectLine { command: DetectCommand::Detect(detect), output }) = DetectLine::try_parse()
    {
        return Ok(Arguments { command: GpubuildCommand::Detect(detect), output });
    }
    // Headings, examples and completions take as long as the rest of a short command: only help and errors need them.
    let matches = Arguments::command().try_get_matches().or_else(|error| match error.kind() {
        ErrorKind::DisplayVersion => Err(error),
        _ => command_line().try_get_matches(),
    })?;
    Arguments::from_arg_matches(&matches)
}

/// Prints help, the version or an error in the arguments.
fn print_usage(error: &clap::Error, host: &RealHost) -> ExitCode {
    let printer = Printer::new(Verbosity::Normal, ColorChoice::Auto, host.env());
    if error.kind() == ErrorKind::InvalidUtf8 {
        let message = "an argument is not UTF-8";
        let failure = Failure::usage(id!("usage.path-not-utf8"), message).hint(
            "rename the file or folder: gpubuild writes paths into files that must be UTF-8, such as JSON and CMake scripts",
        );
        return print_failure(&failure, &printer, requested_output());
    }
    if let Err(cause) = printer.usage(error) {
        return print_failure(&Failure::from(cause), &printer, OutputKind::Text);
    }
    if error.use_stderr() {
        print_document(&usage_failure(error), &printer, requested_output());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The failure of an invalid command line, for the JSON forms.
fn usage_failure(error: &clap::Error) -> Failure {
    let text = secret::redact(&error.to_string()).text.into_owned();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let message = text.split("\n\nUsage:").next().unwrap_or(text).trim();
    Failure::usage(id!("usage.invalid"), message).hint("`--help` lists the arguments of the command")
}

/// Prints a failure on stderr, and on stdout in the form of the command's output.
fn print_failure(failure: &Failure, printer: &Printer, output: OutputKind) -> ExitCode {
    printer.failure(failure);
    print_document(failure, printer, output);
    ExitCode::from(failure.exit.code())
}

/// Prints a failure on stdout in the form of the command's output.
fn print_document(failure: &Failure, printer: &Printer, output: OutputKind) {
    // The error is already printed to stderr, so a closed stdout does not matter.
    let _ = match output {
        OutputKind::Text => Ok(()),
        OutputKind::Document => printer.json(&failure.document()),
        OutputKind::Lines => printer.json_line(&failure.line()),
    };
}

/// The form of the output that a command line requests which cannot be parsed.
fn requested_output() -> OutputKind {
    let arguments = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    output_of(&arguments.map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>())
}

fn output_of(arguments: &[String]) -> OutputKind {
    let is_json = |index: usize| match arguments[index].as_str() {
        "--json" | "--format=json" | "--message-format=json" => true,
        "--format" | "--message-format" => arguments.get(index + 1).is_some_and(|value| value == "json"),
        _ => false,
    };
    let command = arguments.iter().find(|argument| !argument.starts_with('-'));
    match command.map(String::as_str) {
        _ if !(0..arguments.len()).any(is_json) => OutputKind::Text,
        Some("build" | "setup") => OutputKind::Lines,
        _ => OutputKind::Document,
    }
}

/// The form of a command's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    /// Text for people or shells.
    Text,
    /// One JSON document.
    Document,
    /// One JSON document per line.
    Lines,
}

impl OutputKind {
    fn document_if(json: bool) -> Self {
        if json { Self::Document } else { Self::Text }
    }
}

/// Runs the command. Returns the form of its output as well, since a failure is printed in the same form.
fn dispatch(command: GpubuildCommand, context: &CommandContext<'_>) -> (Result<Exit, Failure>, OutputKind) {
    match command {
        GpubuildCommand::Detect(arguments) => {
            (detect::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Doctor(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (doctor::run(&arguments, context), output)
        }
        GpubuildCommand::Setup(arguments) => {
            let lines = if arguments.json { OutputKind::Lines } else { OutputKind::Text };
            (setup::run(&arguments, context), lines)
        }
        GpubuildCommand::Explain(arguments) => {
            (explain::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Plan(arguments) => {
            (plan::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Fetch(arguments) => {
            (fetch::run(&arguments, context), OutputKind::document_if(arguments.is_json()))
        }
        GpubuildCommand::Update(arguments) => {
            (fetch::update(&arguments, context), OutputKind::document_if(arguments.is_json()))
        }
        GpubuildCommand::Build(arguments) => {
            let lines = if arguments.is_json() { OutputKind::Lines } else { OutputKind::Text };
            (build::run(&arguments, context), lines)
        }
        GpubuildCommand::Audit(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (audit::run(&arguments, context), output)
        }
        GpubuildCommand::Link(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (link::run(&arguments, context), output)
        }
        GpubuildCommand::Export(arguments) => {
            (export::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Run(arguments) => (run::run(&arguments, context), OutputKind::Text),
        GpubuildCommand::Test(arguments) => {
            (test::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Bench(arguments) => {
            (bench::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Estimate(arguments) => {
            (estimate::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Toolkit(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (toolkit::run(&arguments, context), output)
        }
        GpubuildCommand::Venv(arguments) => {
            (venv::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Cache(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (cache::run(&arguments, context), output)
        }
        GpubuildCommand::Ci(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (ci::run(&arguments, context), output)
        }
        GpubuildCommand::Pack(arguments) => {
            (pack::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Resolve(arguments) => {
            (resolve::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Install(arguments) => {
            (install::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Own(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (self_update::run(&arguments, context), output)
        }
        GpubuildCommand::New(arguments) => {
            (new::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Clean(arguments) => {
            (clean::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Host(arguments) => {
            let output = OutputKind::document_if(arguments.is_json());
            (host::run(&arguments, context), output)
        }
        GpubuildCommand::Report(arguments) => {
            (report::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Completions(arguments) => (completions::run(&arguments, context), OutputKind::Text),
        GpubuildCommand::Man(arguments) => {
            (man::run(&arguments, context), OutputKind::document_if(arguments.json))
        }
        GpubuildCommand::Mcp(arguments) => (mcp::run(&arguments, context.printer), OutputKind::Text),
        GpubuildCommand::Probe(arguments) => (probe::run(&arguments, context), OutputKind::Text),
    }
}

/// The absolute form of a path from the command line, relative to the current folder.
pub fn absolute(context: &CommandContext<'_>, text: &str) -> Result<gpubuild_host::HostPath, Failure> {
    let path = context.host.path(text);
    if path.is_absolute() { Ok(path) } else { Ok(context.host.current_dir()?.join(text).normalized()) }
}
