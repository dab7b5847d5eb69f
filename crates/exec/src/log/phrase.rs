//! Determines whether a sentence says that something failed, by words that programs and libraries use for that. Unlike the
//! signatures, the words are not about any tool or component.

use super::certainty::Certainty;

/// Text of which a line with a phrase has at least one. Other lines are not examined.
pub(super) const TRIGGERS: [&str; 73] = [
    "annot ",
    "an't ",
    "an’t ",
    "an not ",
    "cant ",
    "Cant ",
    "ould not",
    "ouldn",
    "nable ",
    "failed",
    "failure",
    " fail ",
    "fails ",
    "failing",
    "Failed",
    "FAILED",
    "Failure",
    "FAIL ",
    "OT FOUND",
    "OTFOUND",
    "OT_FOUND",
    "o rule to",
    "nknown error",
    "nknown runtime",
    " fault",
    "llegal ",
    "o such ",
    " not ",
    "snt ",
    "sn't ",
    "sn’t ",
    "nsupported",
    "ncompatible",
    "ismatch",
    "nresolved",
    "enied",
    "ut of memory",
    "space left",
    "too old",
    "too new",
    " died",
    "erminat",
    "abort",
    "Abort",
    "crashed",
    "ssertion",
    "_ERROR_",
    "Error",
    " err:",
    "nsufficient",
    " lost",
    "efused",
    "imed out",
    "nvalid",
    "efinition",
    "unmet ",
    "indéfinie",
    "ntrouvable",
    "找不到",
    "失败",
    "失敗",
    "無法",
    "无法",
    "returned ",
    " found",
    " detected",
    " available",
    " present",
    " visible",
    " supported",
    "ould nt ",
    "core dumped",
    "compiled without ",
];

/// Phrases that say that something failed, in lower case. A space at an end stands for the border of a word.
const FAILURES: [&str; 78] = [
    " cannot ",
    " can not ",
    " can't ",
    " can’t ",
    " cant ",
    " could not ",
    " couldn't ",
    " couldn’t ",
    " couldnt ",
    " could nt ",
    " unable to ",
    " not able to ",
    " fail ",
    " failed ",
    " failure ",
    " fails ",
    " failing ",
    " not found ",
    " no such ",
    " not available ",
    " not installed ",
    " not supported ",
    " not compatible ",
    " not permitted ",
    " not enabled ",
    " not implemented ",
    " not compiled ",
    " not built ",
    " not ready ",
    " not initialized ",
    " not initialised ",
    " not accessible ",
    " not loaded ",
    " not recognized ",
    " not valid ",
    " not set up ",
    " not exist ",
    " not match ",
    " not support ",
    " not contain ",
    " not have ",
    " unsupported ",
    " incompatible ",
    " mismatch ",
    " mismatches ",
    " undefined ",
    " unresolved ",
    " denied ",
    " out of memory ",
    " no space left ",
    " too old ",
    " too new ",
    " died ",
    " killed ",
    " terminated ",
    " terminating ",
    " aborted ",
    " aborting ",
    " abort ",
    " crashed ",
    " core dumped ",
    " assertion ",
    " insufficient ",
    " lost ",
    " refused ",
    " timed out ",
    " invalid ",
    " multiple definition ",
    " no rule to ",
    " unknown error ",
    " unknown runtime ",
    " fault ",
    " illegal ",
    " not in available ",
    " compiled without ",
    " unmet ",
    " indéfinie ",
    " introuvable ",
];
/// The same in languages without spaces between words.
const FAILURES_IN_TEXT: [&str; 5] = ["找不到", "失败", "失敗", "無法", "无法"];
/// Parts of the names of status codes, in lower case.
const CODES: [&str; 5] = ["_error_", "cudaerror", "hiperror", "_not_found", "-notfound"];
/// Words before the number of an error.
const NUMBERED: [&str; 6] = ["err", "error", "returned", "code", "status", "failed"];
/// Words about whether a file is there, in lower case.
const PRESENCE: [&str; 14] = [
    " find ",
    " found ",
    " locate ",
    " located ",
    " load ",
    " loaded ",
    " open ",
    " opened ",
    " exec ",
    " no such file ",
    " exist ",
    " installed ",
    " contain ",
    " available ",
];
/// Why a file that is there cannot be opened or loaded, in lower case.
const OTHER_REASONS: [&str; 10] = [
    " undefined symbol ",
    " denied ",
    " space left ",
    " procedure ",
    " init ",
    " initialization ",
    " static tls ",
    " glibc_",
    " glibcxx_",
    " cxxabi_",
];
/// What follows `no`, with at most some words between: `no usable device was found`.
const ABSENT: [&str; 9] =
    ["found", "detected", "available", "present", "exists", "exist", "visible", "supported", "left"];
