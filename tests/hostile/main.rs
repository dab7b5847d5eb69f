//! Hostile text in every field of every input: no output has hidden characters, a line that a CI service executes, or an invalid document.
//!
//! Each test plants payloads into inputs, runs commands on them, and checks standard output, standard error and the written files with a
//! parser of their format. By default each field is tested once with a payload that contains all others; `--ignored` tests all combinations.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests print what they counted")]

mod check;
mod documents;
mod environment;
mod inputs;
mod payloads;
mod programs;
#[path = "../common/requirements.rs"]
mod requirements;
mod runs;
#[path = "../../src/report/hostile_samples.rs"]
mod samples;
mod state;
