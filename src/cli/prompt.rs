//! Questions on the terminal.

use std::io::{BufRead, IsTerminal};

use crate::cli::{CommandContext, Failure, Printer, Verbosity};

/// A terminal that answers prompts.
pub(super) struct Terminal<'a> {
    printer: &'a Printer,
}

impl<'a> Terminal<'a> {
    /// The terminal of standard input; `None` if it is not one, or if `--quiet` hides prompts.
    pub(super) fn of(context: &CommandContext<'a>) -> Option<Self> {
        let shows_prompts = context.printer.verbosity() > Verbosity::Quiet;
        (shows_prompts && std::io::stdin().is_terminal()).then_some(Self { printer: context.printer })
    }

    /// Asks until `parse` understands the line, without space around it and in lower case. `None` at the end of the input.
    pub(super) fn ask<T>(
        &self,
        prompt: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        loop {
            self.printer.status(prompt);
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if let Some(answer) = parse(&line.trim().to_ascii_lowercase()) {
                return Ok(Some(answer));
            }
        }
    }
}

/// Whether a line is a clear yes or no.
pub(super) fn yes_or_no(line: &str) -> Option<bool> {
    match line {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_words_are_answers() {
        assert_eq!(yes_or_no("yes"), Some(true));
        assert_eq!(yes_or_no("n"), Some(false));
        for line in ["", "yep", "ja", "1"] {
            assert_eq!(yes_or_no(line), None, "{line:?}");
        }
    }
}
