//! The only writer of stdout and stderr.

use super::Failure;
use crate::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Writes answers to stdout and diagnostics to stderr.
#[derive(Debug)]
pub(super) struct Printer {
    quiet: bool,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self { quiet: false }
    }

    /// Prints only errors from now on.
    pub(super) fn be_quiet(&mut self) {
        self.quiet = true;
    }

    /// Prints a piece of the answer and flushes it.
    #[expect(clippy::unused_self, reason = "only the printer writes to stdout")]
    pub(super) fn answer(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Error(Error::message(format!("cannot write the output: {error}"))),
        })
    }

    /// Prints a value as JSON, as the complete answer.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::message(format!("cannot write JSON: {error}")))?;
        self.answer(&(text + "\n"))
    }

    /// A progress bar on stderr, if it is a terminal.
    pub(super) fn bar(&self, total: u64, unit: &str) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let count = if unit == "B" {
            "{bytes} of {total_bytes}".to_owned()
        } else {
            format!("{{pos}} of {{len}} {unit}")
        };
        let template = format!("{{bar:30}} {count}, {{eta}} left");
        bar.with_style(
            ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        )
    }

    /// Prints the prompt of a terminal session.
    pub(super) fn invite(&mut self) {
        if !self.quiet {
            // Errors are ignored: a closed stderr cannot report them.
            let _: io::Result<()> = write!(io::stderr().lock(), "> ");
        }
    }

    /// Prints an informational line.
    pub(super) fn note(&mut self, line: impl Display) {
        if !self.quiet {
            self.line(line);
        }
    }

    /// Prints an error.
    pub(super) fn error(&mut self, error: &Error) {
        self.line(format_args!("error: {error}"));
    }

    #[expect(clippy::unused_self, reason = "only the printer writes to stderr")]
    fn line(&mut self, line: impl Display) {
        // Errors are ignored: a closed stderr cannot report them.
        let _: io::Result<()> = writeln!(io::stderr().lock(), "{line}");
    }
}

/// Formats a table with columns as wide as their content.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
