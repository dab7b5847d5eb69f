//! Extracts the commands of a shell script: enough of the language to know which programs run with which arguments, and
//! whether the script continues when one fails.

mod group;
mod lex;

use std::cell::Cell;

use super::expand::expand;
use super::text::ScriptText;

/// The shell whose rules for quoting and line continuation apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// sh or bash: a backslash continues a line.
    Posix,
    /// cmd.exe: `^` continues a line.
    Cmd,
    /// PowerShell: a backtick continues a line.
    PowerShell,
}

/// A word in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWord {
    /// The text without quotes, with known variables expanded.
    pub text: String,
    /// The line in the file.
    pub line: usize,
}

/// A command: a program with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// The words; the first is the program.
    pub words: Vec<ShellWord>,
    /// The variables set for the command, or for all later commands if `words` is empty.
    pub assigned: Vec<(String, ShellWord)>,
    /// The line in the file where the command starts.
    pub line: usize,
    /// Whether the script tolerates a failure, or may not run the command: `|| true`, `if …`, `command -v x && x`.
    pub tolerated: bool,
    /// The input from a here-document.
    pub input: Option<String>,
    /// Whether the command is in a substitution: `$(…)`.
    pub is_substituted: bool,
    /// The commands of the pipeline that this command reads from, separated by ` | ` and limited to 500 characters.
    pub piped_from: Option<String>,
}

impl ShellCommand {
    /// The program's name without folder and `.exe`; empty if the command only sets variables.
    #[must_use]
    pub fn program(&self) -> &str {
        let path = self.words.first().map_or("", |word| word.text.as_str());
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        name.strip_suffix(".exe").unwrap_or(name)
    }

    /// The arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.words.iter().skip(1).map(|word| word.text.as_str())
    }

    /// The words, joined and limited to 200 characters.
    fn start(&self) -> String {
        let words: Vec<&str> = self.words.iter().take(20).map(|word| word.text.as_str()).collect();
        words.join(" ").chars().take(200).collect()
    }

    /// Whether one of the arguments is equal to `word`.
    #[must_use]
    pub fn has(&self, word: &str) -> bool {
        self.arguments().any(|argument| argument == word)
    }

    /// Whether the command only sets variables for later commands.
    #[must_use]
    pub fn is_assignment(&self) -> bool {
        self.words.is_empty() || matches!(self.program(), "export" | "declare" | "set" | "setx")
    }
}

/// The limit of nested scripts.
const MAX_DEPTH: usize = 6;
/// The limit of bytes that variable expansion may add to a script.
const MAX_EXPANSION: usize = 1 << 20;

