//! The stages of a Dockerfile, with their variables, images and commands.

use std::collections::BTreeMap;

use super::parse::Instruction;
use crate::file::expand::expand;
use crate::file::image::ImageName;
use crate::file::shell::{self, Dialect, ShellCommand};
use crate::file::text::ScriptText;

/// A parsed Dockerfile.
#[derive(Debug, Default)]
pub struct Dockerfile {
    /// The stages, in the order of the file.
    pub stages: Vec<DockerStage>,
    /// The size of all stages' variables in bytes.
    variable_bytes: usize,
}

/// The limit of `variable_bytes`. Stages inherit the variables of their parent, so the size can grow quadratically.
const MAX_VARIABLE_BYTES: usize = 4 << 20;
/// The limit of variables per instruction.
const MAX_VARIABLES: usize = 1000;

/// A build stage.
#[derive(Debug, Default)]
pub struct DockerStage {
    /// The name after `AS`.
    pub name: Option<String>,
    /// The line of `FROM`.
    pub line: usize,
    /// The base after `FROM`, with variables expanded.
    pub base: String,
    /// The base image; `None` if the base is another stage or unknown.
    pub image: Option<ImageName>,
    /// The index of the base stage.
    pub parent: Option<usize>,
    /// The environment, with the inherited variables first.
    pub env: Vec<DockerSetting>,
    /// The commands of all `RUN` instructions, in order.
    pub commands: Vec<ShellCommand>,
    /// The `RUN` instructions: line and complete text.
    pub runs: Vec<(usize, String)>,
    /// The files copied from other stages and images.
    pub copies: Vec<CopiedFile>,
    /// The commands of `CMD` and `ENTRYPOINT`.
    pub start: Vec<ShellCommand>,
    /// Whether the stage has a `CMD` or an `ENTRYPOINT`.
    pub is_started: bool,
    /// The shell of the `RUN` instructions if it is not a POSIX shell.
    pub dialect: Option<Dialect>,
    /// Build arguments with their defaults, also visible in the environment of `RUN`.
    pub arguments: Vec<DockerSetting>,
}

/// A variable set by `ENV` or `ARG`.
#[derive(Debug, Clone)]
pub struct DockerSetting {
    /// The variable's name.
    pub name: String,
    /// The value, with known variables expanded.
    pub value: String,
    /// The line in the file.
    pub line: usize,
}

/// A `COPY --from` or `ADD --from` instruction.
#[derive(Debug, Clone)]
pub struct CopiedFile {
    /// The source: the name or number of a stage, or an image.
    pub from: String,
    /// The source paths, and the target as the last one.
    pub paths: Vec<String>,
    /// The line of the instruction.
    pub line: usize,
}

impl DockerStage {
    /// The approximate size in bytes of the variables, starting at an index of each list.
    fn size(&self, (env, arguments): (usize, usize)) -> usize {
        let added = self.env[env..].iter().chain(&self.arguments[arguments..]);
        added.map(|one| one.name.len() + one.value.len() + 32).sum()
    }

    fn value(&self, name: &str) -> Option<String> {
        let last = |list: &[DockerSetting]| {
            list.iter().rfind(|setting| setting.name == name).map(|one| one.value.clone())
        };
        last(&self.env).or_else(|| last(&self.arguments))
    }

    /// The last setting of a variable in the environment of the image.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&DockerSetting> {
        self.env.iter().rfind(|setting| setting.name == name)
    }

    /// The value that a `RUN` sees: from the environment, or else from the build arguments.
    #[must_use]
    pub fn in_run(&self, name: &str) -> Option<&DockerSetting> {
        self.setting(name).or_else(|| self.arguments.iter().rfind(|setting| setting.name == name))
    }
}

