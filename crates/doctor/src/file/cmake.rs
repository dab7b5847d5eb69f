//! Checks CMakeLists.txt and CMake modules.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;

use super::building::{BuildPlace, CommandChecker};
use super::shell::ShellWord;
use super::text::SourceText;
use super::tools::archs::ArchRequest;
use super::{fix, script};

/// A command of CMake's language: `set(A b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CmakeCommand {
    /// The name in lower case.
    name: String,
    /// The arguments without quotes, with their lines.
    arguments: Vec<ShellWord>,
    line: usize,
}

impl CmakeCommand {
    fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", |word| word.text.as_str())
    }

    fn has(&self, text: &str) -> bool {
        self.arguments.iter().any(|word| word.text == text)
    }

    fn enables_cuda(&self) -> bool {
        self.name == "enable_language" && self.has("CUDA")
            || self.name == "project" && self.arguments.iter().skip(1).any(|word| word.text == "CUDA")
    }
}

/// All findings in a CMake file.
#[must_use]
pub fn check(source: &SourceText, text: &str, cuda: &Description) -> Vec<FindingDraft> {
    let commands = commands(text);
    let mut drafts = script::check_text(source, text);
    let policy = policy_version(&commands);
    find_cuda(source, &commands, policy.as_ref(), &mut drafts);
    late_default(source, &commands, policy.as_ref(), &mut drafts);
    dropped(source, &commands, cuda, &mut drafts);
    drafts
}

/// The version up to which policies have their new behaviour: the last one of `cmake_minimum_required(VERSION 3.18...3.27)`.
fn policy_version(commands: &[CmakeCommand]) -> Option<Version> {
    let command = commands.iter().find(|command| command.name == "cmake_minimum_required")?;
    command.argument(1).rsplit("...").next()?.parse().ok()
}

fn is_at_least(version: Option<&Version>, text: &str) -> bool {
    let known: Option<Version> = text.parse().ok();
    version.zip(known).is_some_and(|(version, known)| *version >= known)
}

/// Reports `find_package(CUDA)` where CMake does not have that module any more.
fn find_cuda(
    source: &SourceText,
    commands: &[CmakeCommand],
    policy: Option<&Version>,
    drafts: &mut Vec<FindingDraft>,
) {
    let keeps_module = commands.iter().any(|command| command.has("CMP0146") && command.has("OLD"))
        || commands.iter().any(|command| command.has("CMAKE_MODULE_PATH"));
    if keeps_module || !is_at_least(policy, "3.27") {
        return;
    }
    for command in commands {
        if command.name != "find_package" || command.argument(0) != "CUDA" {
            continue;
        }
        let severity = if command.has("REQUIRED") { Severity::Error } else { Severity::Warning };
        drafts.push(
            source
                .draft(id!("file.findcuda"), severity, command.line)
                .backend(Backend::Cuda)
                .affects(Affects::Build)
                .summary("`find_package(CUDA)` finds nothing: CMake removes this module for projects that require 3.27 or newer")
                .fix(fix::replace(source, command.line, "CUDA", "CUDAToolkit")),
        );
    }
}

/// Reports a default for `CMAKE_CUDA_ARCHITECTURES` after CMake has already set the variable.
fn late_default(
    source: &SourceText,
    commands: &[CmakeCommand],
    policy: Option<&Version>,
    drafts: &mut Vec<FindingDraft>,
) {
    const NAME: &str = "CMAKE_CUDA_ARCHITECTURES";
    if !is_at_least(policy, "3.18") {
        return;
    }
    let mut depth = 0usize;
    let mut enabled: Option<usize> = None;
    for (index, command) in commands.iter().enumerate() {
        match command.name.as_str() {
            "if" | "foreach" | "while" | "function" | "macro" | "block" => {
                let words: Vec<&str> = command.arguments.iter().map(|word| word.text.as_str()).collect();
                let asks = matches!(words.as_slice(), ["NOT", "DEFINED", NAME] | ["NOT", NAME]);
                let find = || {
                    commands[index + 1..]
                        .iter()
                        .take_while(|next| !matches!(next.name.as_str(), "endif" | "else" | "elseif"))
                        .find(|next| next.name == "set" && next.argument(0) == NAME)
                };
                if let (Some(line), Some(set)) = (enabled, asks.then(find).flatten()) {
                    drafts.push(
                        source
                            .draft(id!("file.archs-late"), Severity::Warning, set.line)
                            .evidence(source.evidence(line))
                            .backend(Backend::Cuda)
                            .affects(Affects::Build)
                            .summary(format!(
                                "this default is never used: enabling CUDA in line {line} has already set `{NAME}`"
                            ))
                            .fix(format!("move lines {} to {} before line {line}", command.line, set.line + 1)),
                    );
                }
                depth += 1;
            }
            "endif" | "endforeach" | "endwhile" | "endfunction" | "endmacro" | "endblock" => {
                depth = depth.saturating_sub(1);
            }
            // In a branch, it may not have been enabled.
            _ if command.enables_cuda() && depth == 0 => enabled = enabled.or(Some(command.line)),
            _ => {}
        }
    }
}

