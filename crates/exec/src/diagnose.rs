//! Finds the first root error in the output of compilers, linkers, CMake and build tools.
//!
//! Pure: takes lines and returns one error. Lines that only report an earlier failure (`collect2: error`, `ninja: build
//! stopped`, `make: *** […] Error 1`) are skipped.

use crate::event::FirstError;

impl FirstError {
    fn bare(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    fn at(location: FailureLocation<'_>, message: &str) -> Self {
        Self {
            file: Some(location.file.to_owned()),
            line: location.line,
            column: location.column,
            message: message.trim().to_owned(),
            step: None,
        }
    }
}

impl std::fmt::Display for FirstError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{file}")?;
            for number in [self.line, self.column].into_iter().flatten() {
                write!(formatter, ":{number}")?;
            }
            formatter.write_str(": ")?;
        }
        formatter.write_str(&self.message)
    }
}

/// Finds the first root error. If none is recognised, returns the first line that a failed step printed; without a failed
/// step, the last line that is not empty.
#[must_use]
pub fn first_error<S: AsRef<str>>(lines: &[S]) -> Option<FirstError> {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    let failed = lines.iter().position(|line| line.starts_with("FAILED: "));
    let recognised = first_recognised(&lines);
    let mut error = recognised.or_else(|| failed.and_then(|at| output_of(&lines[at..])));
    if error.is_none() {
        let last = lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty() && !is_echo(line));
        error = last.map(FirstError::bare);
    }
    if let (Some(error), Some(at)) = (error.as_mut(), failed) {
        // Newer Ninja writes `FAILED: [code=1] output`.
        let step = lines[at].trim_start_matches("FAILED: ");
        let step =
            step.split_once("] ").filter(|(code, _)| code.starts_with('[')).map_or(step, |(_, rest)| rest);
        error.step = Some(step.trim().to_owned());
    }
    error
}

/// Finds the first line in a known error format.
fn first_recognised<S: AsRef<str>>(lines: &[S]) -> Option<FirstError> {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    (0..lines.len()).find_map(|index| recognise(&lines, index))
}

/// The error at a line, if the line has a known error format.
pub(crate) fn recognised_at(lines: &[&str], index: usize) -> Option<FirstError> {
    recognise(lines, index)
}

fn recognise(lines: &[&str], index: usize) -> Option<FirstError> {
    let line = lines[index];
    if is_echo(line) {
        return None;
    }
    cmake_error(lines, index)
        .or_else(|| rust_error(lines, index))
        .or_else(|| apple_linker(lines, index))
        .or_else(|| marked(line))
        .or_else(|| linker(line))
        .or_else(|| tool_failure(line))
}

/// Whether a line only repeats that a command failed.
fn is_echo(line: &str) -> bool {
    const STARTS: [&str; 7] = [
        "error: linking with",
        "collect2: error",
        "ninja: build stopped",
        "make",
        "gmake",
        "clang: error: linker command",
        "FAILED: ",
    ];
    let text = line.trim_start();
    let summary = text.ends_with("generated.") && text.contains(" error");
    STARTS.iter().any(|start| text.starts_with(start))
        || summary
        || text.starts_with("c++: error: linker command")
}

/// `file:3:5: error: …`, `file(3): error C2065: …`, `file(3): error: …`, `clang: error: …`, `ld.lld: error: …`.
fn marked(line: &str) -> Option<FirstError> {
    let (prefix, message) = split_at_marker(line)?;
    let prefix = prefix.trim();
    if prefix.is_empty() {
        return Some(FirstError::bare(message.trim()));
    }
    match location(prefix) {
        Some(location) => Some(FirstError::at(location, message)),
        // `LINK`, `foo.obj`, `clang`, `nvcc`: the prefix names only a tool or an object.
        None if prefix.len() <= 200 && !prefix.starts_with("In file included") => {
            Some(FirstError::bare(format!("{prefix}: {}", message.trim())))
        }
        None => None,
    }
}

/// Splits a line at `error:`, `fatal error:`, `error C1234:` or `error #20:`. The message keeps the code.
fn split_at_marker(line: &str) -> Option<(&str, &str)> {
    for (at, _) in line.match_indices("error") {
        let (before, after) = (&line[..at], &line[at + "error".len()..]);
        let message = if let Some(rest) = after.strip_prefix(':').or_else(|| after.strip_prefix("   : ")) {
            rest
        } else if let Some((code, _)) = after.strip_prefix(' ').and_then(|rest| rest.split_once(':')) {
            let is_code = code.trim_end().len() <= 10
                && code.starts_with(|c: char| c.is_ascii_uppercase() || c == '#')
                && code.contains(|c: char| c.is_ascii_digit());
            if !is_code {
                continue;
            }
            after
        } else {
            continue;
        };
        let before = before.trim_end();
        let before = ["fatal", "catastrophic", "internal compiler", "internal"]
            .iter()
            .find_map(|word| before.strip_suffix(word))
            .unwrap_or(before)
            .trim_end();
        let Some(prefix) = before.strip_suffix([':', ';']).or(before.is_empty().then_some("")) else {
            continue;
        };
        return Some((prefix, message));
    }
    None
}

#[derive(Clone, Copy)]
struct FailureLocation<'a> {
    file: &'a str,
    line: Option<u32>,
    column: Option<u32>,
}