impl Dockerfile {
    /// Builds the stages from parsed instructions.
    #[must_use]
    pub fn new(instructions: &[Instruction]) -> Self {
        let mut file = Self::default();
        let mut global: BTreeMap<String, String> = BTreeMap::new();
        for instruction in instructions {
            match (instruction.keyword.as_str(), file.stages.last_mut()) {
                ("FROM", _) => {
                    let stage = file.stage(instruction, &global);
                    file.stages.push(stage);
                }
                ("ARG", None) => {
                    for (name, value) in arguments(instruction) {
                        let value = value.map(|value| expand(&value, &|name| global.get(name).cloned()));
                        if let Some(value) = value.filter(|value| value.is_complete) {
                            global.insert(name, value.text);
                        }
                    }
                }
                ("ARG" | "ENV", Some(_)) if file.variable_bytes > MAX_VARIABLE_BYTES => {}
                (_, Some(stage)) => {
                    let before = (stage.env.len(), stage.arguments.len());
                    stage.apply(instruction, &global);
                    file.variable_bytes += stage.size(before);
                }
                (_, None) => {}
            }
        }
        file
    }

    fn stage(&mut self, instruction: &Instruction, global: &BTreeMap<String, String>) -> DockerStage {
        let mut words = instruction.words();
        let written = words.next().unwrap_or_default();
        let name = match (words.next(), words.next()) {
            (Some(word), Some(name)) if word.eq_ignore_ascii_case("as") => Some(name.to_owned()),
            _ => None,
        };
        let base = expand(written, &|name| global.get(name).cloned());
        let parent = self.stages.iter().rposition(|stage| {
            stage.name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(&base.text))
        });
        let is_image = parent.is_none() && base.is_complete && base.text != "scratch";
        let mut stage = DockerStage {
            name,
            line: instruction.line,
            image: is_image.then(|| ImageName::parse(&base.text)).flatten(),
            base: base.text,
            parent,
            ..DockerStage::default()
        };
        stage.dialect = parent.and_then(|index| self.stages[index].dialect);
        if let Some(parent) =
            parent.map(|index| &self.stages[index]).filter(|_| self.variable_bytes <= MAX_VARIABLE_BYTES)
        {
            stage.arguments.clone_from(&parent.arguments);
            stage.env.clone_from(&parent.env);
            self.variable_bytes += stage.size((0, 0));
        }
        stage
    }

    /// A stage and its parents, starting with the stage itself.
    pub fn chain(&self, index: usize) -> impl Iterator<Item = &DockerStage> {
        let mut next = Some(index);
        std::iter::from_fn(move || {
            let stage = self.stages.get(next?)?;
            // A parent always comes earlier, so the chain ends.
            next = stage.parent;
            Some(stage)
        })
    }

    /// The image that a stage is based on, directly or through parents.
    #[must_use]
    pub fn image(&self, index: usize) -> Option<&ImageName> {
        self.chain(index).find_map(|stage| stage.image.as_ref())
    }

    /// The index of a stage by the name or number in `COPY --from`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<usize> {
        let by_name =
            |stage: &DockerStage| stage.name.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(name));
        let number = name.parse().ok().filter(|index| *index < self.stages.len());
        self.stages.iter().rposition(by_name).or(number)
    }
}

impl DockerStage {
    fn apply(&mut self, instruction: &Instruction, global: &BTreeMap<String, String>) {
        match instruction.keyword.as_str() {
            "ARG" => {
                for (name, value) in arguments(instruction) {
                    let value = value.map(|value| expand(&value, &|name| self.value(name)));
                    let value = value.filter(|value| value.is_complete).map(|value| value.text);
                    if let Some(value) = value.or_else(|| global.get(&name).cloned()) {
                        self.arguments.push(DockerSetting { name, value, line: instruction.line });
                    }
                }
            }
            "ENV" => {
                for (name, value, line) in pairs(instruction).into_iter().take(MAX_VARIABLES) {
                    let value = expand(&value, &|name| self.value(name)).text;
                    self.env.push(DockerSetting { name, value, line });
                }
            }
            "RUN" => {
                self.runs.push((instruction.line, run_text(instruction)));
                let dialect = self.dialect.unwrap_or(Dialect::Posix);
                let commands = run(instruction, dialect, &|name| self.value(name));
                self.commands.extend(commands);
            }
            "COPY" | "ADD" => {
                if let Some(from) = instruction.flag("from") {
                    let paths = instruction.words().map(str::to_owned).collect();
                    self.copies.push(CopiedFile { from: from.to_owned(), paths, line: instruction.line });
                }
            }
            "SHELL" => {
                let text = instruction.text().to_ascii_lowercase();
                self.dialect = if text.contains("powershell") || text.contains("pwsh") {
                    Some(Dialect::PowerShell)
                } else {
                    text.contains("cmd").then_some(Dialect::Cmd)
                };
            }
            "CMD" | "ENTRYPOINT" => {
                self.is_started = true;
                let dialect = self.dialect.unwrap_or(Dialect::Posix);
                let commands = exec_or_shell(&instruction.script, dialect, &|name| self.value(name));
                self.start.extend(commands);
            }
            _ => {}
        }
    }
}

