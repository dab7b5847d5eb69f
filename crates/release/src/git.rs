//! Runs git in the folder of a project.

use std::time::Duration;

use gpubuild_host::{Command, HostPath};

/// Settings with which git runs no program that the repository names.
const SETTINGS: [&str; 4] = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];

/// A git command that changes nothing in the repository and writes its messages in English.
#[must_use]
pub fn command(folder: &HostPath, deadline: Duration, arguments: &[&str]) -> Command {
    Command::new("git", deadline)
        .args(["--no-optional-locks"])
        .args(SETTINGS)
        .args(arguments.iter().copied())
        .current_dir(folder.clone())
        .env("LC_ALL", "C")
}
