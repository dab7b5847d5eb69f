//! Projects of `gpubuild new` under the real cargo: each is made, formatted, linted, and built and run with the two commands
//! of its README. llama.cpp and whisper.cpp are played by small libraries here; tests/projects has the real ones.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; they say so when they skip")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write their own files")]

mod bindings;
mod building;
mod formatting;
mod support;