fn run_text(instruction: &Instruction) -> String {
    let documents: Vec<&str> = instruction.documents.iter().map(|document| document.script.text()).collect();
    format!("{}\n{}", instruction.text(), documents.concat())
}

/// The commands of a `RUN`.
fn run(
    instruction: &Instruction,
    dialect: Dialect,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Vec<ShellCommand> {
    let script = without_flags(&instruction.script);
    let text = script.text().trim();
    if instruction.documents.is_empty() {
        return exec_or_shell(&script, dialect, lookup);
    }
    if text.starts_with("<<") {
        // The document is the script, unless its first line names another interpreter.
        let document = &instruction.documents[0].script;
        let first = document.text().lines().next().unwrap_or_default();
        if let Some(interpreter) = first.strip_prefix("#!")
            && !interpreter
                .split(['/', ' '])
                .any(|part| matches!(part, "sh" | "bash" | "dash" | "ash" | "zsh"))
        {
            let program = interpreter.split(['/', ' ']).next_back().unwrap_or_default();
            let line = document.line_at(0);
            let word = shell::ShellWord { text: program.to_owned(), line };
            let input = Some(document.text().to_owned());
            return vec![ShellCommand { words: vec![word], line, input, ..ShellCommand::default() }];
        }
        return shell::commands(document, Dialect::Posix, lookup);
    }
    let mut whole = ScriptText::default();
    for (text, line) in script.pieces() {
        whole.push(line, text);
    }
    whole.push(instruction.line, "\n");
    for document in &instruction.documents {
        for (text, line) in document.script.pieces() {
            whole.push(line, text);
        }
        whole.push_line(instruction.line, &document.name);
    }
    shell::commands(&whole, Dialect::Posix, lookup)
}

/// The script without leading flags such as `--mount=…`.
fn without_flags(script: &ScriptText) -> ScriptText {
    let text = script.text();
    let mut rest = text.trim_start();
    while rest.starts_with("--") {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_start();
    }
    script.part(text.len() - rest.len(), text.len())
}

/// The commands of a `RUN`, `CMD` or `ENTRYPOINT` in shell form or exec form (a JSON list).
fn exec_or_shell(
    script: &ScriptText,
    dialect: Dialect,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Vec<ShellCommand> {
    let text = script.text().trim();
    if text.starts_with('[')
        && let Ok(words) = serde_json::from_str::<Vec<String>>(text)
    {
        return shell::of_words(&words, script.line_at(0), lookup);
    }
    shell::commands(script, dialect, lookup)
}

/// The names and defaults in an `ARG`.
fn arguments(instruction: &Instruction) -> Vec<(String, Option<String>)> {
    let words = split_quoted(instruction.text());
    let read = |(_, word): (usize, String)| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word, None),
    };
    words.into_iter().map(read).collect()
}

