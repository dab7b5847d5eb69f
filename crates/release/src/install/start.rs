//! Starts what was installed, in a child with a deadline: what is not proved is not switched to.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_host::{Command, HostPath, RunError, RunPrograms};

use super::InstallError;
use super::state::Proof;
use crate::manifest::ProgramStart;

/// Lines that are shown of what it said.
const LINES: usize = 8;
/// Stands for the backend's id.
const BACKEND: &str = "{backend}";

/// Starts a program where it is to stay, in the environment that the user has, which is the one that it will be used in.
///
/// # Errors
/// It can't be started, or does not end well.
pub(super) fn prove(
    host: &dyn RunPrograms,
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
        let told = start.check.iter().map(|argument| argument.replace(BACKEND, backend.id()));
        (told.collect(), Proof::Checked)
    };
    let failed = |what: String, said: Vec<String>| InstallError::Start {
        label: label.to_owned(),
        backend: backend.id().to_owned(),
        what,
        said,
    };
    let line = [&start.program].into_iter().chain(&arguments).cloned().collect::<Vec<_>>().join(" ");
    match host.run(&Command::new(program.as_str(), deadline).args(arguments)) {
        Ok(output) if output.success() => Ok(proof),
        Ok(output) => {
            let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
            let lines: Vec<String> =
                said.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
            let last = lines[lines.len().saturating_sub(LINES)..].to_vec();
            Err(failed(format!("`{line}` {}", output.ending()), last))
        }
        Err(RunError::Interrupted) => Err(InstallError::Interrupted),
        Err(RunError::Timeout { deadline, .. }) => {
            Err(failed(format!("`{line}` did not end within {} s", deadline.as_secs()), Vec::new()))
        }
        Err(error) => Err(failed(error.to_string(), Vec::new())),
    }
}
