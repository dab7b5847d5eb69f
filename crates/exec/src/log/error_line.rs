//! Determines whether a line of a log reports an error, and which words of it to search for.

use super::certainty::Certainty;
use super::{phrase, prefix};
use crate::diagnose::recognised_at;

/// Maximum number of search terms.
const TERMS: usize = 10;

/// Words for errors; lines without any of them are not examined.
pub(super) const ERRORS: [&str; 22] = [
    "rror",
    "RROR",
    "atal",
    "FATAL",
    "ndefined ",
    "cannot ",
    "annot open",
    "not found",
    "illed",
    "No space",
    "xception",
    "panicked",
    "ailed",
    "what():",
    "rreur",
    "ehler",
    "错误",
    "錯誤",
    "エラー",
    "шибка",
    "multiple definition",
    "Segmentation",
];

/// Text of tools that only repeat that another one failed.
const ECHOES: [&str; 16] = [
    "could not compile",
    "failed to run custom build command",
    "subprocess-exited-with-error",
    "Failed building wheel",
    "Failed to build",
    "Could not build wheels",
    "command 'gcc' failed",
    "failed with exit",
    "exited with",
    "exit code",
    "exit status",
    "build stopped",
    "errors occurred",
    "aborting due to",
    "warnings being treated",
    "Error compiling objects",
];
/// Text of tools that repeat that another one succeeded.
const SUCCESSES: [&str; 3] = ["exited with code 0", "exit code 0", "exit status 0"];
/// Text of lines that contain the word for error and report none.
const HARMLESS: [&str; 8] =
    ["0 error", "0 Error", "no error", "-Werror", "error.c", "error.h", "errors.c", "error_"];
/// Starts of messages of GPU runtimes.
const RUNTIMES: [&str; 5] = ["CUDA error", "HIP error", "ROCm error", "Vulkan error", "SYCL error"];
/// Words for error at the start of a line.
const STARTS: [&str; 24] = [
    "error",
    "Error",
    "ERROR",
    "fatal",
    "Fatal",
    "FATAL",
    "Fehler",
    "Schwerwiegender Fehler",
    "erreur",
    "Erreur",
    "错误",
    "错误:",
    "致命错误",
    "錯誤",
    "エラー",
    "致命的エラー",
    "ошибка",
    "Ошибка",
    "FAILED",
    "E: ",
    "[E]",
    "[ERROR",
    "CRITICAL",
    "!!!",
];
/// Words for error behind the place of a message.
const MARKERS: [&str; 17] = [
    ": error ",
    ": fatal error ",
    ": Fehler",
    ": Schwerwiegender Fehler",
    ": erreur",
    ": 错误",
    ": 致命错误",
    ": エラー",
    ": 致命的エラー",
    "：错误",
    ": ошибка",
    " ERROR",
    " [E] ",
    "[error]",
    "level=ERROR",
    "level=error",
    ": E ",
];

/// Determines whether the first of some lines is an error: how certain that is, its message, and whether it names a place.
pub(super) fn classify(lines: &[String]) -> Option<(Certainty, String, bool)> {
    let contains = |words: &[&str], text: &str| words.iter().any(|word| text.contains(word));
    let starts = |words: &[&str], text: &str| words.iter().any(|word| text.starts_with(word));
    let first = lines.first()?;
    let text = first.trim();
    let unprefixed = String::from_utf8_lossy(prefix::unprefixed(first.as_bytes())).into_owned();
    if contains(&ECHOES, text) && !contains(&SUCCESSES, text) {
        return Some((Certainty::Echo, unprefixed, false));
    }
    // Prefixes of build tools hide the format of the message.
    let mut bare: Vec<&str> = lines.iter().map(String::as_str).collect();
    bare[0] = &unprefixed;
    if let Some(error) = recognised_at(&bare, 0) {
        return Some((Certainty::Format, error.to_string(), error.file.is_some() && error.line.is_some()));
    }
    let is_error = !contains(&HARMLESS, text) && !unprefixed.starts_with("-- ");
    if is_error && let Some(message) = exception(&unprefixed, lines.get(1)) {
        return Some((Certainty::Format, message, false));
    }
    if is_error && (starts(&STARTS, &unprefixed) || contains(&MARKERS, &unprefixed)) {
        return Some((Certainty::Word, unprefixed, false));
    }
    Some((phrase::certainty(&unprefixed, text)?, unprefixed, false))
}

/// The message of a panic or an exception. `next` is the following line, in which newer Rust prints the message.
fn exception(line: &str, next: Option<&String>) -> Option<String> {
    if let Some((_, after)) = line.split_once("panicked at ") {
        let message = next.map(|next| next.trim()).unwrap_or_default();
        return Some(format!("{after} {message}").trim().to_owned());
    }
    if let Some(what) = line.strip_prefix("what():") {
        return Some(what.trim().to_owned());
    }
    if RUNTIMES.iter().any(|start| line.starts_with(start)) {
        return Some(line.to_owned());
    }
    let (head, _) = line.split_once(": ")?;
    let is_exception = !head.contains(' ') && ["Error", "Exception"].iter().any(|end| head.ends_with(end));
    is_exception.then(|| line.to_owned())
}

/// The words of a message without paths, numbers and addresses.
pub(super) fn search_terms(text: &str) -> String {
    let words = text.split_whitespace().filter_map(|word| {
        let inner = word.trim_matches(|c: char| "'\"`‘’“”(),:;[]<>".contains(c));
        // Of a path only the name, without `:3:5` behind it.
        let name = inner.rsplit(['/', '\\']).next().unwrap_or(inner);
        let name = name
            .split([':', '('])
            .next()
            .filter(|name| name.len() > 2 && inner.contains(['/', '\\', '.']))
            .unwrap_or(name);
        let is_number = name.starts_with("0x") || !name.chars().any(char::is_alphabetic);
        (!name.is_empty() && !is_number).then_some(name)
    });
    words.take(TERMS).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_terms_have_no_paths_and_numbers() {
        for (text, expected) in [
            ("/home/ada/x/a.c:3:5: no member named 'x' in 'struct y'", "a.c no member named x in struct y"),
            (
                "C:\\Users\\ada\\a.cpp(12): error C2065: 'x': undeclared identifier",
                "a.cpp error C2065 x undeclared identifier",
            ),
            ("failed at 0x7fff12 with 42", "failed at with"),
        ] {
            assert_eq!(search_terms(text), expected);
        }
    }
}
