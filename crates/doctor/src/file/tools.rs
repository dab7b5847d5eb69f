//! What commands mean for GPUs: what they install, what they need, what they build for.

pub mod archs;
pub mod build;
pub mod gpu;
pub mod packages;

use super::shell::{ShellCommand, ShellWord};

/// A command behind `uv run`, `conda run -n x`, `timeout 60`.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The program's name.
    pub program: &'a str,
    /// The words after it.
    pub words: &'a [ShellWord],
}

impl<'a> View<'a> {
    /// The program that is meant.
    #[must_use]
    pub fn new(command: &'a ShellCommand) -> Self {
        let mut view = Self { program: command.program(), words: command.words.get(1..).unwrap_or_default() };
        // Each turn takes a word away.
        while let Some(next) = view.behind() {
            view = next;
        }
        view
    }

    /// What a wrapper starts.
    fn behind(&self) -> Option<Self> {
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

    /// Whether a word is among those after the program.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.text == text)
    }

    /// The value of an option, as `--name value` or `--name=value`.
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

/// What follows options; `valued` ones take the next word as well.
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

    /// The commands of a line.
    pub(in super::super) fn of(text: &str) -> Vec<ShellCommand> {
        commands(&ScriptText::of_line(1, text), Dialect::Posix, &|_| None)
    }

    #[test]
    fn wrappers_are_looked_through() {
        for (text, program) in [
            ("uv run --with x pytest -m gpu", "pytest"),
            ("conda run -n a --no-capture-output python x.py", "python"),
            ("timeout 60 /usr/bin/nvidia-smi", "nvidia-smi"),
            ("mpirun -np 2 ./a", "a"),
            ("uv pip install x", "uv"),
            ("sudo timeout", "timeout"),
        ] {
            assert_eq!(View::new(&of(text)[0]).program, program, "{text}");
        }
    }
}
