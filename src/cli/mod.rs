//! The command line: one command = one file. The only user of clap, console and indicatif; [`printer`] is the only
//! writer of standard output and standard error.
//!
//! A command is a struct of arguments with a function `run(args, &Context) -> Result<Exit, Failure>`.

pub mod failure;
pub mod printer;

use std::process::ExitCode;

use crate::host::Host;
pub use failure::{Exit, Failure};
pub use printer::{ColorChoice, Printer, Role, Verbosity};

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
    ExitCode::SUCCESS
}
