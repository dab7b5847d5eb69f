//! Classifies the result of a child probe: an answer, an error, a crash, a hang or invalid output.

use serde::Deserialize;

use crate::{CommandOutput, ProbeAnswer, ProbeStatus, RunError};

/// The last line that a child probe prints. Vendor libraries may print text before it.
#[derive(Debug, Deserialize)]
struct ChildLine {
    status: ProbeStatus,
    #[serde(default)]
    error: String,
    #[serde(default)]
    answer: serde_json::Value,
}

/// Converts the child's exit into a probe answer.
pub(super) fn classify(result: Result<CommandOutput, RunError>) -> ProbeAnswer {
    let output = match result {
        Ok(output) => output,
        Err(error) => {
            let status = match error {
                RunError::Timeout { .. } => ProbeStatus::Timeout,
                _ => ProbeStatus::Failed,
            };
            return without_answer(status, error.to_string());
        }
    };
    if let Some(cause) = crash(&output) {
        return without_answer(ProbeStatus::Crashed, with_last_line(cause, &output));
    }
    let line =
        output.stdout.lines().rev().find_map(|line| serde_json::from_str::<ChildLine>(line.trim()).ok());
    match line {
        Some(line) if line.status == ProbeStatus::Ok && line.answer.is_null() => {
            without_answer(ProbeStatus::Failed, "the probe reported `ok` without an answer".to_owned())
        }
        Some(line) => ProbeAnswer {
            status: line.status,
            error: line.error,
            answer: if line.answer.is_null() { String::new() } else { line.answer.to_string() },
        },
        None => without_answer(
            ProbeStatus::Failed,
            with_last_line("the probe's output is invalid".to_owned(), &output),
        ),
    }
}

fn without_answer(status: ProbeStatus, error: String) -> ProbeAnswer {
    ProbeAnswer { status, error, answer: String::new() }
}

/// Describes a crash; `None` if the child exited normally.
fn crash(output: &CommandOutput) -> Option<String> {
    if let Some(signal) = output.signal {
        return Some(format!("ended by signal {signal}{}", signal_name(signal)));
    }
    match output.exit {
        // The exit status of a Rust panic.
        Some(101) => Some("panicked".to_owned()),
        // On Windows, an NTSTATUS of severity "error": 0xC0000005 for an access violation.
        Some(code) if code.cast_unsigned() >= 0xC000_0000 => {
            Some(format!("ended by exception 0x{:08X}", code.cast_unsigned()))
        }
        _ => None,
    }
}

fn signal_name(signal: i32) -> &'static str {
    // These numbers are the same on Linux and macOS.
    match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        8 => " (arithmetic error)",
        9 => " (killed)",
        11 => " (segmentation fault)",
        _ => "",
    }
}

fn with_last_line(mut cause: String, output: &CommandOutput) -> String {
    let last =
        output.stderr.lines().chain(output.stdout.lines()).map(str::trim).rfind(|line| !line.is_empty());
    if let Some(last) = last {
        cause.push_str(": ");
        cause.extend(last.chars().take(200));
    }
    cause
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn output(stdout: &str, stderr: &str, exit: i32) -> CommandOutput {
        CommandOutput { stdout: stdout.into(), stderr: stderr.into(), exit: Some(exit), signal: None }
    }

    fn check(result: Result<CommandOutput, RunError>, status: ProbeStatus, error: &str, answer: &str) {
        let expected = ProbeAnswer { status, error: error.into(), answer: answer.into() };
        assert_eq!(classify(result), expected);
    }

    #[test]
    fn an_answer_is_found_in_output_of_a_library() {
        let stdout = "MESA: warning\n{\"status\":\"ok\",\"answer\":{\"devices\":[]}}\nbye\n";
        check(Ok(output(stdout, "", 0)), ProbeStatus::Ok, "", r#"{"devices":[]}"#);
        check(
            Ok(output(r#"{"status":"failed","error":"no libcuda"}"#, "", 0)),
            ProbeStatus::Failed,
            "no libcuda",
            "",
        );
    }

    #[test]
    fn crashes_and_invalid_output_become_errors() {
        let killed =
            Ok(CommandOutput { signal: Some(11), stderr: "dumping\n".into(), ..CommandOutput::default() });
        check(killed, ProbeStatus::Crashed, "ended by signal 11 (segmentation fault): dumping", "");
        let violation = 0xC000_0005_u32.cast_signed();
        check(Ok(output("", "", violation)), ProbeStatus::Crashed, "ended by exception 0xC0000005", "");
        check(
            Ok(output("{\"status\":", "", 0)),
            ProbeStatus::Failed,
            "the probe's output is invalid: {\"status\":",
            "",
        );
        check(
            Ok(output(r#"{"status":"ok"}"#, "", 0)),
            ProbeStatus::Failed,
            "the probe reported `ok` without an answer",
            "",
        );
        let timeout = RunError::Timeout { program: "gpubuild".into(), deadline: Duration::from_secs(3) };
        check(Err(timeout), ProbeStatus::Timeout, "`gpubuild` timed out after 3 s", "");
    }
}
