//! Hands the command line to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    infer::cli::main()
}
