//! A description of a program to run, and what came of it.

use std::time::Duration;

use super::HostPath;

/// A program with its arguments. Standard input is empty unless it is given; a deadline is mandatory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program (a path, or a bare name that is searched on PATH) and arguments.
    pub argv: Vec<String>,
    /// Variables set on top of the host's environment; `None` removes one.
    pub env: Vec<(String, Option<String>)>,
    /// Folder to start in; the current one if `None`.
    pub current_dir: Option<HostPath>,
    /// After this long the whole process group is ended.
    pub deadline: Duration,
    /// What it reads on standard input, a few lines at most.
    pub input: String,
    /// Where its standard output and error go.
    pub stdio: Stdio,
    /// A lock that we hold, which nobody else gets while anything that this command started is at work, even if we are
    /// killed: then it is ended first.
    pub under: Option<HostPath>,
}

/// Where a child's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Kept and returned.
    Capture,
    /// Straight to our own standard output and error, for programs that the user runs through us.
    Inherit,
}

impl Command {
    /// A command with the given program and deadline.
    #[must_use]
    pub fn new(program: impl Into<String>, deadline: Duration) -> Self {
        Self {
            argv: vec![program.into()],
            env: Vec::new(),
            current_dir: None,
            deadline,
            input: String::new(),
            stdio: Stdio::Capture,
            under: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<String>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Says what it reads on standard input.
    #[must_use]
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = text.into();
        self
    }

    /// Starts in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: HostPath) -> Self {
        self.current_dir = Some(folder);
        self
    }

    /// Ties it to a lock that we hold.
    #[must_use]
    pub fn under(mut self, lock: HostPath) -> Self {
        self.under = Some(lock);
        self
    }

    /// Lets the child write to our own standard output and error.
    #[must_use]
    pub fn inherit(mut self) -> Self {
        self.stdio = Stdio::Inherit;
        self
    }
}

/// What a program printed and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; invalid UTF-8 is replaced.
    pub stderr: String,
    /// Exit status, `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Output {
    /// Whether it ended with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit == Some(0)
    }

    /// How it ended, to follow a name: `ended with status 1`.
    #[must_use]
    pub fn ending(&self) -> String {
        match (self.exit, self.signal) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        }
    }
}

/// One line of a running program.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Which of the two streams.
    pub stream: Stream,
    /// The line without its end.
    pub text: &'a str,
}

/// Standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why there is no [`Output`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No such program.
    #[error("`{program}` was not found")]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// It did not end in time and was stopped with all its children.
    #[error("`{program}` did not answer within {} s and was stopped", .deadline.as_secs_f32())]
    Timeout {
        /// As it was asked for.
        program: String,
        /// How long it had.
        deadline: Duration,
    },
    /// The user pressed Ctrl-C, or we were asked to end.
    #[error("interrupted")]
    Interrupted,
    /// It could not be started.
    #[error("failed to start `{program}`: {message}")]
    Start {
        /// As it was asked for.
        program: String,
        /// What the operating system said.
        message: String,
    },
}
