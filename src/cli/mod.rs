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

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gpubuild_host::{Host, RealHost};

pub use failure::{Exit, Failure};
pub use printer::{ColorChoice, Printer, Role, Verbosity};

/// Builds native GPU projects for every backend, and says what is wrong when it cannot.
#[derive(Debug, Parser)]
#[command(name = "gpubuild", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done, 1 the outcome is negative, 2 usage, configuration or a refused plan, 70 a bug."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// When to use colour
    #[arg(long, value_enum, global = true, default_value_t, value_name = "WHEN", help_heading = "Output")]
    color: ColorChoice,
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Show the evidence as well
    #[arg(short, long, global = true, help_heading = "Output")]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show hardware, toolkits and drivers for every backend, with reasons
    Detect(detect::Arguments),
    /// Say what is wrong, why, and how to fix it on this machine
    Doctor(Box<doctor::Arguments>),
    /// Say what a backend needs, or what the id of a finding means
    Explain(explain::Arguments),
    /// Show what would be built and how, without doing it
    Plan(plan::Arguments),
    /// Build every backend that can be built here, and the program that links them
    Build(build::Arguments),
    /// Hold what was built against what was promised: instruction sets, libraries, rpaths, libc, size
    Audit(audit::Arguments),
    /// Print what a program puts on its link line
    Link(link::Arguments),
    /// Start the program that was built
    Run(run::Arguments),
    /// Compare the kernels of every backend with the reference
    Test(test::Arguments),
    /// Measure the program on every backend that was built, and say which one to use
    Bench(bench::Arguments),
    /// Put the run-time libraries that the build needs into a Python environment
    Venv(Box<venv::Arguments>),
    /// Show what the build store holds, throw away what is old, say why a tree is not in it
    Cache(cache::Arguments),
    /// Make the jobs of a CI service from gpubuild.toml, and do them here
    Ci(Box<ci::Arguments>),
    /// Build variants and make a release of them: archives, manifest, signature, OCI layout
    Pack(Box<pack::Arguments>),
    /// Say which variant of a release is for this machine, and why not the others
    Resolve(Box<resolve::Arguments>),
    /// Install the variant of a release that is for this machine, and prove that it works
    Install(Box<install::Arguments>),
    /// Start a project from a template
    New(new::Arguments),
    /// Remove everything that was built
    Clean(clean::Arguments),
    /// Make a redacted report to paste into an issue; it replays as a recorded machine
    Report(report::Arguments),
    /// Install, list, verify and remove toolkits of gpubuild's own, without root
    Toolkit(toolkit::Arguments),
    /// Record machines for `--host`
    Host(host::Arguments),
    /// Print completions for a shell
    Completions(completions::Arguments),
    #[command(name = "__probe", hide = true)]
    Probe(probe::Arguments),
}

impl Command {
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
pub struct Context<'a> {
    /// The real host. A command that takes `--host` looks at the recording instead and still writes through this one.
    pub host: &'a dyn Host,
    /// The streams.
    pub printer: &'a Printer,
}

/// Runs the command line on the real host.
#[must_use]
pub fn main() -> ExitCode {
    let host = RealHost::new().with_own_probes();
    let arguments = Arguments::parse();
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
    let context = Context { host: &host, printer: &printer };
    let (outcome, answer) = dispatch(arguments.command, &context);
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            printer.failure(&failure);
            // The error stands on stderr already; a closed stdout changes nothing.
            let _ = match answer {
                Answer::Text => Ok(()),
                Answer::Document => printer.json(&failure.document()),
                Answer::Lines => printer.json_line(&failure.line()),
            };
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

/// What a command puts on stdout.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Text for people or for a shell.
    Text,
    /// One JSON document.
    Document,
    /// One JSON document per line.
    Lines,
}

impl Answer {
    fn document_if(json: bool) -> Self {
        if json { Self::Document } else { Self::Text }
    }
}

/// Runs the command and says which form its answer has.
fn dispatch(command: Command, context: &Context<'_>) -> (Result<Exit, Failure>, Answer) {
    match command {
        Command::Detect(arguments) => (detect::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Doctor(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (doctor::run(&arguments, context), answer)
        }
        Command::Explain(arguments) => {
            (explain::run(&arguments, context), Answer::document_if(arguments.json))
        }
        Command::Plan(arguments) => (plan::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Build(arguments) => {
            let lines = if arguments.is_json() { Answer::Lines } else { Answer::Text };
            (build::run(&arguments, context), lines)
        }
        Command::Audit(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (audit::run(&arguments, context), answer)
        }
        Command::Link(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (link::run(&arguments, context), answer)
        }
        Command::Run(arguments) => (run::run(&arguments, context), Answer::Text),
        Command::Test(arguments) => (test::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Bench(arguments) => (bench::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Toolkit(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (toolkit::run(&arguments, context), answer)
        }
        Command::Venv(arguments) => (venv::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Cache(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (cache::run(&arguments, context), answer)
        }
        Command::Ci(arguments) => {
            let answer = Answer::document_if(arguments.is_json());
            (ci::run(&arguments, context), answer)
        }
        Command::Pack(arguments) => (pack::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Resolve(arguments) => {
            (resolve::run(&arguments, context), Answer::document_if(arguments.json))
        }
        Command::Install(arguments) => {
            (install::run(&arguments, context), Answer::document_if(arguments.json))
        }
        Command::New(arguments) => (new::run(&arguments, context), Answer::document_if(arguments.json)),
        Command::Clean(arguments) => (clean::run(&arguments, context), Answer::Text),
        Command::Host(arguments) => (host::run(&arguments, context), Answer::Text),
        Command::Report(arguments) => (report::run(&arguments, context), Answer::Text),
        Command::Completions(arguments) => (completions::run(&arguments, context), Answer::Text),
        Command::Probe(arguments) => (probe::run(&arguments, context), Answer::Text),
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
pub fn absolute(context: &Context<'_>, text: &str) -> Result<gpubuild_host::HostPath, Failure> {
    let path = context.host.path(text);
    if path.is_absolute() { Ok(path) } else { Ok(context.host.current_dir()?.join(text).normalized()) }
}
