//! Interprets commands: what they install, whether they need a GPU, what they build for.

pub mod archs;
pub mod build;
pub mod docker;
pub mod gpu;
pub mod packages;
pub mod smi;

use super::shell::{ShellCommand, ShellWord};

/// A command without wrappers such as `uv run`, `conda run -n x` and `timeout 60`.
#[derive(Debug, Clone, Copy)]
pub struct CommandView<'a> {
    /// The program's name, without its folder.
    pub program: &'a str,
    /// The arguments.
    pub words: &'a [ShellWord],
}

impl<'a> CommandView<'a> {
    /// Removes the wrappers of a command.
    #[must_use]
    pub fn new(command: &'a ShellCommand) -> Self {
        let mut view = Self { program: command.program(), words: command.words.get(1..).unwrap_or_default() };
        // Each step removes a word, so the loop ends.
        while let Some(next) = view.unwrapped() {
            view = next;
        }
        view
    }

    /// The command that a wrapper runs; `None` if the program is not a wrapper.
    fn unwrapped(&self) -> Option<Self> {
        let first = self.words.first()?.text.as_str();
        let rest = match self.program {
            "uv" | "poetry" | "pipenv" | "pdm" | "hatch" if first == "run" => {
                after_flags(&self.words[1..], &["--with", "-p", "--python", "--extra", "--group"])
            }
            "conda" | "mamba" | "micromamba" if first == "run" => {
                after_flags(&self.words[1..], &["-n", "--name", "-p", "--prefix"])
            }
            "timeout" => after_flags(self.words, &["-s", "-k"]).get(1..)?,
            "xvfb-run" | "srun" | "time" | "nice" | "retry" | "catchsegv" => {
                after_flags(self.words, &["-n", "-w"])
            }
            "mpirun" | "mpiexec" => after_flags(self.words, &["-n", "-np", "--np", "-H"]),
            _ => return None,
        };
        let program = rest.first()?.text.as_str();
        let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
        Some(Self { program, words: &rest[1..] })
    }

    /// Whether one of the arguments is equal to `text`.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.text == text)
    }

    /// The value of an option, written as `--name value` or `--name=value`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            if word.text == name {
                return words.next().map(|word| word.text.as_str());
            }
            if let Some(value) = word.text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }
}

/// The words after leading options. The options in `valued` have a separate value.
fn after_flags<'a>(words: &'a [ShellWord], valued: &[&str]) -> &'a [ShellWord] {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        at += 1 + usize::from(valued.contains(&word.text.as_str()));
    }
    words.get(at..).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::file::shell::{Dialect, commands};
    use crate::file::text::ScriptText;

    /// The commands of one line of shell.
    pub(in super::super) fn of(text: &str) -> Vec<ShellCommand> {
        commands(&ScriptText::of_line(1, text), Dialect::Posix, &|_| None)
    }

    #[test]
    fn wrappers_are_removed() {
        for (text, program) in [
            ("uv run --with x pytest -m gpu", "pytest"),
            ("conda run -n a --no-capture-output python x.py", "python"),
            ("timeout 60 /usr/bin/nvidia-smi", "nvidia-smi"),
            ("mpirun -np 2 ./a", "a"),
            ("uv pip install x", "uv"),
            ("sudo timeout", "timeout"),
        ] {
            assert_eq!(CommandView::new(&of(text)[0]).program, program, "{text}");
        }
    }
}
