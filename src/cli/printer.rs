//! The only writer of standard output and standard error. Results go to stdout, messages and progress to stderr.
//!
//! Texts contain names, paths and messages of machines, files, servers and programs. Every text for people is therefore escaped here: it has
//! no hidden characters, and no line that a CI service executes. The lines of a message after the first one are indented, so that a line
//! break in a value cannot begin another message.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use console::{Style, Term};
use gpubuild_core::clean;
use gpubuild_core::screen::{Colors, message, screen, without_labels};
use gpubuild_core::secret;
use gpubuild_detect::id;
use serde::Serialize;

use super::failure::{Failure, LONGEST_MESSAGE};

/// The longest line of a message in bytes. Values from files and servers can be of any length.
const LONGEST_LINE: usize = 16 << 10;

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

/// How much is printed on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Progress, warnings and hints.
    Normal,
    /// Details such as evidence as well.
    Verbose,
}

/// Writes to standard output and standard error.
#[derive(Debug, Clone)]
pub struct Printer {
    verbosity: Verbosity,
    color_stdout: bool,
    color_stderr: bool,
    progress: bool,
    /// Receives the results instead of standard output.
    buffer: Option<Arc<Mutex<String>>>,
}

/// Roles of text, each with a style. The text must be understandable without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    /// Ready or successful.
    Good,
    /// Blocked or failed.
    Bad,
    /// Warnings.
    Caution,
    /// Hints, paths and commands.
    Hint,
    /// Less important text.
    Dim,
    /// Headings.
    Strong,
}

impl Printer {
    /// A printer for the streams of this process. With [`ColorChoice::Auto`], `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` of `env` apply.
    #[must_use]
    pub fn new(verbosity: Verbosity, choice: ColorChoice, env: &gpubuild_host::Environment) -> Self {
        let (stdout, stderr) = (Term::stdout(), Term::stderr());
        let disabled = env.get("NO_COLOR").is_some() || env.get("TERM") == Some("dumb");
        let forced = env.get("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let color = |terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => forced || (terminal && !disabled),
        };
        Self {
            verbosity,
            color_stdout: color(stdout.is_term()),
            color_stderr: color(stderr.is_term()),
            progress: stderr.is_term() && env.get("TERM") != Some("dumb") && verbosity > Verbosity::Quiet,
            buffer: None,
        }
    }

