//! Confirmation of steps on the terminal.

use std::io::{BufRead, IsTerminal};

use crate::cli::{CommandContext, Failure, Printer, Verbosity};

/// The answer to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Run it, or check whether the user did it.
    Yes,
    /// Continue with the next step.
    Skip,
    /// End the guide.
    Quit,
}

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

    /// Asks until the answer is understood. The end of the input is [`Answer::Quit`].
    pub(super) fn ask(&self, is_manual: bool) -> Result<Answer, Failure> {
        let prompt = if is_manual {
            "   check again after you did it? [y]es, [s]kip, [q]uit"
        } else {
            "   run these commands? [y]es, [s]kip, [q]uit"
        };
        loop {
            self.printer.status(prompt);
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line)? == 0 {
                return Ok(Answer::Quit);
            }
            if let Some(answer) = parse(&line) {
                return Ok(answer);
            }
        }
    }
}

/// `None` for anything but the listed words: an empty line runs nothing.
fn parse(line: &str) -> Option<Answer> {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Yes),
        "s" | "skip" | "n" | "no" => Some(Answer::Skip),
        "q" | "quit" => Some(Answer::Quit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_words_are_answers() {
        assert_eq!(parse("Y\n"), Some(Answer::Yes));
        assert_eq!(parse("no\r\n"), Some(Answer::Skip));
        assert_eq!(parse(" quit "), Some(Answer::Quit));
        for line in ["\n", "", "yep\n", "ja\n", "1\n"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
