//! The only writer of standard output and standard error: the answer goes to stdout, the talk to stderr.

use std::io::{self, Write};

use console::{Style, Term};
use gpubuild_core::clean;
use gpubuild_core::secret;
use serde::Serialize;

use super::failure::Failure;

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb`; always with `CLICOLOR_FORCE`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// What a person wants to know.
    Normal,
    /// Evidence as well.
    Verbose,
}

/// Writes answers and talk.
#[derive(Debug, Clone)]
pub struct Printer {
    verbosity: Verbosity,
    color_stdout: bool,
    color_stderr: bool,
    progress: bool,
}

/// Fixed roles of colours; none carries meaning alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    /// Ready, done.
    Good,
    /// Blocked, failed.
    Bad,
    /// Attention.
    Caution,
    /// Hints, paths, commands.
    Hint,
    /// Of lesser weight.
    Dim,
    /// Headings.
    Strong,
}

impl Printer {
    /// A printer for this process's streams. `no_color` and `force_color` are what the environment says.
    #[must_use]
    pub fn new(verbosity: Verbosity, choice: ColorChoice, env: &gpubuild_host::Environment) -> Self {
        let (stdout, stderr) = (Term::stdout(), Term::stderr());
        let refused = env.get("NO_COLOR").is_some() || env.get("TERM") == Some("dumb");
        let forced = env.get("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let color = |terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => forced || (terminal && !refused),
        };
        Self {
            verbosity,
            color_stdout: color(stdout.is_term()),
            color_stderr: color(stderr.is_term()),
            progress: stderr.is_term() && env.get("TERM") != Some("dumb") && verbosity > Verbosity::Quiet,
        }
    }

    /// How much is said.
    #[must_use]
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether a progress bar may be drawn on stderr.
    #[must_use]
    pub fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Text for stdout in the colour of its role, plain where colour is off.
    #[must_use]
    pub fn paint(&self, role: TextRole, text: &str) -> String {
        style(role).force_styling(self.color_stdout).apply_to(text).to_string()
    }

    fn paint_stderr(&self, role: TextRole, text: &str) -> String {
        style(role).force_styling(self.color_stderr).apply_to(text).to_string()
    }

    /// Writes the answer. A closed pipe is not an error.
    pub fn answer(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') || text.is_empty() { Ok(()) } else { stdout.write_all(b"\n") }
        });
        match written.and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Writes one JSON document as the whole answer.
    pub fn json(&self, document: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(document).map_err(io::Error::other)?;
        self.answer(&clean::json(&text))
    }

    /// Writes one JSON document on one line, for streams of events.
    pub fn json_line(&self, document: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(document).map_err(io::Error::other)?;
        self.answer(&clean::json(&text))
    }

    /// Says something on stderr, unless quiet.
    pub fn say(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.stderr(text);
        }
    }

    /// Says something on stderr with `-v`.
    pub fn detail(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.stderr(&self.paint_stderr(TextRole::Dim, text));
        }
    }

    /// A warning on stderr, unless quiet.
    pub fn warning(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            let text = visible(text);
            self.stderr(&format!("{} {text}", self.paint_stderr(TextRole::Caution, "warning:")));
        }
    }

    /// A hint on stderr, unless quiet.
    pub fn hint(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.stderr(&format!("{} {}", self.paint_stderr(TextRole::Hint, "hint:"), visible(text)));
        }
    }

    /// An error on stderr, always.
    pub fn failure(&self, failure: &Failure) {
        // The id ends the first line, so that what follows (a place with a caret, a list) stays in one piece.
        let message = visible(&failure.message);
        let end_of_first = message.find('\n').unwrap_or(message.len());
        let (first, rest) = message.split_at(end_of_first);
        let label = self.paint_stderr(TextRole::Bad, "error:");
        self.stderr(&format!("{label} {first} [{}]{rest}", failure.id));
        for note in &failure.notes {
            self.stderr(note);
        }
        if let Some(hint) = &failure.hint {
            self.stderr(&format!("{} {}", self.paint_stderr(TextRole::Hint, "hint:"), visible(hint)));
        }
    }

    /// Write errors of stderr are ignored: there is no other stream to report them on.
    #[expect(clippy::unused_self, reason = "the printer is the only writer")]
    fn stderr(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", secret::redact(text).text);
    }
}

/// Lines without what a terminal would obey: paths and names of the machine stand in messages.
fn visible(text: &str) -> String {
    text.split('\n').map(clean::line).collect::<Vec<_>>().join("\n")
}

fn style(role: TextRole) -> Style {
    let plain = Style::new();
    match role {
        TextRole::Good => plain.green(),
        TextRole::Bad => plain.red().bold(),
        TextRole::Caution => plain.yellow().bold(),
        TextRole::Hint => plain.cyan(),
        TextRole::Dim => plain.dim(),
        TextRole::Strong => plain.bold(),
    }
}
