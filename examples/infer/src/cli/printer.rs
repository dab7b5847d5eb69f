//! The only writer of stdout and stderr.

use super::Failure;
use crate::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Writes answers to stdout and talk to stderr.
#[derive(Debug)]
pub(super) struct Printer {
    quiet: bool,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self { quiet: false }
    }

    /// From now on only errors are told.
    pub(super) fn be_quiet(&mut self) {
        self.quiet = true;
    }

    /// A piece of the answer, at once.
    #[expect(clippy::unused_self, reason = "the printer is the door to stdout")]
    pub(super) fn answer(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Error(Error::message(format!("cannot write the output: {error}"))),
        })
    }

    /// A line for people.
    pub(super) fn note(&mut self, line: impl Display) {
        if !self.quiet {
            self.line(line);
        }
    }

    /// What went wrong.
    pub(super) fn error(&mut self, error: &Error) {
        self.line(format_args!("error: {error}"));
    }

    #[expect(clippy::unused_self, reason = "the printer is the door to stderr")]
    fn line(&mut self, line: impl Display) {
        // Nobody is left to tell when stderr is gone.
        let _: io::Result<()> = writeln!(io::stderr().lock(), "{line}");
    }
}

/// A table of text, columns as wide as they need to be.
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
