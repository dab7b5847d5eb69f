//! The whole output of the programs of one tree, kept for the first error and for the log file.

use gpubuild_host::{Command, CommandOutput, Host, HostPath, RunError};

use super::BuildJob;
use super::error::BuildError;
use crate::cmake::progress;
use crate::event::{BuildEvent, Sink};

/// Lines of all programs that ran for a tree.
pub struct BuildLog<'a> {
    host: &'a dyn Host,
    /// Lock of the folder that the programs work in.
    lock: HostPath,
    sink: Sink<'a>,
    /// Tree, or `cargo`.
    name: &'a str,
    path: HostPath,
    lines: Vec<String>,
    /// Where the last program's lines begin.
    start: usize,
}

impl<'a> BuildLog<'a> {
    /// An empty log that will be written to `path`.
    #[must_use]
    pub fn new(job: &BuildJob<'a>, name: &'a str, path: HostPath) -> Self {
        let (host, sink, lock) = (job.host, job.sink, job.lock.clone());
        Self { host, lock, sink, name, path, lines: Vec::new(), start: 0 }
    }

    /// Where it is written.
    #[must_use]
    pub fn path(&self) -> &HostPath {
        &self.path
    }

    /// The lines of the last program.
    #[must_use]
    pub fn last(&self) -> &[String] {
        &self.lines[self.start..]
    }

    /// How many lines stand before those of the last program.
    #[must_use]
    pub fn before(&self) -> usize {
        self.start
    }

    /// Runs a program, keeps its lines and tells of them. Whatever happens, the log is on disk afterwards.
    pub fn run(&mut self, command: &Command) -> Result<CommandOutput, BuildError> {
        self.run_with(command, &mut |_| true)
    }

    /// The same; lines for which `is_talk` says no are kept and not told.
    pub fn run_with(
        &mut self,
        command: &Command,
        is_talk: &mut dyn FnMut(&str) -> bool,
    ) -> Result<CommandOutput, BuildError> {
        self.lines.push(format!("$ {}", command.argv.join(" ")));
        self.start = self.lines.len();
        let (lines, sink, name) = (&mut self.lines, self.sink, self.name);
        let result = self.host.run_lines(&command.clone().under(self.lock.clone()), &mut |line| {
            lines.push(line.text.to_owned());
            if let Some(step) = progress::parse(line.text) {
                let what = step.what.to_owned();
                sink(&BuildEvent::Progress {
                    tree: name.to_owned(),
                    done: step.done,
                    total: step.total,
                    what,
                });
            } else if is_talk(line.text) {
                sink(&BuildEvent::Line { tree: name.to_owned(), text: line.text.to_owned() });
            }
        });
        self.write();
        result.map_err(|error| match error {
            RunError::Interrupted => BuildError::Interrupted,
            other => BuildError::Run(other),
        })
    }

    /// A log that cannot be written is no reason to fail: on a full disk the error itself matters more.
    fn write(&self) {
        let mut text = self.lines.join("\n");
        text.push('\n');
        let text = gpubuild_core::secret::redact(&text).text;
        if let Err(error) = self.host.write(&self.path, text.as_bytes()) {
            log::warn!("failed to write the build log `{}`: {error}", self.path);
        }
    }
}
