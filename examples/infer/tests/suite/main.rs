//! The tests of the whole program. What needs a backend asks for it and says where it is missing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "helpers of tests fail and talk as tests do; small numbers are exact"
)]

mod bindings;
mod chat;
mod cli;
mod common;
mod corpus;
mod discovery;
#[cfg(target_os = "linux")]
mod empty_root;
mod forward;
mod generate;
mod hard_strings;
mod loading;
mod malformed;
mod memory;
mod offload;
mod oracle;
#[cfg(unix)]
mod progress;
#[path = "../../../../tests/projects/sdist.rs"]
mod sdist;
mod seeds;
mod templates;
mod tokenizer;
mod truth;
mod vocabularies;

/// Whether `GPUBUILD_REQUIRE`, a list with commas, names something that tests may otherwise skip.
fn required(what: &str) -> bool {
    std::env::var("GPUBUILD_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item.trim() == what))
}

/// Bytes as lowercase digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
