//! Smoke-tests an installed program in a child process with a time limit.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_host::{Command, HostPath, InspectHost, RunError};

use super::InstallError;
use super::state::Proof;
use crate::manifest::ProgramStart;

/// The number of output lines in an error.
const LINES: usize = 8;
/// The placeholder for the backend's id in arguments.
const BACKEND: &str = "{backend}";

/// Runs the program at its final path in the user's environment.
///
/// # Errors
/// The program cannot be started, fails or exceeds the time limit.
pub(super) fn smoke_test(
    host: &dyn InspectHost,
    folder: &HostPath,
    label: &str,
    backend: Backend,
    start: &ProgramStart,
    deadline: Duration,
) -> Result<Proof, InstallError> {
    let program = folder.join(&start.program);
    let (arguments, proof) = if start.check.is_empty() {
        (vec!["--version".to_owned()], Proof::Started)
    } else {
        let arguments = start.check.iter().map(|argument| argument.replace(BACKEND, backend.id()));
        (arguments.collect(), Proof::Checked)
    };
    let failed = |what: String, output: Vec<String>| InstallError::Start {
        label: label.to_owned(),
        backend: backend.id().to_owned(),
        what,
        output,
    };
    let line = [&start.program].into_iter().chain(&arguments).cloned().collect::<Vec<_>>().join(" ");
    match host.run(&Command::new(program.as_str(), deadline).args(arguments)) {
        // A program that removes itself would be installed as a file that does not exist.
        Ok(output) if output.success() && !host.is_file(&program) => {
            Err(failed(format!("`{line}` removed the program"), Vec::new()))
        }
        Ok(output) if output.success() => Ok(proof),
        Ok(output) => {
            let text = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
            let lines: Vec<String> =
                text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
            let last = lines[lines.len().saturating_sub(LINES)..].to_vec();
            Err(failed(format!("`{line}` {}", output.ending()), last))
        }
        Err(RunError::Interrupted) => Err(InstallError::Interrupted),
        Err(RunError::Timeout { deadline, .. }) => {
            Err(failed(format!("`{line}` did not finish within {} s", deadline.as_secs()), Vec::new()))
        }
        Err(error) => Err(failed(error.to_string(), Vec::new())),
    }
}
