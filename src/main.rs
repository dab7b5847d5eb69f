//! The executable. All code is in [`gpubuild::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gpubuild::cli::main()
}
