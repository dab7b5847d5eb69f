//! `cargo gpubuild …`: starts the `gpubuild` beside this program, else the one on PATH, with the same arguments.
//!
//! It links nothing of gpubuild, so that packages with both programs are not twice as large.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Both programs failed to start, as in shells.
const NOT_STARTED: u8 = 127;
/// The id of that error.
const ID: &str = "cargo.not-started";

fn main() -> ExitCode {
    let program = program();
    #[expect(
        clippy::disallowed_methods,
        reason = "this program has no host, and waits for gpubuild without a time limit"
    )]
    let mut command = Command::new(&program);
    command.args(arguments(std::env::args_os()));
    match run(&mut command) {
        Ok(code) => code,
        Err(error) => {
            use io::Write as _;
            let text = format!(
                "error: failed to start `{}`: {error} [{ID}]\nhint: `cargo install gpubuild` installs both programs\n",
                program.display()
            );
            // Without standard error, the exit code remains.
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// `gpubuild` in the folder of this program, or its bare name.
fn program() -> PathBuf {
    let name = format!("gpubuild{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(&name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// The arguments for gpubuild. Cargo passes the name of the subcommand first: `cargo-gpubuild gpubuild detect`.
fn arguments(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut rest = all.skip(1).peekable();
    rest.next_if(|first| first == "gpubuild");
    rest.collect()
}

/// Replaces this process, so that signals reach gpubuild directly.
#[cfg(unix)]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_subcommand_is_removed_once() {
        let of = |words: &[&str]| arguments(words.iter().map(OsString::from));
        assert_eq!(of(&["cargo-gpubuild", "gpubuild", "detect"]), ["detect"]);
        assert_eq!(of(&["cargo-gpubuild", "gpubuild", "gpubuild"]), ["gpubuild"]);
        assert_eq!(of(&["cargo-gpubuild", "detect"]), ["detect"]);
        assert!(of(&["cargo-gpubuild"]).is_empty());
    }
}