/// The names, values and lines in an `ENV`, in both forms.
fn pairs(instruction: &Instruction) -> Vec<(String, String, usize)> {
    let text = instruction.script.text();
    let line = |offset: usize| instruction.script.line_at(offset);
    let first = text.split_whitespace().next().unwrap_or_default();
    if !first.contains('=') {
        // The old form: `ENV NAME rest of the line`.
        let start = text.len() - text.trim_start().len();
        let value = text[start + first.len()..].trim();
        return vec![(first.to_owned(), value.trim_matches('"').to_owned(), line(start))];
    }
    let read = |(offset, word): (usize, String)| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned(), line(offset)))
    };
    split_quoted(text).into_iter().filter_map(read).collect()
}

/// Splits a text at white space outside quotes. Returns each word without its quotes, with its offset.
fn split_quoted(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut quote = None;
    let mut inside = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if quote.is_none() && c.is_whitespace() {
            inside = false;
            continue;
        }
        if !inside {
            words.push((at, String::new()));
            inside = true;
        }
        let Some((_, word)) = words.last_mut() else { continue };
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(mark), c) if c == mark => quote = None,
            (_, '\\') if chars.peek().is_some_and(|(_, next)| matches!(next, '"' | '\\' | ' ')) => {
                word.extend(chars.next().map(|(_, next)| next));
            }
            (_, c) => word.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn file(text: &str) -> Dockerfile {
        Dockerfile::new(&parse(text).unwrap())
    }

    #[test]
    fn stages_inherit_and_variables_are_expanded() {
        let file = file(
            "ARG CUDA=12.2.0\nARG TAG=${CUDA}-devel-ubuntu22.04\nFROM nvidia/cuda:${TAG} AS build\nARG CUDA\nENV A=1 B=\"x y\" \\\n  C=$CUDA\nENV OLD some value\nFROM Build as next\nRUN echo $C ${CUDA}\nFROM $UNKNOWN\nFROM ubuntu:${V:-22.04}\nCOPY --from=build --chown=a /usr/local/cuda /x\n",
        );
        let build = &file.stages[0];
        assert_eq!(
            build.image.as_ref().map(ToString::to_string).as_deref(),
            Some("nvidia/cuda:12.2.0-devel-ubuntu22.04")
        );
        let env: Vec<(&str, &str, usize)> =
            build.env.iter().map(|one| (one.name.as_str(), one.value.as_str(), one.line)).collect();
        assert_eq!(env, [("A", "1", 5), ("B", "x y", 5), ("C", "12.2.0", 6), ("OLD", "some value", 7)]);
        assert_eq!((file.stages[1].parent, file.image(1).is_some()), (Some(0), true));
        assert_eq!(file.stages[1].commands[0].arguments().collect::<Vec<_>>(), ["12.2.0", "12.2.0"]);
        assert!(file.stages[2].image.is_none());
        assert_eq!(file.stages[3].base, "ubuntu:22.04");
        assert_eq!((file.stages[3].copies[0].from.as_str(), file.named("build")), ("build", Some(0)));
        assert_eq!(file.stages[3].copies[0].paths, ["/usr/local/cuda", "/x"]);
    }

    #[test]
    fn commands_have_line_numbers() {
        let file = file(
            "FROM a\nRUN --mount=type=cache,target=/x apt update && \\\n    nvcc a.cu\nRUN <<EOF\nset -e\nnvidia-smi\nEOF\nRUN python3 <<PY && ls\nimport torch\nPY\nRUN [\"nvcc\", \"-V\"]\nRUN <<EOF\n#!/usr/bin/env python3\nimport x\nEOF\nCMD [\"bash\", \"-c\", \"nvidia-smi\"]\n",
        );
        let seen: Vec<(usize, &str)> =
            file.stages[0].commands.iter().map(|one| (one.line, one.program())).collect();
        assert_eq!(
            seen,
            [
                (2, "apt"),
                (3, "nvcc"),
                (5, "set"),
                (6, "nvidia-smi"),
                (8, "python3"),
                (8, "ls"),
                (11, "nvcc"),
                (13, "python3")
            ]
        );
        assert_eq!(file.stages[0].commands[4].input.as_deref(), Some("import torch\n"));
        assert_eq!(file.stages[0].start.last().map(ShellCommand::program), Some("nvidia-smi"));
        assert!(file.stages[0].is_started);
    }
}
