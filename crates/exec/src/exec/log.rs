//! Collects the output of all programs that run for a tree, for error diagnosis and for the log file.

use gpubuild_host::{Command, CommandOutput, Host, HostPath, RunError};

use super::BuildJob;
use super::error::BuildError;
use super::kept_lines::KeptLines;
use crate::cmake::progress;
use crate::event::{BuildEvent, Sink};

/// The output lines of all programs that ran for a tree.
pub struct BuildLog<'a> {
    host: &'a dyn Host,
    /// Lock file of the folder that the programs write to.
    lock: HostPath,
    sink: Sink<'a>,
    /// Id of the tree, or `cargo`.
    name: &'a str,
    path: HostPath,
    lines: Vec<String>,
    /// Index of the first line of the last program.
    start: usize,
}

impl<'a> BuildLog<'a> {
    /// Creates an empty log that is written to `path` after each program.
    #[must_use]
    pub fn new(job: &BuildJob<'a>, name: &'a str, path: HostPath) -> Self {
        let (host, sink, lock) = (job.host, job.sink, job.lock.clone());
        Self { host, lock, sink, name, path, lines: Vec::new(), start: 0 }
    }

    /// Path of the log file.
    #[must_use]
    pub fn path(&self) -> &HostPath {
        &self.path
    }

    /// The lines of the last program.
    #[must_use]
    pub fn last(&self) -> &[String] {
        &self.lines[self.start..]
    }

    /// Number of lines before those of the last program.
    #[must_use]
    pub fn before(&self) -> usize {
        self.start
    }

    /// Runs a program, collects its output and sends it as events. The log file is written even if the program fails.
    pub fn run(&mut self, command: &Command) -> Result<CommandOutput, BuildError> {
        self.run_with(command, &mut |_| true)
    }

    /// Like [`Self::run`], but sends no events for lines for which `is_shown` returns `false`.
    pub fn run_with(
        &mut self,
        command: &Command,
        is_shown: &mut dyn FnMut(&str) -> bool,
    ) -> Result<CommandOutput, BuildError> {
        self.lines.push(format!("$ {}", command.argv.join(" ")));
        self.start = self.lines.len();
        let (sink, name) = (self.sink, self.name);
        let mut lines = KeptLines::default();
        let result = self.host.run_lines(&command.clone().lock(self.lock.clone()), &mut |line| {
            lines.push(line.text);
            if let Some(step) = progress::parse(line.text) {
                let what = step.what.to_owned();
                sink(&BuildEvent::Progress {
                    tree: name.to_owned(),
                    done: step.done,
                    total: step.total,
                    what,
                });
            } else if is_shown(line.text) {
                sink(&BuildEvent::Line { tree: name.to_owned(), text: line.text.to_owned() });
            }
        });
        lines.move_to(&mut self.lines);
        self.write();
        result.map_err(|error| match error {
            RunError::Interrupted => BuildError::Interrupted,
            other => BuildError::Run(other),
        })
    }

    /// Writes the log file. A failure is only logged: on a full disk the error of the build is more important.
    fn write(&self) {
        let mut text = self.lines.join("\n");
        text.push('\n');
        let text = gpubuild_core::secret::redact(&text).text;
        if let Err(error) = self.host.write(&self.path, text.as_bytes()) {
            log::warn!("failed to write the build log `{}`: {error}", self.path);
        }
    }
}
