//! Projects of `gpubuild new` under cargo: each is created, formatted, linted, and built and run with the two
//! commands of its README. Small libraries replace llama.cpp and whisper.cpp; tests/projects uses the real ones.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests print why they skip")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write their own files")]

mod bindings;
mod building;
mod formatting;
mod recording;
#[path = "../common/requirements.rs"]
mod requirements;
#[path = "../install/server.rs"]
#[expect(dead_code, reason = "the installation needs more faults")]
mod server;
mod support;
