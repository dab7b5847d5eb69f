//! The command line: one command = one file. The only user of clap, console and indicatif; `printer` is the only
//! writer of standard output and standard error.

use std::process::ExitCode;

/// Runs the command line on the real host.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