/// The commands of a script in order, including those in `$(…)` and `sh -c`.
#[must_use]
pub fn commands(
    script: &ScriptText,
    dialect: Dialect,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Vec<ShellCommand> {
    let mut list = Vec::new();
    let expanded = Cell::new(0);
    let lookup = |name: &str| lookup(name).filter(|value| within_limit(&expanded, value));
    inner(script, dialect, &lookup, 0, &mut list);
    list
}

/// The command made of a list of words, and the commands of its script if it is `bash -c`.
#[must_use]
pub fn of_words(words: &[String], line: usize, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<ShellCommand> {
    let words = words.iter().map(|text| ShellWord { text: text.clone(), line }).collect();
    let command = ShellCommand { words, line, ..ShellCommand::default() };
    let nested = nested_script(&command);
    let mut list = vec![command];
    if let Some((line, text)) = nested {
        list.extend(commands(&ScriptText::of_line(line, &text), Dialect::Posix, lookup));
    }
    list
}

fn inner(
    script: &ScriptText,
    dialect: Dialect,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    list: &mut Vec<ShellCommand>,
) {
    let mut known: Vec<(String, String)> = Vec::new();
    let own_expanded = Cell::new(0);
    let mut pipeline: Option<String> = None;
    for raw in group::group(lex::tokens(script.text(), dialect)) {
        let is_piped = raw.is_piped();
        let finished = {
            let script_lookup = |name: &str| {
                let own = known.iter().rev().find(|(other, _)| other == name);
                // The limit also applies to variables that the script sets.
                own.map(|(_, value)| value.clone())
                    .filter(|value| within_limit(&own_expanded, value))
                    .or_else(|| lookup(name))
            };
            raw.finish(script, dialect, &script_lookup)
        };
        let (command, inside) = finished;
        if depth < MAX_DEPTH {
            for (start, end) in inside {
                let from = list.len();
                inner(&script.part(start, end), dialect, lookup, depth + 1, list);
                for command in &mut list[from..] {
                    command.is_substituted = true;
                }
            }
        }
        let Some(mut command) = command else {
            pipeline = None;
            continue;
        };
        command.piped_from.clone_from(&pipeline);
        pipeline = is_piped.then(|| match pipeline.take() {
            Some(before) if before.len() < 500 => format!("{before} | {}", command.start()),
            Some(before) => before,
            None => command.start(),
        });
        if command.is_assignment() {
            // Limit the time for scripts with thousands of variables.
            if known.len() < 200 {
                known.extend(command.assigned.iter().map(|(name, word)| (name.clone(), word.text.clone())));
            }
        }
        let nested = nested_script(&command);
        list.push(command);
        if let (Some((line, text)), true) = (nested, depth < MAX_DEPTH) {
            let tolerated = list.last().is_some_and(|command| command.tolerated);
            let from = list.len();
            inner(&ScriptText::of_line(line, &text), Dialect::Posix, lookup, depth + 1, list);
            for command in &mut list[from..] {
                command.tolerated |= tolerated;
            }
        }
    }
}

/// Adds the length of a value to the expanded bytes. Returns whether the sum is below the limit.
fn within_limit(expanded: &Cell<usize>, value: &str) -> bool {
    expanded.set(expanded.get() + value.len());
    expanded.get() < MAX_EXPANSION
}

/// The script of `bash -c`, and its line.
fn nested_script(command: &ShellCommand) -> Option<(usize, String)> {
    if !matches!(command.program(), "sh" | "bash" | "dash" | "zsh" | "ash") {
        return None;
    }
    let is_flag = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
    let at = command.words.iter().position(|word| is_flag(&word.text))?;
    let word = command.words.get(at + 1)?;
    Some((word.line, word.text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let mut script = ScriptText::default();
        for (index, line) in text.lines().enumerate() {
            script.push_line(index + 1, line);
        }
        let lookup = |name: &str| (name == "ARCH").then(|| "90".to_owned());
        let describe = |command: ShellCommand| {
            let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
            let set: String = command
                .assigned
                .iter()
                .map(|(name, word)| format!("[{name}={}]", word.text))
                .collect::<Vec<_>>()
                .concat();
            let tolerated = if command.tolerated { "?" } else { "" };
            let inside = if command.is_substituted { "$" } else { "" };
            let input = command.input.map(|input| format!(" <{}>", input.trim_end())).unwrap_or_default();
            let from = command.piped_from.map(|from| format!(" << {from}")).unwrap_or_default();
            format!("{}{tolerated}{inside} {set}{}{input}{from}", command.line, words.join("|"))
        };
        commands(&script, Dialect::Posix, &lookup).into_iter().map(describe).collect()
    }

    #[test]
    fn commands_are_extracted_from_scripts() {
        for (text, expected) in [
            (
                "apt-get update && apt-get install -y \\\n  nvcc # comment\n",
                vec!["1 apt-get|update", "1 apt-get|install|-y|nvcc"],
            ),
            ("cmake -DX=\"a b\" 'c d' > log 2>&1; make", vec!["1 cmake|-DX=a b|c d", "1 make"]),
            (
                "nvidia-smi || true\nnvidia-smi || exit 1\n",
                vec!["1? nvidia-smi", "1 true", "2 nvidia-smi", "2 exit|1"],
            ),
            (
                "if nvidia-smi; then\n  rocminfo\nelse\n x\nfi\ny",
                vec!["1? nvidia-smi", "2? rocminfo", "4? x", "6 y"],
            ),
            ("command -v nvcc && nvcc --version\nz", vec!["1? command|-v|nvcc", "1? nvcc|--version", "2 z"]),
            ("[ -f x ] && y; z", vec!["1? [|-f|x|]", "1? y", "1 z"]),
            (
                "A=1 B=\"$ARCH\" make -j$(nproc) ${ARCH}a",
                vec!["1$ nproc", "1 [A=1][B=90]make|-j$(nproc)|90a"],
            ),
            (
                "export X=7 && nvcc -arch=sm_$X\nY='$ARCH'",
                vec!["1 [X=7]export|X=7", "1 nvcc|-arch=sm_7", "2 [Y=$ARCH]"],
            ),
            ("sudo -E env A=1 nvcc x", vec!["1 [A=1]nvcc|x"]),
            ("python - <<'EOF'\nimport torch\nEOF\nls", vec!["1 python|- <import torch>", "4 ls"]),
            ("bash -lc 'nvidia-smi && ls'", vec!["1 bash|-lc|nvidia-smi && ls", "1 nvidia-smi", "1 ls"]),
            ("for a in 1 2; do\n nvcc $a\ndone", vec!["2 nvcc|$a"]),
            ("(cd b && cmake ..) | tee log", vec!["1 cd|b", "1 cmake|..", "1 tee|log << cmake .."]),
            ("x=`nvidia-smi`", vec!["1$ nvidia-smi", "1 [x=`nvidia-smi`]"]),
            ("case $a in\n x) nvcc;;\n *) ls ;;\nesac\npwd", vec!["2? nvcc", "3? ls", "5 pwd"]),
            ("f() { nvcc; }\n! nvidia-smi", vec!["1? nvcc", "2? nvidia-smi"]),
            ("echo a#b \"#c\" # d", vec!["1 echo|a#b|#c"]),
            ("{ nvidia-smi; ls; } || true", vec!["1? nvidia-smi", "1? ls", "1 true"]),
            ("nvidia-smi | grep x || true", vec!["1? nvidia-smi", "1? grep|x << nvidia-smi", "1 true"]),
            (
                "a -x | b $(c | d) | e; f",
                vec![
                    "1 a|-x",
                    "1$ c",
                    "1$ d << c",
                    "1 b|$(c | d) << a -x",
                    "1 e << a -x | b $(c | d)",
                    "1 f",
                ],
            ),
            ("while ! nvidia-smi; do sleep 1; done", vec!["1? nvidia-smi", "1? sleep|1"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn line_continuation_depends_on_the_shell() {
        let mut script = ScriptText::default();
        script.push_line(1, "cmake -S . ^");
        script.push_line(2, "  -B C:\\build");
        let list = commands(&script, Dialect::Cmd, &|_| None);
        assert_eq!(list[0].arguments().collect::<Vec<_>>(), ["-S", ".", "-B", "C:\\build"]);
        let mut script = ScriptText::default();
        script.push_line(1, "$env:X = 'native'");
        script.push_line(2, "cmake `");
        script.push_line(3, " -G Ninja");
        script.push_line(4, "cmake $env:X \"-DA=${env:Y}\"");
        let mut list = commands(&script, Dialect::PowerShell, &|_| None);
        assert_eq!(list.pop().unwrap().arguments().collect::<Vec<_>>(), ["native", "-DA=${Y}"]);
        assert_eq!(list[0].assigned[0].1.text, "native");
        assert_eq!(list.last().map(|command| command.arguments().collect()), Some(vec!["-G", "Ninja"]));
    }

    #[test]
    fn invalid_scripts_terminate_quickly() {
        for text in [
            "$(".repeat(200_000),
            "`".repeat(100_001),
            "\"".repeat(100_001),
            "(".repeat(200_000),
            "<<A ".repeat(50_000),
            "if ".repeat(100_000),
            "a=1;".repeat(100_000),
            "sh -c '".repeat(50_000),
            "${A:-".repeat(100_000),
        ] {
            let script = ScriptText::of_line(1, &text);
            assert!(commands(&script, Dialect::Posix, &|_| None).len() <= 100_001);
        }
    }
}
