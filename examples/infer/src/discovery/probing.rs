//! Probes a backend in a child process, and turns every failure into a reason.

use super::Answer;
use crate::child::{self, Ended};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Maximum length of an answer; a valid one is shorter.
const LONGEST: u64 = 1 << 20;

/// Starts `program __probe ID` and reads its answer.
#[must_use]
pub fn ask(program: &Path, id: &str, timeout: Duration) -> Answer {
    let ended = match child::run(Command::new(program).args(["__probe", id]), Vec::new(), LONGEST, timeout) {
        Ok(Some(ended)) => ended,
        Ok(None) => {
            return Answer::failed(
                id,
                format!("its driver did not answer within {} s", timeout.as_secs_f32()),
            );
        }
        Err(error) => return Answer::failed(id, format!("cannot start the probe: {error}")),
    };
    let Ended { status, output, talk } = ended;
    if !status.success() {
        return Answer::failed(id, format!("its driver {}{}", ending(status), last_words(&talk)));
    }
    match serde_json::from_slice::<Answer>(&output) {
        Ok(answer) if answer.backend == id => answer,
        Ok(answer) => Answer::failed(id, format!("the probe answered for `{}`", answer.backend)),
        Err(error) => Answer::failed(id, format!("the probe returned an invalid answer: {error}")),
    }
}

fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("crashed (signal {signal})");
    }
    status.code().map_or_else(|| "crashed".to_owned(), |code| format!("ended the probe with code {code}"))
}

fn last_words(talk: &[u8]) -> String {
    let talk = String::from_utf8_lossy(talk);
    let last = talk.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!(": {}", line.chars().take(200).collect::<String>()))
}
