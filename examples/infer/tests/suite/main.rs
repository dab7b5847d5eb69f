//! The tests of the complete program. Tests that need a backend look for it and print a line if it is
//! missing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "test helpers panic and print like tests; small numbers are exact"
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
#[path = "../../../../tests/common/requirements.rs"]
mod requirements;
#[path = "../../../../tests/projects/sdist.rs"]
mod sdist;
mod seeds;
mod templates;
mod tokenizer;
mod truth;
mod vocabularies;

/// Bytes as lowercase hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