/// Reports architectures that the required CUDA release and all later ones do not support.
fn dropped(
    source: &SourceText,
    commands: &[CmakeCommand],
    cuda: &Description,
    drafts: &mut Vec<FindingDraft>,
) {
    let of_package = |command: &&CmakeCommand| {
        command.name == "find_package" && command.argument(0) == "CUDAToolkit" && command.has("REQUIRED")
    };
    let release: Option<Version> =
        commands.iter().find(of_package).and_then(|command| command.argument(1).parse().ok());
    let Some(release) = release else { return };
    let checker = CommandChecker {
        source,
        cuda,
        place: BuildPlace::Elsewhere,
        release: Some(&release),
        origin: &|_| None,
    };
    for command in commands {
        if command.name != "set" || command.argument(0) != "CMAKE_CUDA_ARCHITECTURES" {
            continue;
        }
        for word in command.arguments.iter().skip(1) {
            let request = ArchRequest {
                name: "CMAKE_CUDA_ARCHITECTURES".to_owned(),
                value: word.text.clone(),
                word: word.clone(),
            };
            let mut found = Vec::new();
            checker.check_archs(&request, &mut found);
            // A later release may support newer architectures.
            drafts.extend(
                found.into_iter().filter(|draft| draft.id.as_str() == "cuda.arch.dropped-by-toolkit"),
            );
        }
    }
}

/// The commands of a file, without comments. Bracket arguments are skipped.
fn commands(text: &str) -> Vec<CmakeCommand> {
    let mut reader = CmakeReader { rest: text, line: 1 };
    let mut list = Vec::new();
    while let Some(command) = reader.command() {
        list.push(command);
    }
    list
}

struct CmakeReader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> CmakeReader<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Skips a comment or bracket argument at the start. Returns whether there was one.
    fn skip(&mut self) -> bool {
        let after = self.rest.strip_prefix('#').unwrap_or(self.rest);
        let level = after.strip_prefix('[').map(|inner| inner.len() - inner.trim_start_matches('=').len());
        let bracket = level.filter(|level| after[1 + level..].starts_with('['));
        if let Some(level) = bracket {
            let end = format!("]{}]", "=".repeat(level));
            let length = self.rest.find(&end).map_or(self.rest.len(), |at| at + end.len());
            self.take(length);
            return true;
        }
        if self.rest.starts_with('#') {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            return true;
        }
        false
    }

    fn command(&mut self) -> Option<CmakeCommand> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.is_empty() {
                return None;
            }
            if self.skip() {
                continue;
            }
            let end =
                self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
            if end == 0 {
                let length = self.rest.chars().next().map_or(0, char::len_utf8);
                self.take(length);
                continue;
            }
            let line = self.line;
            let name = self.take(end).to_ascii_lowercase();
            let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
            self.take(blank);
            if self.rest.starts_with('(') {
                self.take(1);
                return Some(CmakeCommand { name, arguments: self.arguments(), line });
            }
        }
    }

    fn arguments(&mut self) -> Vec<ShellWord> {
        let mut list = Vec::new();
        let mut depth = 0usize;
        while let Some(c) = self.rest.chars().next() {
            let line = self.line;
            match c {
                '(' => {
                    depth += 1;
                    self.take(1);
                }
                ')' => {
                    self.take(1);
                    if depth == 0 {
                        break;
                    }
                    depth -= 1;
                }
                '"' => {
                    let mut escaped = false;
                    let end = self.rest[1..].find(|c| {
                        let is_end = c == '"' && !escaped;
                        escaped = c == '\\' && !escaped;
                        is_end
                    });
                    let end = end.map_or(self.rest.len(), |end| end + 2);
                    let text = self.take(end).trim_matches('"').to_owned();
                    list.push(ShellWord { text, line });
                }
                c if c.is_whitespace() || c == ';' => {
                    self.take(c.len_utf8());
                }
                _ if self.skip() => {}
                _ => {
                    let end = self
                        .rest
                        .find(|c: char| c.is_whitespace() || "()\"#;".contains(c))
                        .unwrap_or(self.rest.len())
                        .max(c.len_utf8());
                    let text = self.take(end).to_owned();
                    list.push(ShellWord { text, line });
                }
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let text = "# set(A)\ncmake_minimum_required(VERSION 3.20)\n#[[ set(B\n) ]]\nSET (X \"a b\" # no\n  c;d\n)\nif(A AND (B OR C))\n message([==[ ) ]==] e)\nendif()\n";
        let shown: Vec<String> = commands(text)
            .iter()
            .map(|one| {
                let words: Vec<&str> = one.arguments.iter().map(|word| word.text.as_str()).collect();
                format!("{} {} {}", one.line, one.name, words.join("|"))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "2 cmake_minimum_required VERSION|3.20",
                "5 set X|a b|c|d",
                "8 if A|AND|B|OR|C",
                "9 message e",
                "10 endif "
            ]
        );
        for text in ["(".repeat(100_000), "a(".repeat(100_000), "[=[".repeat(1000), "a(\"".repeat(100)] {
            let _ = commands(&text);
        }
    }
}
