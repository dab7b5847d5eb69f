//! The description of a program to run, and its result.

use std::time::Duration;

use super::HostPath;

/// A program to run, with its arguments and a mandatory time limit. Standard input is empty unless `input` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program (a path, or a name that is searched on PATH) and its arguments.
    pub argv: Vec<String>,
    /// Changes to the host's environment; `None` removes a variable.
    pub env: Vec<(String, Option<String>)>,
    /// The folder to start in; the current folder if `None`.
    pub current_dir: Option<HostPath>,
    /// Time limit after which the process group is killed.
    pub deadline: Duration,
    /// Text for standard input, at most a few lines.
    pub input: String,
    /// The destination of standard output and standard error.
    pub stdio: Stdio,
    /// A lock file that gpubuild holds. No other process can acquire it while the command or any of its children runs: if
    /// gpubuild is killed, the watchdog kills the process group before it releases the lock.
    pub lock: Option<HostPath>,
}

/// The destination of a child's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Captured and returned in [`CommandOutput`].
    Capture,
    /// Inherited from gpubuild, for programs that the user runs through gpubuild.
    Inherit,
    /// Both streams go to gpubuild's standard error, for programs whose caller prints a document on standard output.
    InheritAsErrors,
    /// Inherited with standard input, in gpubuild's own process group: the program can read from the terminal, and Ctrl-C reaches it
    /// there.
    Terminal,
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
            lock: None,
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

    /// Sets the text for standard input.
    #[must_use]
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = text.into();
        self
    }

    /// Sets the folder to start in.
    #[must_use]
    pub fn current_dir(mut self, folder: HostPath) -> Self {
        self.current_dir = Some(folder);
        self
    }

    /// Sets the lock file that is held until the command and its children have ended.
    #[must_use]
    pub fn lock(mut self, file: HostPath) -> Self {
        self.lock = Some(file);
        self
    }

    /// Lets the program write directly to gpubuild's standard output and standard error.
    #[must_use]
    pub fn inherit(mut self) -> Self {
        self.stdio = Stdio::Inherit;
        self
    }

    /// Lets the program write both streams directly to gpubuild's standard error.
    #[must_use]
    pub fn inherit_as_errors(mut self) -> Self {
        self.stdio = Stdio::InheritAsErrors;
        self
    }

    /// Lets the program use gpubuild's terminal, for programs that ask the user something.
    #[must_use]
    pub fn on_terminal(mut self) -> Self {
        self.stdio = Stdio::Terminal;
        self
    }
}

/// The output and exit status of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; invalid UTF-8 is replaced.
    pub stderr: String,
    /// The exit status; `None` if the program was terminated by a signal.
    pub exit: Option<i32>,
    /// The signal that terminated the program.
    pub signal: Option<i32>,
}

impl CommandOutput {
    /// Whether the program exited with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit == Some(0)
    }

    /// How the program ended, as part of a sentence: `ended with status 1`.
    #[must_use]
    pub fn ending(&self) -> String {
        match (self.exit, self.signal) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        }
    }
}

/// One line of a running program's output.
#[derive(Debug, Clone, Copy)]
pub struct OutputLine<'a> {
    /// The stream that the line was written to.
    pub stream: Stream,
    /// The line without the line break.
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

/// Why a command has no [`CommandOutput`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The program does not exist.
    #[error("`{program}` was not found")]
    NotFound {
        /// The program as written in the command.
        program: String,
    },
    /// The program exceeded its deadline and was killed with all its children.
    #[error("`{program}` timed out after {} s", .deadline.as_secs_f32())]
    Timeout {
        /// The program as written in the command.
        program: String,
        /// Its time limit.
        deadline: Duration,
    },
    /// The program printed more than any query needs to, and was killed with all its children.
    #[error("`{program}` was stopped because it printed more than {} MiB", .limit >> 20)]
    TooMuchOutput {
        /// The program as written in the command.
        program: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The user pressed Ctrl-C, or gpubuild received a termination signal.
    #[error("interrupted")]
    Interrupted,
    /// The operating system failed to start the program.
    #[error("failed to start `{program}`: {message}")]
    Start {
        /// The program as written in the command.
        program: String,
        /// The operating system's message.
        message: String,
    },
}
