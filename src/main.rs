//! Hands the arguments and the real host to [`gpubuild::cli::main`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gpubuild::cli::main()
}