/// Number of words from `no` up to that word.
const NEAR: usize = 7;
/// Words of lines that programs print as a warning, in lower case.
const WARNINGS: [&str; 3] = ["warn", "[w:", "[w]"];
/// Words of lines that programs print as information or for debugging, in lower case.
const INFORMATION: [&str; 10] =
    [" info ", "info:", "[info]", "level=info", "debug", " dbg ", "note: ", "[i:", "[i]", "notice"];
/// Starts of lines with which CMake reports what it has checked.
const CHECKS: [&str; 4] = ["-- Performing ", "-- Looking for ", "-- Detecting ", "-- Check"];
/// Text in which words for failures have another meaning, in lower case.
const HARMLESS: [&str; 5] = ["no error", " 0 error", " 0 failed", " 0 tests failed", " failed 0 "];

/// How certain it is that a line says that something failed. `text` is the line without prefixes, `line` the line with them.
pub(super) fn certainty(text: &str, line: &str) -> Option<Certainty> {
    let words = words(text);
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let is_failure = contains(&FAILURES)
        || contains(&FAILURES_IN_TEXT)
        || contains(&CODES)
        || says_absent(&words)
        || names_number(&words);
    if !is_failure || contains(&HARMLESS) || CHECKS.iter().any(|check| text.starts_with(check)) {
        return None;
    }
    let lower = format!(" {} ", line.to_lowercase());
    let has = |levels: &[&str]| levels.iter().any(|level| lower.contains(level));
    Some(if text.starts_with("-- ") || has(&INFORMATION) {
        Certainty::Hint
    } else if has(&WARNINGS) {
        Certainty::Warning
    } else {
        Certainty::Sentence
    })
}

/// Whether a line says that something is not there or cannot be opened.
pub(super) fn says_missing(text: &str) -> bool {
    let words = words(text);
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    ((contains(&FAILURES) && contains(&PRESENCE)) || says_absent(&words)) && !contains(&OTHER_REASONS)
}

/// The words of a line in lower case, each with a space before and after it. Paths, addresses and names of options are left out:
/// they may contain any word.
fn words(text: &str) -> String {
    let is_name =
        |word: &&str| word.contains('\\') || word.matches('/').count() > 1 || word.starts_with("--");
    let is_border = |c: char| c.is_whitespace() || ":=\"(),;[]{}<>|".contains(c);
    let mut words = String::from(" ");
    for word in text.split(is_border).filter(|word| !word.is_empty() && !is_name(word)) {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '-' && c != '_');
        words.push_str(&bare.to_lowercase());
        words.push(' ');
    }
    words
}

/// Whether a line says that there is none of something.
fn says_absent(words: &str) -> bool {
    let mut rest = words.split(' ');
    rest.by_ref().any(|word| word == "no" || word == "none")
        && rest.take(NEAR).any(|word| ABSENT.contains(&word))
}

/// Whether a line has the number of an error: `err: 999`, `returned -3`.
fn names_number(words: &str) -> bool {
    let is_number = |word: &str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        digits.parse::<u64>().is_ok_and(|number| number > 0) || digits.starts_with("0x")
    };
    let mut before = "";
    words.split(' ').any(|word| {
        let is_error = NUMBERED.contains(&before) && is_number(word);
        before = word;
        is_error
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wording_decides_how_certain_a_failure_is() {
        for (line, expected) in [
            ("Could not load library libcudnn_ops_infer.so.8.", Some(Certainty::Sentence)),
            ("/bin/sh: 1: nvcc: not found", Some(Certainty::Sentence)),
            ("cuInit err: 999", Some(Certainty::Sentence)),
            ("whisper_backend_init_gpu: no GPU found", Some(Certainty::Sentence)),
            ("cudaGetDeviceCount returned 100", Some(Certainty::Sentence)),
            ("cudaGetDeviceCount returned 0", None),
            ("UserWarning: CUDA initialization failed", Some(Certainty::Warning)),
            ("level=INFO msg=\"no nvidia devices detected\"", Some(Certainty::Hint)),
            ("-- Could not find nvcc", Some(Certainty::Hint)),
            ("-- Looking for pthread_create - not found", None),
            ("/src/not found/failed/x.c", None),
            ("12 passed, 0 failed", None),
            ("all is well", None),
        ] {
            assert_eq!(certainty(line, line), expected, "{line}");
        }
    }

    #[test]
    fn lines_with_a_phrase_are_examined() {
        let words: Vec<&str> = TRIGGERS.into_iter().chain(crate::log::error_line::ERRORS).collect();
        for phrase in FAILURES.into_iter().chain(FAILURES_IN_TEXT) {
            assert!(words.iter().any(|word| phrase.contains(word)), "{phrase}");
        }
        // The index ignores shorter ones.
        assert!(TRIGGERS.iter().all(|trigger| trigger.len() >= 4));
    }
}