/// Parses `file:3:5`, `file:3`, `file(3,5)`, `file(3)` and `ptxas file, line 3`.
fn location(text: &str) -> Option<FailureLocation<'_>> {
    if let Some((file, line)) = text.rsplit_once(", line ") {
        let file = file.strip_prefix("ptxas ").unwrap_or(file);
        return Some(FailureLocation { file, line: Some(line.trim().parse().ok()?), column: None });
    }
    if let Some((file, numbers)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        let (line, column) = numbers.split_once(',').unwrap_or((numbers, ""));
        return Some(FailureLocation {
            file: file.trim(),
            line: Some(line.parse().ok()?),
            column: column.parse().ok(),
        });
    }
    let (rest, last) = text.rsplit_once(':')?;
    let last: u32 = last.trim().parse().ok()?;
    match rest.rsplit_once(':').map(|(file, number)| (file, number.parse::<u32>())) {
        Some((file, Ok(line))) => Some(FailureLocation { file, line: Some(line), column: Some(last) }),
        _ => Some(FailureLocation { file: rest, line: Some(last), column: None }),
    }
}

/// `CMake Error at file:3 (message):` with the indented text below it; `CMake Error: …`.
fn cmake_error(lines: &[&str], index: usize) -> Option<FirstError> {
    let rest = lines[index].trim_start().strip_prefix("CMake Error")?;
    let below = || {
        let text = lines[index + 1..].iter().map(|line| line.trim_end());
        let text = text.skip_while(|line| line.is_empty()).take_while(|line| line.starts_with("  "));
        text.map(str::trim).collect::<Vec<_>>().join(" ")
    };
    if let Some(at) = rest.strip_prefix(" at ").or_else(|| rest.strip_prefix(" in ")) {
        let at = at.trim_end_matches(':');
        let at = at.split_once(" (").map_or(at, |(at, _)| at);
        // Deferred calls have no line number.
        let at = at.strip_suffix(":DEFERRED").unwrap_or(at);
        let found = location(at).unwrap_or(FailureLocation { file: at, line: None, column: None });
        return Some(FirstError::at(found, &below()));
    }
    let message = rest.split_once(':').map_or("", |(_, message)| message).trim();
    Some(FirstError::bare(if message.is_empty() { below() } else { message.to_owned() }))
}

/// `error[E0425]: …` and the `-->` line below it.
fn rust_error(lines: &[&str], index: usize) -> Option<FirstError> {
    let line = lines[index];
    let message = line.strip_prefix("error: ").or_else(|| {
        let rest = line.strip_prefix("error[")?;
        rest.split_once("]: ").map(|(_, message)| message)
    })?;
    let pointer = lines[index + 1..].iter().take(3).find_map(|line| line.trim_start().strip_prefix("--> "));
    match pointer.and_then(|text| location(text.trim())) {
        Some(location) => Some(FirstError::at(location, message)),
        None => Some(FirstError::bare(message)),
    }
}

/// `Undefined symbols for architecture arm64:` and the symbol below it.
fn apple_linker(lines: &[&str], index: usize) -> Option<FirstError> {
    let line = lines[index].trim();
    line.starts_with("Undefined symbols for architecture").then(|| {
        let symbol = lines.get(index + 1).map_or("", |next| next.trim());
        FirstError::bare(format!("{line} {symbol}").trim_end_matches(':').to_owned())
    })
}

/// GNU ld: undefined references, missing libraries, duplicate definitions.
fn linker(line: &str) -> Option<FirstError> {
    const WORDS: [&str; 3] =
        ["undefined reference to", "multiple definition of", "DSO missing from command line"];
    let text = line.strip_prefix("ld: ").or_else(|| line.split_once("/ld: ").map(|(_, rest)| rest));
    let text = text.or_else(|| line.split_once("ld.bfd: ").map(|(_, rest)| rest)).unwrap_or(line);
    if let Some(at) = WORDS.iter().find_map(|word| line.find(word)) {
        let message = line[at..].trim();
        let before = line[..at].trim_end().trim_end_matches(':');
        let before = before.split_once("/ld: ").map_or(before, |(_, rest)| rest);
        let before = before.split_once(":(").map_or(before, |(file, _)| file);
        let found = location(before).unwrap_or(FailureLocation { file: before, line: None, column: None });
        return Some(FirstError::at(found, message));
    }
    text.starts_with("cannot find").then(|| FirstError::bare(format!("ld: {text}")))
}

/// Tools that are missing, that were killed, or that fail without a source location.
fn tool_failure(line: &str) -> Option<FirstError> {
    const FATAL: [&str; 4] = ["nvcc fatal", "ptxas fatal", "ninja: error:", "ninja: fatal:"];
    const ANYWHERE: [&str; 5] = [
        "No space left on device",
        "There is not enough space on the disk",
        "out of heap space",
        "LLVM ERROR:",
        "Segmentation fault",
    ];
    let text = line.trim();
    let not_found = text.ends_with(": not found") || text.ends_with("command not found");
    let shell = not_found && (text.contains("/sh: ") || text.contains("bash: "));
    let windows = text.contains("is not recognized as an internal or external command");
    let killed = text == "Killed" || text.contains("Killed signal terminated");
    let known =
        FATAL.iter().any(|start| text.starts_with(start)) || ANYWHERE.iter().any(|part| text.contains(part));
    (known || shell || windows || killed)
        .then(|| FirstError::bare(text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The first line that a failed step printed: after `FAILED: …` and the command.
fn output_of(lines: &[&str]) -> Option<FirstError> {
    let output = lines.iter().skip(2).map(|line| line.trim());
    output
        .take_while(|line| crate::cmake::progress::parse(line).is_none())
        .find(|line| !line.is_empty() && !is_echo(line))
        .map(FirstError::bare)
}

#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;