    /// A printer that keeps results in memory, without colour. Messages go to stderr as before.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn buffered(&self) -> Self {
        Self { color_stdout: false, progress: false, buffer: Some(Arc::default()), ..self.clone() }
    }

    /// Removes the results that a printer of [`Printer::buffered`] has kept.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn take_results(&self) -> String {
        let buffer = self.buffer.as_ref().map(|buffer| buffer.lock().unwrap_or_else(PoisonError::into_inner));
        buffer.map(|mut text| std::mem::take(&mut *text)).unwrap_or_default()
    }

    /// The verbosity of messages on stderr.
    #[must_use]
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether progress bars are shown on stderr.
    #[must_use]
    pub fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Whether messages and progress on stderr are coloured.
    #[must_use]
    pub fn colors_stderr(&self) -> bool {
        self.color_stderr
    }

    /// Styles text for stdout. Returns it unchanged if colour is disabled.
    #[must_use]
    pub fn paint(&self, role: TextRole, text: &str) -> String {
        style(role).force_styling(self.color_stdout).apply_to(text).to_string()
    }

    fn paint_stderr(&self, role: TextRole, text: &str) -> String {
        style(role).force_styling(self.color_stderr).apply_to(text).to_string()
    }

    /// Prints text for people on stdout, escaped.
    pub fn print(&self, text: &str) -> io::Result<()> {
        self.write(&screen(text, colors(self.color_stdout)))
    }

    /// Prints the input of a program on stdout unchanged: a script, a page or a link line.
    ///
    /// # Errors
    /// The text cannot be printed unchanged because a terminal or a CI service would act on it.
    pub fn print_input(&self, text: &str) -> Result<(), Failure> {
        if screen(text, Colors::Remove) != text {
            let message =
                "a name or path in the output has hidden characters, or is a command of a CI service";
            return Err(Failure::usage(id!("output.unsafe"), message)
                .hint("rename the file or folder, or use `--json`, which escapes them"));
        }
        Ok(self.write(text)?)
    }

    /// Prints gpubuild's own commands of a CI service on stdout.
    pub fn print_annotations(&self, text: &str) -> io::Result<()> {
        self.write(text)
    }

    /// Prints help on stdout, or an error in the arguments on stderr.
    pub fn usage(&self, error: &clap::Error) -> io::Result<()> {
        let is_colored = if error.use_stderr() { self.color_stderr } else { self.color_stdout };
        let text = error.render();
        let text = if is_colored { text.ansi().to_string() } else { text.to_string() };
        if error.use_stderr() {
            let text = secret::redact(text.trim_end_matches('\n')).text;
            write_error(&without_labels(&screen(&text, colors(self.color_stderr))));
            return Ok(());
        }
        self.print(&text)
    }

    /// Writes text to stdout and adds a missing final newline. A closed pipe is not an error.
    fn write(&self, text: &str) -> io::Result<()> {
        if let Some(buffer) = &self.buffer {
            buffer.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') || text.is_empty() { Ok(()) } else { stdout.write_all(b"\n") }
        });
        match written.and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Prints an indented JSON document on stdout.
    pub fn json(&self, document: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(document).map_err(io::Error::other)?;
        self.write(&clean::json(&text))
    }

    /// Prints a JSON document on one line of stdout, for streams of events.
    pub fn json_line(&self, document: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(document).map_err(io::Error::other)?;
        self.write(&clean::json(&text))
    }

    /// Prints a status message on stderr, except with `--quiet`. A label such as `[cpu]` at its start is coloured.
    pub fn status(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                Some((label, rest)) => {
                    let label = self.paint_stderr(TextRole::Hint, &format!("[{label}]"));
                    self.stderr(&format!("{label} {rest}"));
                }
                None => self.stderr(text),
            }
        }
    }

    /// Prints the result of a command on stderr, except with `--quiet`; `word` is coloured as a success.
    pub fn success(&self, word: &str, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.stderr(&format!("{} {text}", self.paint_stderr(TextRole::Good, word)));
        }
    }

    /// Prints a detail on stderr with `--verbose`.
    pub fn detail(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.stderr(&self.paint_stderr(TextRole::Dim, text));
        }
    }

    /// Prints a warning on stderr, except with `--quiet`.
    pub fn warning(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.stderr(&format!("{} {text}", self.paint_stderr(TextRole::Caution, "warning:")));
        }
    }

    /// Prints a hint on stderr, except with `--quiet`.
    pub fn hint(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.stderr(&format!("{} {}", self.paint_stderr(TextRole::Hint, "hint:"), text));
        }
    }

    /// Prints an error on stderr.
    pub fn failure(&self, failure: &Failure) {
        // The id is at the end of the first line, so that following lines, such as a source excerpt, stay together.
        let redacted = secret::redact(&failure.message).text;
        let message = screen(&redacted, Colors::Remove);
        // Shorter than the longest line, so that the id is not cut off.
        let message = clean::with_short_lines(&message, LONGEST_MESSAGE);
        let end_of_first = message.find('\n').unwrap_or(message.len());
        let (first, rest) = message.split_at(end_of_first);
        let label = self.paint_stderr(TextRole::Bad, "error:");
        self.stderr(&format!("{label} {first} [{}]{rest}", failure.id));
        for note in &failure.notes {
            self.stderr(note);
        }
        if let Some(hint) = &failure.hint {
            self.stderr(&format!("{} {}", self.paint_stderr(TextRole::Hint, "hint:"), hint));
        }
    }

    /// Prints a message.
    fn stderr(&self, text: &str) {
        let redacted = secret::redact(text).text;
        write_error(&message(&clean::with_short_lines(&redacted, LONGEST_LINE), colors(self.color_stderr)));
    }
}

/// Ignores write errors: there is no other stream on which to report them.
fn write_error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn colors(is_colored: bool) -> Colors {
    if is_colored { Colors::Keep } else { Colors::Remove }
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
